//! A row of the comparison, as a person reads it.

use foreread_sim::rivals::RivalRow;

/// The cells of a row, as a person reads them.
pub(super) fn cells(row: &RivalRow) -> [String; 11] {
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
        format!("{:.1}", row.device_s),
        format!("{:.3}", row.amplification),
        row.evicted_unread.to_string(),
        format!("{:.1}", row.waited_s),
        if row.streams > 0 { at_rate } else { none() },
    ]
}
