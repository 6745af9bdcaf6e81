//! A row of the comparison, as a person reads it.

use foreread_core::prefetch::Policy;
use foreread_core::sizes::Exact;
use foreread_core::units::ByteCount;
use foreread_sim::comparison::ComparisonRow;

use super::super::report::window_words;
use crate::intervals::{mean, ratio, some_mean};

/// The names of the columns.
pub(super) const HEADING: [&str; 14] = [
    "policy, window, memory",
    "MB/s",
    "waited s",
    "requests",
    "x best",
    "x req",
    "x bytes",
    "x MIN",
    "unread",
    "p50 ms",
    "p99 ms",
    "p99.9 ms",
    "x MB/s",
    "x waited",
];

/// Number of columns if a single policy is compared with nothing.
pub(super) const OF_ONE_POLICY: usize = HEADING.len() - 2;

/// Returns the cells of a row.
pub(super) fn cells(row: &ComparisonRow) -> [String; HEADING.len()] {
    // The mean of counts has a digit behind the point; one count has none.
    let digits = usize::from(row.seeds > 1);
    [
        // One column for all, because a table that wraps repeats the first column.
        format!("{}, {}", label(row), Exact(ByteCount(row.memory))),
        mean(row.mb_per_s, 2),
        mean(row.waited_s, 3),
        mean(row.requests, digits),
        some_mean(row.requests_over_optimum, 2),
        some_mean(row.requests_over_fewest, 2),
        mean(row.amplification, 3),
        some_mean(row.bytes_over_fewest, 3),
        mean(row.evicted_unread, digits),
        some_mean(row.wait_p50_ms, 3),
        some_mean(row.wait_p99_ms, 3),
        some_mean(row.wait_p999_ms, 3),
        ratio(row.mb_per_s.over_first),
        ratio(row.waited_s.over_first),
    ]
}

/// Formats the policy and its largest window, if it reads ahead.
pub(super) fn label(row: &ComparisonRow) -> String {
    if row.policy == Policy::None.name() {
        return row.policy.to_owned();
    }
    format!("{} {}", row.policy, window_words(row.max_window.map(ByteCount)))
}
