//! A row of the comparison, as a person reads it.

use foreread_sim::rivals::RivalRow;

/// The names of the columns.
pub(super) const HEADING: [&str; 13] = [
    "scenario", "policy", "elapsed", "MB/s", "requests", "x best", "x req", "device s", "x bytes",
    "x MIN", "unread", "waited s", "at rate",
];

/// The cells of a row, as a person reads them.
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

/// How many times the least that is; `-` where the least is unknown, or nothing.
#[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
fn times(count: u64, least: Option<u64>) -> String {
    match least {
        Some(least) if least > 0 => format!("{:.2}", count as f64 / least as f64),
        Some(_) | None => "-".to_owned(),
    }
}
