//! Seed 003: the deadline scheduler of September 2002, a flood of writes, and a cat.

mod capture;
mod cat;
mod targets;
mod vmstat;

use super::table::{SeedProgress, SeedTable};

pub(super) fn tables(progress: SeedProgress<'_>) -> Vec<SeedTable> {
    let [seconds, baselines] = cat::tables(progress);
    vec![seconds, baselines, vmstat::table(progress), capture::table(progress)]
}
