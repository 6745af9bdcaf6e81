//! A published table beside the figures of the simulator.
//!
//! In:    published figures and simulated ones.
//! Out:   cells with their errors; the verdict on a table.
//! Never: a cell that is left out because it does not fit.

use serde::Serialize;

/// One table.
#[derive(Clone, Debug, Serialize)]
pub struct SeedTable {
    /// The seed's number, `000` to `004`.
    pub seed: &'static str,
    /// The table's name.
    pub table: &'static str,
    /// What it shows, and in which unit.
    pub title: String,
    /// Its cells, row by row.
    pub cells: Vec<SeedCell>,
    /// What a reader has to know: how it was run, what cannot be met and why.
    pub notes: Vec<String>,
    /// What it comes to.
    pub verdict: SeedVerdict,
}

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub struct SeedCell {
    /// Of which row.
    pub row: String,
    /// Of which column.
    pub column: String,
    /// As it was published; None if it was not.
    pub seed: Option<f64>,
    /// As it comes out here.
    pub ours: f64,
    /// How far ours is off, in percent of the seed's; None if there is no such.
    pub error_percent: Option<f64>,
    /// Whether the seed marked it `==>`.
    pub is_marked: bool,
}

/// What a table comes to.
#[derive(Clone, Debug, Serialize)]
pub struct SeedVerdict {
    /// Whether it is as it should be.
    pub holds: bool,
    /// Why, with the figures that say so.
    pub why: String,
}

/// Is told what is being run.
pub type SeedProgress<'p> = &'p mut dyn FnMut(&str);

impl SeedCell {
    /// A figure beside the one that was published.
    #[must_use]
    pub fn new(row: impl Into<String>, column: impl Into<String>, seed: f64, ours: f64) -> Self {
        let error_percent = Some(error_percent(seed, ours));
        let (row, column) = (row.into(), column.into());
        Self { row, column, seed: Some(seed), ours, error_percent, is_marked: false }
    }

    /// A figure beside which none was published.
    #[must_use]
    pub fn ours_only(row: impl Into<String>, column: impl Into<String>, ours: f64) -> Self {
        let (row, column) = (row.into(), column.into());
        Self { row, column, seed: None, ours, error_percent: None, is_marked: false }
    }
}

/// How far one is off, in percent of what it should be; of 0, whether it is 0 too.
fn error_percent(seed: f64, ours: f64) -> f64 {
    if seed == ours {
        0.0
    } else if seed == 0.0 {
        100.0
    } else {
        (ours / seed - 1.0) * 100.0
    }
}

/// The largest and the median error of cells, both without their sign.
pub(super) fn errors<'c>(cells: impl IntoIterator<Item = &'c SeedCell>) -> Errors {
    let of_cells = cells.into_iter().filter_map(|cell| cell.error_percent);
    let mut errors: Vec<f64> = of_cells.map(f64::abs).collect();
    errors.sort_unstable_by(f64::total_cmp);
    let median = errors.get(errors.len() / 2).copied().unwrap_or(0.0);
    Errors { median, max: errors.last().copied().unwrap_or(0.0) }
}

pub(super) struct Errors {
    pub(super) median: f64,
    pub(super) max: f64,
}
