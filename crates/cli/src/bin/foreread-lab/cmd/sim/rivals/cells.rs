//! A row of the comparison, as a person reads it.

use foreread_sim::cache_policy::CachePolicyKind;
use foreread_sim::rivals::{RivalRow, RivalSummary};

/// The names of the columns.
pub(super) const HEADING: [&str; 13] = [
    "scenario", "policy", "elapsed", "MB/s", "requests", "x best", "x req", "device s", "x bytes",
    "x MIN", "unread", "waited s", "at rate",
];

/// Formats the cells of a row for people.
pub(super) fn cells(row: &RivalRow) -> [String; 13] {
    #[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
    let over = |optimum: f64| format!("{:.2}", row.requests as f64 / optimum);
    let none = || "-".to_owned();
    let at_rate = format!("{} of {}", row.at_rate, row.streams);
    [
        row.scenario.to_owned(),
        row.label(),
        format!("{:.1}", row.elapsed_s),
        format!("{:.1}", row.mb_per_s),
        row.requests.to_string(),
        row.optimum_requests.map_or_else(none, over),
        times(row.requests, row.fewest_requests),
        format!("{:.1}", row.device_s),
        format!("{:.3}", row.amplification),
        times(row.device_bytes, row.fewest_bytes),
        row.evicted_unread.to_string(),
        format!("{:.1}", row.waited_s),
        if row.streams > 0 { at_rate } else { none() },
    ]
}

/// The columns of `--summary`.
pub(super) const SUMMARY_HEADING: [&str; 5] =
    ["scenario", "MB/s", "fastest other", "waited s", "least waiting other"];

/// Returns the cells of a scenario.
pub(super) fn summary_cells(summary: &RivalSummary<'_>) -> [String; 5] {
    let ours = summary.ours;
    let eviction = Some(ours.eviction).filter(|name| *name != CachePolicyKind::TwoLists.name());
    let scenario = ours.scenario.to_owned();
    let other = |row: Option<&RivalRow>, figure: fn(&RivalRow) -> f64| {
        row.map_or_else(
            || "-".to_owned(),
            |row| format!("{} {:.1}", row.policy_label(), figure(row)),
        )
    };
    [
        eviction.map_or(scenario.clone(), |eviction| format!("{scenario}, {eviction}")),
        format!("{:.1}", ours.mb_per_s),
        other(summary.fastest, |row| row.mb_per_s),
        format!("{:.1}", ours.waited_s),
        other(summary.least_waiting, |row| row.waited_s),
    ]
}

/// Returns the ratio to the minimum; `-` if that is unknown or 0.
#[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
fn times(count: u64, least: Option<u64>) -> String {
    match least {
        Some(least) if least > 0 => format!("{:.2}", count as f64 / least as f64),
        Some(_) | None => "-".to_owned(),
    }
}
