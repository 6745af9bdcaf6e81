//! The seeds: every published table beside what the simulator makes of it.
//!
//! In:    nothing; the tables are part of the program.
//! Out:   each cell as it was published and as it comes out here, and a verdict on each table.
//! Never: a cell that is left out because it does not fit.
//!
//! One file per seed. A table's scenarios are in `scenarios/`; only what the table varies is set
//! here.

mod csv;
mod s000;
mod s001;
mod s001_exact;
mod s002;
mod s003;
mod s004;
mod table;

pub use table::{SeedCell, SeedProgress, SeedTable, SeedVerdict};

/// A seed by its number, and how its tables are made.
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

/// The numbers of all seeds.
pub fn numbers() -> impl Iterator<Item = &'static str> {
    SEEDS.iter().map(|seed| seed.number)
}

/// The tables of all seeds, or of one; `progress` is told what is being run.
#[must_use]
pub fn tables(only: Option<&str>, progress: SeedProgress<'_>) -> Vec<SeedTable> {
    let wanted = SEEDS.iter().filter(|seed| only.is_none_or(|only| only == seed.number));
    wanted.flat_map(|seed| (seed.tables)(progress)).collect()
}
