//! `adaptive` beside the best of the others, in one line for each scenario.
//!
//! In:    rows.
//! Out:   for each row of `adaptive` the fastest rival, and the one whose readers wait least.
//! Never: a short wait of readers that get less.

use super::losses::{SAME, rivals_of, rows_of_adaptive, serves_as_well};
use super::row::RivalRow;

/// A row of `adaptive`, and the best of the others beside it.
#[derive(Clone, Copy, Debug)]
pub struct RivalSummary<'r> {
    /// Its own.
    pub ours: &'r RivalRow,
    /// The most bytes a second; of rivals that are as fast, the one whose readers wait least. None
    /// if there is no rival.
    pub fastest: Option<&'r RivalRow>,
    /// The least waiting, of the rivals that serve as well: as many bytes a second, as many clients
    /// at their rate. None if there is none.
    pub least_waiting: Option<&'r RivalRow>,
}

/// Summarises each row of `adaptive`.
#[must_use]
pub fn summaries(rows: &[RivalRow]) -> Vec<RivalSummary<'_>> {
    let summary = |ours| {
        let rivals = rivals_of(ours, rows);
        let most = rivals.iter().map(|row| row.mb_per_s).fold(0.0, f64::max);
        let fastest = rivals.iter().filter(|row| row.mb_per_s >= most * SAME);
        let serving = rivals.iter().filter(|row| serves_as_well(row, ours));
        RivalSummary {
            ours,
            fastest: least_waiting(fastest),
            least_waiting: least_waiting(serving),
        }
    };
    rows_of_adaptive(rows).map(summary).collect()
}

fn least_waiting<'a, 'r: 'a>(rows: impl Iterator<Item = &'a &'r RivalRow>) -> Option<&'r RivalRow> {
    rows.copied().min_by(|a, b| a.waited_s.total_cmp(&b.waited_s))
}
