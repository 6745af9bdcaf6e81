//! The seeds: every published table, and the same figures from the simulator.
//!
//! Out:   each cell as published and as simulated, and a verdict on each table.
//! Never: a cell left out because it does not fit.
//!
//! One file per seed. The scenarios of a table are in `scenarios/`; the code here sets only the
//! parameters that the table varies.

mod csv;
mod s000;
mod s001;
mod s001_exact;
mod s002;
mod s003;
mod s004;
mod table;

pub use table::{SeedCell, SeedProgress, SeedTable, SeedVerdict};

/// A seed by its number, and the function that computes its tables.
struct Seed {
    number: &'static str,
    tables: fn(SeedProgress<'_>) -> Vec<SeedTable>,
}

const SEEDS: [Seed; 5] = [
    Seed { number: "000", tables: s000::tables },
    Seed { number: "001", tables: s001::tables },
    Seed { number: "002", tables: s002::tables },
    Seed { number: "003", tables: s003::tables },
    Seed { number: "004", tables: s004::tables },
];

/// Returns the numbers of all seeds.
pub fn numbers() -> impl Iterator<Item = &'static str> {
    SEEDS.iter().map(|seed| seed.number)
}

/// Computes the tables of all seeds, or of one; `progress` receives a description of each run.
#[must_use]
pub fn tables(only: Option<&str>, progress: SeedProgress<'_>) -> Vec<SeedTable> {
    let wanted = SEEDS.iter().filter(|seed| only.is_none_or(|only| only == seed.number));
    wanted.flat_map(|seed| (seed.tables)(progress)).collect()
}
