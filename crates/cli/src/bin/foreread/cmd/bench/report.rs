//! Table of `foreread bench`: medians with their range, ratios, and device reads.

use std::io::Write as _;

use super::plan::ReadPlan;
use foreread_cli::measure::figures::{BenchRow, unit};
use foreread_cli::measure::method::AccessMethod;
use foreread_cli::measure::pattern::AccessPattern;
use foreread_cli::measure::target::BenchTarget;
use foreread_cli::output::{Failure, Printer};
use foreread_cli::table;
use foreread_core::sizes::Exact;

pub(super) fn print(
    out: &mut Printer,
    target: &BenchTarget,
    plan: &ReadPlan,
    rows: &[BenchRow],
) -> Result<(), Failure> {
    let slow = plan.delay.map_or(String::new(), |delay| format!(" behind {delay}"));
    out.entry("", &format!("{}{slow}", target.name))?;
    let how = format!(
        "foreread: policy {}, memory {}; {}; {}",
        plan.policy.name(),
        Exact(plan.memory),
        windows(rows),
        counted(plan.threads, "thread"),
    );
    out.entry("", &how)?;
    let legend = format!(
        "MB/s, or time per read where a unit is named; median [least-most] of {}; ratios of runs \
         made side by side; bare: O_DIRECT and no cache, or for cached reads a copy inside \
         memory; read ampl(ification): device bytes for each byte wanted, kernel and foreread; \
         CPU s/GB: processor seconds of this process for 10^9 bytes, kernel, bare and foreread",
        counted(plan.runs, "run"),
    );
    out.paragraph("", &legend)?;
    writeln!(out)?;
    table::print(out, HEADING, patterns(rows).into_iter().map(|pattern| line(rows, pattern)))
}

/// Returns the distinct patterns, in order of the rows.
pub(super) fn patterns(rows: &[BenchRow]) -> Vec<AccessPattern> {
    let mut patterns: Vec<AccessPattern> = rows.iter().map(|row| row.pattern).collect();
    patterns.dedup();
    patterns
}

pub(super) fn line(rows: &[BenchRow], pattern: AccessPattern) -> [String; 8] {
    let row = |method| rows.iter().find(|row| row.pattern == pattern && row.method == method);
    let (kernel, ours) = (row(AccessMethod::Buffered), row(AccessMethod::Foreread));
    // No pattern is for both.
    let bare = row(AccessMethod::Direct).or(row(AccessMethod::Memory));
    let cell = |row: Option<&BenchRow>| table::or_dash(row.map(BenchRow::cell));
    let times = |other: Option<&BenchRow>| {
        let times = ours.zip(other).map(|(ours, other)| ours.times(other));
        table::or_dash(times.map(|times| format!("{times:.2} x")))
    };
    let asked = |row: Option<&BenchRow>| {
        let asked = row.and_then(|row| Some(row.device_bytes? as f64 / row.bytes_wanted as f64));
        table::or_dash(asked.map(|asked| format!("{asked:.2}")))
    };
    let cpu = |row: Option<&BenchRow>| {
        table::or_dash(row.map(|row| format!("{:.2}", row.cpu_s_per_gb.median)))
    };
    let name = match unit(pattern) {
        "MB/s" => pattern.name().to_owned(),
        unit => format!("{} ({unit})", pattern.name()),
    };
    [
        name,
        cell(kernel),
        cell(bare),
        cell(ours),
        times(kernel),
        times(bare),
        format!("{} {}", asked(kernel), asked(ours)),
        format!("{} {} {}", cpu(kernel), cpu(bare), cpu(ours)),
    ]
}

/// Formats the largest windows, as one figure if they are equal.
fn windows(rows: &[BenchRow]) -> String {
    let of = |method| rows.iter().find(|row| row.method == method).and_then(|row| row.window_kib);
    if rows.iter().any(|row| row.method == AccessMethod::Foreread)
        && of(AccessMethod::Foreread).is_none()
    {
        let kernel =
            of(AccessMethod::Buffered).map(|kernel| format!("up to {kernel} KiB in the kernel, "));
        return format!("windows {}as learnt in foreread", kernel.unwrap_or_default());
    }
    match (of(AccessMethod::Buffered), of(AccessMethod::Foreread)) {
        (Some(kernel), Some(ours)) if kernel != ours => {
            format!("windows up to {kernel} KiB in the kernel, {ours} KiB in foreread")
        }
        (_, Some(0)) | (Some(0), None) => "read-ahead is off".to_owned(),
        (_, Some(window)) | (Some(window), None) => format!("windows up to {window} KiB"),
        (None, None) => "no windows".to_owned(),
    }
}

fn counted(count: u32, what: &str) -> String {
    if count == 1 { format!("one {what}") } else { format!("{count} {what}s") }
}

pub(super) const HEADING: [&str; 8] = [
    "pattern",
    "kernel buffered",
    "bare",
    "foreread",
    "to kernel",
    "to bare",
    "read ampl.",
    "CPU s/GB",
];
