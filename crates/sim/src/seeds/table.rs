//! A published table next to the simulated figures: cells with their errors, and a verdict on the
//! table. No cell is left out because it does not fit.

use serde::Serialize;

/// One table.
#[derive(Clone, Debug, Serialize)]
pub struct SeedTable {
    /// Number of the seed, `000` to `004`.
    pub seed: &'static str,
    /// Name of the table.
    pub table: &'static str,
    /// Subject and unit.
    pub title: String,
    /// Cells, row by row.
    pub cells: Vec<SeedCell>,
    /// Notes for the reader: the method, and the cells that cannot be met, with the reason.
    pub notes: Vec<String>,
    /// Verdict on the table.
    pub verdict: SeedVerdict,
}

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub struct SeedCell {
    /// Row name.
    pub row: String,
    /// Column name.
    pub column: String,
    /// Published figure, if any.
    pub seed: Option<f64>,
    /// Simulated figure.
    pub ours: f64,
    /// Relative error of the simulated figure, in percent; None without a published one.
    pub error_percent: Option<f64>,
    /// True if the seed marked it `==>`.
    pub is_marked: bool,
}

/// Verdict on a table.
#[derive(Clone, Debug, Serialize)]
pub struct SeedVerdict {
    /// True if the table is reproduced.
    pub holds: bool,
    /// Reason, with the supporting figures.
    pub why: String,
}

/// Receives a description of each run.
pub type SeedProgress<'p> = &'p mut dyn FnMut(&str);

impl SeedCell {
    /// Creates a cell with its published figure.
    #[must_use]
    pub fn new(row: impl Into<String>, column: impl Into<String>, seed: f64, ours: f64) -> Self {
        let error_percent = Some(error_percent(seed, ours));
        let (row, column) = (row.into(), column.into());
        Self { row, column, seed: Some(seed), ours, error_percent, is_marked: false }
    }

    /// Creates a cell without a published figure.
    #[must_use]
    pub fn ours_only(row: impl Into<String>, column: impl Into<String>, ours: f64) -> Self {
        let (row, column) = (row.into(), column.into());
        Self { row, column, seed: None, ours, error_percent: None, is_marked: false }
    }
}

/// Returns the relative error in percent; if the target is 0, 0 for an exact match.
fn error_percent(seed: f64, ours: f64) -> f64 {
    if seed == ours {
        0.0
    } else if seed == 0.0 {
        100.0
    } else {
        (ours / seed - 1.0) * 100.0
    }
}

/// Returns the largest and the median absolute error of cells.
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
