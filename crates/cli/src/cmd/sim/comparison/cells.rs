//! A row of the comparison, as a person reads it.

use foreread_core::prefetch::Policy;
use foreread_core::sizes::Exact;
use foreread_core::units::ByteCount;
use foreread_sim::comparison::{ComparedFigure, ComparisonRow};
use foreread_sim::mean_interval::RatioInterval;

use super::super::report::window_words;

/// The names of the columns.
pub(super) const HEADING: [&str; 11] = [
    "policy, window, memory",
    "MB/s",
    "waited s",
    "requests",
    "x bytes",
    "unread",
    "p50 ms",
    "p99 ms",
    "p99.9 ms",
    "x MB/s",
    "x waited",
];

/// How many of them there are where one policy is compared with nothing.
pub(super) const OF_ONE_POLICY: usize = HEADING.len() - 2;

/// The cells of a row.
pub(super) fn cells(row: &ComparisonRow) -> [String; HEADING.len()] {
    let some = |figure: Option<ComparedFigure>| {
        figure.map_or_else(|| "-".to_owned(), |figure| mean(figure, 3))
    };
    // The mean of counts has a digit behind the point; one count has none.
    let digits = usize::from(row.seeds > 1);
    [
        // In one column: a table that is broken repeats the first.
        format!("{}, {}", label(row), Exact(ByteCount(row.memory))),
        mean(row.mb_per_s, 2),
        mean(row.waited_s, 3),
        mean(row.requests, digits),
        mean(row.amplification, 3),
        mean(row.evicted_unread, digits),
        some(row.wait_p50_ms),
        some(row.wait_p99_ms),
        some(row.wait_p999_ms),
        ratio(row.mb_per_s.over_first),
        ratio(row.waited_s.over_first),
    ]
}

/// The policy and its largest window; one without read-ahead has none.
pub(super) fn label(row: &ComparisonRow) -> String {
    if row.policy == Policy::None.name() {
        return row.policy.to_owned();
    }
    format!("{} {}", row.policy, window_words(row.max_window.map(ByteCount)))
}

/// A mean with its interval, if it has one.
fn mean(figure: ComparedFigure, digits: usize) -> String {
    let mean = figure.over_seeds.mean;
    match figure.over_seeds.half_width {
        Some(half_width) => format!("{mean:.digits$} +-{half_width:.digits$}"),
        None => format!("{mean:.digits$}"),
    }
}

/// A ratio with its interval, if it has one; `-` of none.
fn ratio(ratio: Option<RatioInterval>) -> String {
    match ratio {
        Some(RatioInterval { ratio, low: Some(low), high: Some(high) }) => {
            format!("{ratio:.3} ({low:.3}-{high:.3})")
        }
        Some(RatioInterval { ratio, .. }) => format!("{ratio:.3}"),
        None => "-".to_owned(),
    }
}
