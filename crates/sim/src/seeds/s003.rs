//! Seed 003: the deadline scheduler of September 2002, a flood of writes, and a cat.

mod capture;
mod cat;
mod vmstat;

use super::{SeedProgress, SeedTable};

pub(super) fn tables(progress: SeedProgress<'_>) -> Vec<SeedTable> {
    let [seconds, baselines] = cat::tables(progress);
    vec![seconds, baselines, vmstat::table(progress), capture::table(progress)]
}

/// Things that have to hold, each with its figures.
#[derive(Debug, Default)]
struct Targets {
    holds: bool,
    why: Vec<String>,
}

impl Targets {
    fn new() -> Self {
        Self { holds: true, why: Vec::new() }
    }

    fn add(&mut self, holds: bool, what: String) {
        self.holds &= holds;
        self.why.push(if holds { what } else { format!("not met: {what}") });
    }

    fn verdict(self) -> super::SeedVerdict {
        super::SeedVerdict { holds: self.holds, why: self.why.join("; ") }
    }
}
