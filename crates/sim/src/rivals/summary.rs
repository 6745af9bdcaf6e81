//! Compares `adaptive` with the best of the other policies, one line per scenario: the fastest
//! rival, and the one with the least waiting among those that serve as well.

use super::losses::{SAME, rivals_of, rows_of_adaptive, serves_as_well};
use super::row::RivalRow;

/// A row of `adaptive`, and its best rivals.
#[derive(Clone, Copy, Debug)]
pub struct RivalSummary<'r> {
    /// The row of `adaptive`.
    pub ours: &'r RivalRow,
    /// Rival with the highest throughput; among equals, the one whose readers wait least. None
    /// without a rival.
    pub fastest: Option<&'r RivalRow>,
    /// Rival with the least waiting, among those that serve as well: same throughput, and as many
    /// clients at their rate. None without one.
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
