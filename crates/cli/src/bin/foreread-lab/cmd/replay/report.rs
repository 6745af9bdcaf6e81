//! Report of replays: a table for each trace, and a conclusion.

use std::io::Write as _;

use foreread_core::prefetch::Policy;
use foreread_core::sizes::Exact;
use foreread_core::units::ByteCount;
use foreread_sim::json_rows::{ReplayRow, ReplaySetup, WaitRow};

use foreread_cli::output::{Failure, Printer};
use foreread_cli::table;

pub(super) fn memory_words(memory: u64) -> String {
    Exact(ByteCount(memory)).to_string()
}

pub(super) fn cells(row: &ReplayRow) -> [String; 15] {
    let WaitRow { p50, p99, p999, .. } = row.wait_ms;
    let none = || "-".to_owned();
    #[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
    let times = |count: u64, least: u64| {
        if least == 0 { none() } else { format!("{:.2}", count as f64 / least as f64) }
    };
    #[expect(clippy::cast_precision_loss, reason = "one digit is shown")]
    let waits = row.waits as f64 / row.reads.max(1) as f64 * 100.0;
    [
        row.setup.label.clone(),
        memory_words(row.setup.memory),
        format!("{waits:.1} %"),
        format!("{:.3}", row.waited_s),
        row.least_waited_s.map_or_else(none, |least| format!("{least:.3}")),
        format!("{p50:.2}"),
        format!("{p99:.2}"),
        format!("{p999:.2}"),
        row.requests.to_string(),
        row.fewest_requests.map_or_else(none, |fewest| times(row.requests, fewest)),
        format!("{:.2}", row.device_s),
        format!("{:.3}", row.amplification),
        row.fewest_bytes.map_or_else(none, |fewest| times(row.device_bytes, fewest)),
        row.evicted_unread.to_string(),
        format!("{:.1}", row.elapsed_s),
    ]
}

/// Prints a table and a conclusion for each trace.
pub(super) fn print(out: &mut Printer, rows: &[ReplayRow]) -> Result<(), Failure> {
    print_each(
        out,
        rows,
        |row| &row.setup.trace,
        |out, of_trace| {
            out.entry("", &headline(&of_trace[0]))?;
            writeln!(out)?;
            table::print(out, HEADING, of_trace.iter().map(cells))?;
            Ok(sentence(of_trace))
        },
    )
}

/// Returns trace, settings and device of a replay.
pub(super) fn headline(row: &ReplayRow) -> String {
    let ReplayRow { setup, reads, .. } = row;
    let ReplaySetup { trace, level, pace, scale, device, warm, .. } = setup;
    let cache = if *warm { ", warm cache" } else { "" };
    format!("{trace}: {reads} reads, {level} level, {pace} loop x {scale}, on {device}{cache}")
}

/// Prints the rows trace by trace: `table` prints those of one trace and returns a sentence to
/// print after them.
pub(super) fn print_each<R>(
    out: &mut Printer,
    rows: &[R],
    trace: impl Fn(&R) -> &str,
    table: impl Fn(&mut Printer, &[R]) -> Result<Option<String>, Failure>,
) -> Result<(), Failure> {
    let chunks = rows.chunk_by(|one, next| trace(one) == trace(next));
    for (n, of_trace) in chunks.enumerate() {
        if n > 0 {
            writeln!(out)?;
        }
        if let Some(sentence) = table(out, of_trace)? {
            writeln!(out)?;
            out.entry("", &sentence)?;
        }
    }
    Ok(())
}

pub(super) const HEADING: [&str; 15] = [
    "policy", "memory", "waits", "waited s", "least s", "p50 ms", "p99 ms", "p99.9 ms", "requests",
    "x req", "device s", "x bytes", "x MIN", "unread", "elapsed",
];

/// Returns the waiting that the best policy saves compared with no read-ahead, and the effect of
/// more memory.
pub(super) fn sentence(rows: &[ReplayRow]) -> Option<String> {
    let smallest = rows.iter().map(|row| row.setup.memory).min()?;
    let none = Policy::None.name();
    let of = |memory: u64| {
        let base =
            rows.iter().find(|row| row.setup.memory == memory && row.setup.policy == none)?;
        let others =
            rows.iter().filter(|row| row.setup.memory == memory && row.setup.policy != none);
        let best = others.min_by(|one, other| one.waited_s.total_cmp(&other.waited_s))?;
        Some((best, percent_saved(best, base)))
    };
    let size = memory_words;
    let (best, saved) = of(smallest)?;
    let base = rows.iter().find(|row| row.setup.memory == smallest && row.setup.policy == none)?;
    if base.waits == 0 {
        return Some(format!("With {}, no read waits, also without read-ahead.", size(smallest)));
    }
    let mut text = if saved > 0.5 {
        let (memory, label) = (size(smallest), &best.setup.label);
        format!("With {memory}, {label} saves {saved:.0} % of the waiting without read-ahead")
    } else {
        format!("With {}, read-ahead saves nothing of this trace", size(smallest))
    };
    let more = rows.iter().map(|row| row.setup.memory).filter(|memory| *memory > smallest);
    if let Some(largest) = more.max()
        && let Some((row, _)) = of(largest)
    {
        let all = percent_saved(row, base);
        let (memory, points) = (size(largest), all - saved.max(0.0));
        text += &if points < 0.5 {
            format!("; {memory} would save no more")
        } else {
            format!("; {memory} would save {points:.0} points more (with {})", row.setup.label)
        };
    }
    Some(text + ".")
}

/// Returns the reduction of waiting relative to `base` in percent; 0 if no read waits.
fn percent_saved(row: &ReplayRow, base: &ReplayRow) -> f64 {
    if base.waited_s > 0.0 { (1.0 - row.waited_s / base.waited_s) * 100.0 } else { 0.0 }
}

/// Returns notes on one replay.
pub(super) fn notes(row: &ReplayRow) -> Vec<String> {
    let mut notes = Vec::new();
    let label = &row.setup.label;
    if row.failed > 0 {
        notes.push(format!("{label}: {} reads failed", row.failed));
    }
    if row.late > 0 {
        let memory = memory_words(row.setup.memory);
        notes.push(format!(
            "{label} with {memory}: the device cannot keep up with the times of the trace: {} reads \
             began late, with 1024 others in flight; --loop closed, or a larger --scale",
            row.late
        ));
    }
    notes
}
