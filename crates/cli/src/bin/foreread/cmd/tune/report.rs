//! Report of a measurement as text: a headline, a table of windows with `==>` at the recommended
//! one, and conclusions.
//!
//! ```text
//!   sdb: 1M is best for mixed reads ...
//!        window   MB/s   from     to  next gains  one read of it  100 streams hold
//!        512K    119.7  118.9  120.0     +84.4 %          4.9 ms              100M
//!   ==>  1M      220.7  217.7  220.7      +3.1 %          5.6 ms              200M
//! ```
//!
//! `one read of it` is the time of a read of that size at a random offset: a fault in a mapped file
//! waits for it, and so does every read queued behind it.

use std::io::Write as _;

use foreread_core::sizes::Exact;
use foreread_core::units::ByteCount;
use foreread_tune::advice::{Tradeoff, beside, tradeoffs};
use foreread_tune::flood::{FloodReport, FloodRow};
use foreread_tune::report::{Method, Recommended, Report, WindowResult};

use super::headline::headline;
use super::plan::TuneAction;
use super::remembered::words;
use foreread_cli::output::{Failure, Printer};
use foreread_cli::table;

/// Prints the table and its conclusions.
pub(super) fn print(out: &mut Printer, report: &Report, action: TuneAction) -> Result<(), Failure> {
    let how = match report.method {
        Method::Kernel => "the kernel's own read-ahead",
        Method::Direct => "O_DIRECT, with the requests that the kernel would make",
        Method::Simulated => "a model, in virtual time",
    };
    out.entry("", &headline(report, action))?;
    out.entry("", &format!("measured by {how}, {:.0} s", report.seconds))?;
    writeln!(out)?;
    if !report.sweep.is_empty() {
        let tradeoffs = tradeoffs(&report.sweep, &report.random);
        let rows = report.sweep.iter().zip(&tradeoffs);
        table::print(out, HEADING, rows.map(|(row, tradeoff)| cells(report, row, tradeoff)))?;
        writeln!(out)?;
    }
    for (name, what) in conclusions(report) {
        out.entry(&format!("{name:<12} "), &what)?;
    }
    Ok(())
}

/// Prints the effect of the scheduler's settings on readers and writers.
pub(super) fn print_flood(out: &mut Printer, flood: &FloodReport) -> Result<(), Failure> {
    let FloodReport { device, seconds, .. } = flood;
    writeln!(out)?;
    let title = format!("{device}: a chain of 4 KiB reads beside 64 random writes, {seconds:.0} s");
    out.entry("", &title)?;
    writeln!(out)?;
    table::print(out, FLOOD_HEADING, flood.rows.iter().map(flood_cells))?;
    let settings = match flood.recommended.as_slice() {
        [] => "what is in force".to_owned(),
        settings => words(settings),
    };
    writeln!(out)?;
    out.entry("recommended  ", &settings)?;
    out.entry("             ", &flood.why)
}

pub(super) const FLOOD_HEADING: [&str; 7] =
    ["setting", "reads/s", "from", "to", "one read", "1 of 100", "written, MB/s"];

pub(super) fn flood_cells(row: &FloodRow) -> [String; 7] {
    [
        row.name.clone(),
        speed(row.reads_per_s),
        speed(row.low),
        speed(row.high),
        time(row.read_median_us),
        time(row.read_p99_us),
        speed(row.write_mb_per_s),
    ]
}

pub(super) const HEADING: [&str; 7] =
    ["     window", "MB/s", "from", "to", "next gains", "one read of it", "100 streams hold"];

pub(super) fn cells(report: &Report, row: &WindowResult, tradeoff: &Tradeoff) -> [String; 7] {
    let mark = if marked(report) == Some(row.window_kib) { "==>" } else { "   " };
    [
        format!("{mark}  {}", size(row.window_kib)),
        speed(row.mb_per_s),
        speed(row.low),
        speed(row.high),
        table::or_dash(tradeoff.next_gains_percent.map(|gain| format!("{gain:+.1} %"))),
        table::or_dash(tradeoff.read_us.map(time)),
        size(tradeoff.hundred_streams_kib),
    ]
}

/// Returns the recommended window, which is marked in the table.
pub(super) fn marked(report: &Report) -> Option<u64> {
    let recommended = report.recommended.as_ref().and_then(|to| report.row(to.read_ahead_kb));
    recommended.map(|row| row.window_kib).or(report.plateau_kib)
}

/// Returns the conclusions as pairs of name and text.
pub(super) fn conclusions(report: &Report) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let Some(kib) = report.plateau_kib {
        let between = report.plateau_between_kib.filter(|[low, high]| low < high);
        let between = between.map_or_else(String::new, |[low, high]| {
            format!("; with 95 % confidence from {} to {}", size(low), size(high))
        });
        let is_largest = report.sweep.last().is_some_and(|row| row.window_kib == kib);
        let more = if is_largest { " or more: the largest that was tried" } else { "" };
        let apart = report.recommended.as_ref().filter(|to| to.read_ahead_kb != kib);
        let apart = apart.map_or("", |_| "; not what is recommended, for the reason below");
        lines.push(("plateau", format!("{}{more}{between}{apart}", size(kib))));
    }
    if let Some(best) = report.best_kib.and_then(|kib| report.row(kib)) {
        let text = format!("{}: {} MB/s", size(best.window_kib), speed(best.mb_per_s));
        lines.push(("best", text + &not_surely_faster(report, best)));
    }
    let compared = report.compared;
    let others = [
        ("set now", compared.now_kib),
        ("kernel's own", compared.kernel_kib),
        ("size rule", compared.size_rule_kib),
    ];
    for (name, kib) in others {
        if let Some(kib) = kib {
            lines.push((name, format!("{}{}", size(kib), what_it_has(report, kib))));
        }
    }
    if let Some(recommended) = &report.recommended {
        lines.push(("recommended", settings(recommended)));
        lines.push(("", recommended.why.clone()));
    }
    lines
}

/// Names the fastest row if it is not the best window: the best is the largest that none beats
/// beyond the error.
fn not_surely_faster(report: &Report, best: &WindowResult) -> String {
    let fastest = report.sweep.iter().max_by(|a, b| a.mb_per_s.total_cmp(&b.mb_per_s));
    let differs = |row: &&WindowResult| speed(row.mb_per_s) != speed(best.mb_per_s);
    fastest.filter(differs).map_or_else(String::new, |row| {
        format!("; {} has {} MB/s, within the error", size(row.window_kib), speed(row.mb_per_s))
    })
}

/// Describes the result of another window.
fn what_it_has(report: &Report, kib: u64) -> String {
    let upto = |kib| report.sweep.iter().rev().find(|row: &&WindowResult| row.window_kib <= kib);
    let of = |kib| report.row(kib).or_else(|| upto(kib));
    let recommended = report.recommended.as_ref().and_then(|to| of(to.read_ahead_kb));
    match (of(kib), recommended) {
        (Some(row), Some(best)) if best.mb_per_s > 0.0 => format!(
            ": {}{} MB/s, {} what is recommended",
            untried(row, kib),
            speed(row.mb_per_s),
            beside(row.mb_per_s, best.mb_per_s)
        ),
        (Some(row), _) => format!(": {}{} MB/s", untried(row, kib), speed(row.mb_per_s)),
        (None, _) => String::new(),
    }
}

/// Names the next smaller window that was measured, as the given one was not.
fn untried(row: &WindowResult, kib: u64) -> String {
    let is_it = row.window_kib == kib.max(4);
    if is_it { String::new() } else { format!("not tried; {} has ", size(row.window_kib)) }
}

fn settings(recommended: &Recommended) -> String {
    let mut list = vec![format!("read_ahead_kb={}", recommended.read_ahead_kb)];
    if !recommended.scheduler.is_empty() {
        list.push(words(&recommended.scheduler));
    }
    list.extend(recommended.inode_readahead_blks.map(|n| format!("inode_readahead_blks={n}")));
    format!("{} ({})", list.join(" "), recommended.profile.name())
}

pub(super) fn size(kib: u64) -> String {
    Exact(ByteCount(kib << 10)).to_string()
}

pub(super) fn speed(mb_per_s: f64) -> String {
    short(mb_per_s, 100.0)
}

/// Formats a figure with two decimals below 10, and none from `whole_from` on.
pub(super) fn short(value: f64, whole_from: f64) -> String {
    let decimals = match value {
        ..10.0 => 2,
        _ if value < whole_from => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

fn time(us: f64) -> String {
    if us >= 1000.0 { format!("{:.1} ms", us / 1000.0) } else { format!("{us:.0} us") }
}
