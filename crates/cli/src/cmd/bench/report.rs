//! What bench says: a table.
//!
//! In:    the rows of each pattern.
//! Out:   medians with their range, ratios, and what the device was asked for.
//! Never: a verdict. The figures are the user's.

use std::io::Write as _;

use super::Args;
use crate::measure::arm::Arm;
use crate::measure::figures::{Row, unit};
use crate::measure::pattern::Pattern;
use crate::measure::target::Target;
use crate::output::{Failure, Output};
use crate::table;
use foreread_core::sizes::Exact;

pub(super) fn print(
    out: &mut Output,
    target: &Target,
    args: &Args,
    rows: &[Row],
) -> Result<(), Failure> {
    let slow = args.delay.map_or(String::new(), |delay| format!(" behind {delay}"));
    writeln!(
        out,
        "{}{slow}\nforeread: policy {}, memory {}; {}; {}\nMB/s, or time per read where a unit is \
         named; median [least-most] of {}; ratios of\nruns made side by side; asked: device bytes \
         for each byte wanted, kernel and foreread\n",
        target.name,
        args.policy.name(),
        Exact(args.memory),
        windows(rows),
        counted(args.threads, "thread"),
        counted(args.runs, "run"),
    )?;
    let mut patterns: Vec<Pattern> = rows.iter().map(|row| row.pattern).collect();
    patterns.dedup();
    table::print(out, HEADING, patterns.iter().map(|pattern| line(rows, *pattern)))
}

fn line(rows: &[Row], pattern: Pattern) -> [String; 7] {
    let row = |arm| rows.iter().find(|row| row.pattern == pattern && row.arm == arm);
    let (kernel, direct, ours) = (row(Arm::Buffered), row(Arm::Direct), row(Arm::Foreread));
    let cell = |row: Option<&Row>| table::or_dash(row.map(Row::cell));
    let times = |other: Option<&Row>| {
        let times = ours.zip(other).map(|(ours, other)| ours.times(other));
        table::or_dash(times.map(|times| format!("{times:.2} x")))
    };
    let asked = |row: Option<&Row>| {
        let asked = row.and_then(|row| Some(row.device_bytes? as f64 / row.bytes_wanted as f64));
        table::or_dash(asked.map(|asked| format!("{asked:.2}")))
    };
    let name = match unit(pattern) {
        "MB/s" => pattern.name().to_owned(),
        unit => format!("{} ({unit})", pattern.name()),
    };
    [
        name,
        cell(kernel),
        cell(direct),
        cell(ours),
        times(kernel),
        times(direct),
        format!("{} {}", asked(kernel), asked(ours)),
    ]
}

/// The largest windows: one figure where they are the same.
fn windows(rows: &[Row]) -> String {
    let of = |arm| rows.iter().find(|row| row.arm == arm).and_then(|row| row.window_kib);
    if rows.iter().any(|row| row.arm == Arm::Foreread) && of(Arm::Foreread).is_none() {
        let kernel = of(Arm::Buffered).map(|kernel| format!("up to {kernel} KiB in the kernel, "));
        return format!("windows {}as learnt in foreread", kernel.unwrap_or_default());
    }
    match (of(Arm::Buffered), of(Arm::Foreread)) {
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

const HEADING: [&str; 7] =
    ["pattern", "kernel buffered", "O_DIRECT bare", "foreread", "to kernel", "to bare", "asked"];
