//! What the demo says: a table, and what it means.
//!
//! In:    the runs of each pattern by each method.
//! Out:   medians with their range, ratios of runs that were made side by side, two sentences.
//! Never: a word that the figures do not bear out: each sentence is made from them.

use std::io::Write as _;

use super::args::DemoArgs;
use crate::measure::figures::{BenchRow, unit};
use crate::measure::method::AccessMethod;
use crate::measure::pattern::AccessPattern;
use crate::measure::target::BenchTarget;
use crate::measure::testbed::Testbed;
use crate::output::{Failure, Printer};
use crate::table;

/// Which of the two courses, as JSON has it.
pub(super) fn key(testbed: &Testbed<'_>) -> &'static str {
    if testbed.delay.is_some() { "delayed" } else { "plain" }
}

/// And as a person reads it.
pub(super) fn title(testbed: &Testbed<'_>) -> &'static str {
    if testbed.delay.is_some() { "slow device:" } else { "as it is:" }
}

/// What the demo calls its patterns.
pub(super) fn name(pattern: AccessPattern) -> &'static str {
    KINDS.iter().find(|(kind, _)| *kind == pattern).map_or("", |(_, name)| name)
}

pub(super) fn print(
    out: &mut Printer,
    target: &BenchTarget,
    args: &DemoArgs,
    rows: &[BenchRow],
) -> Result<(), Failure> {
    writeln!(
        out,
        "{}, read 4 KiB at a time, policy {};\nmedian [least-most] of {}, ratios of runs made side by \
         side",
        target.name,
        args.policy.name(),
        if args.runs == 1 { "one run".to_owned() } else { format!("{} runs", args.runs) },
    )?;
    for key in ["plain", "delayed"] {
        let rows: Vec<&BenchRow> = rows.iter().filter(|row| row.target == Some(key)).collect();
        let how = match key {
            "plain" => "as it is".to_owned(),
            _ => format!("behind {} (the kernel: over FUSE)", args.delay),
        };
        writeln!(out, "\n{how}, {}", windows(&rows))?;
        let lines = KINDS.iter().filter_map(|(kind, _)| line(&rows, *kind));
        table::print(out, HEADING, lines)?;
    }
    writeln!(out, "\n{}", meaning(rows))?;
    Ok(())
}

/// The largest windows: one figure where they are the same.
fn windows(rows: &[&BenchRow]) -> String {
    let of = |method| rows.iter().find(|row| row.method == method).and_then(|row| row.window_kib);
    match (of(AccessMethod::Buffered), of(AccessMethod::Foreread)) {
        (Some(kernel), Some(ours)) if kernel != ours => {
            format!("windows up to {kernel} KiB in the kernel, {ours} KiB in foreread")
        }
        (_, Some(ours)) => format!("windows up to {ours} KiB"),
        (_, None) => "no windows".to_owned(),
    }
}

fn line(rows: &[&BenchRow], kind: AccessPattern) -> Option<[String; 6]> {
    let row = |method| rows.iter().find(|row| row.pattern == kind && row.method == method).copied();
    let (kernel, direct, ours) =
        (row(AccessMethod::Buffered), row(AccessMethod::Direct), row(AccessMethod::Foreread)?);
    let per_read = match kind.hot_set() {
        Some(_) => None,
        None => ours.device_bytes.map(|bytes| bytes / (ours.bytes_wanted / kind.block()).max(1)),
    };
    Some([
        format!("{}, {}", name(kind), unit(kind)),
        table::or_dash(kernel.map(BenchRow::cell)),
        table::or_dash(direct.map(BenchRow::cell)),
        ours.cell(),
        table::or_dash(kernel.map(|kernel| format!("{:.2} x", ours.times(kernel)))),
        table::or_dash(per_read),
    ])
}

/// What the table says, in two sentences: what it gives, and where it gives least.
fn meaning(rows: &[BenchRow]) -> String {
    let row = |target: &str, kind, method| {
        rows.iter()
            .find(|row| row.target == Some(target) && row.pattern == kind && row.method == method)
    };
    let times = |target, kind, other| {
        Some(row(target, kind, AccessMethod::Foreread)?.times(row(target, kind, other)?))
    };
    let mut gives = Vec::new();
    if let Some(times) = times("delayed", AccessPattern::Seq4k, AccessMethod::Direct) {
        gives.push(format!("reads one stream {times:.1} times as fast as O_DIRECT alone"));
    }
    if let Some(times) = times("delayed", AccessPattern::Seq4k, AccessMethod::Buffered) {
        gives.push(format!("reads it {times:.2} times as fast as the kernel's page cache"));
    }
    if let Some(times) = times("delayed", AccessPattern::Inter2, AccessMethod::Buffered) {
        gives.push(format!("reads two streams in turns {times:.2} times as fast as that"));
    }
    let random = row("delayed", AccessPattern::Rand4k, AccessMethod::Foreread)
        .and_then(|row| Some(row.device_bytes? as f64 / row.bytes_wanted.max(1) as f64));
    if let Some(bytes) = random {
        gives.push(format!("and asks for {bytes:.2} bytes a byte that random reads want"));
    }
    let cached = times("plain", AccessPattern::Hot4k, AccessMethod::Buffered)
        .map_or(String::new(), |times| {
            format!("A cached page comes {times:.1} times as fast as by pread; ")
        });
    let against_kernel =
        rows.iter().filter(|row| row.method == AccessMethod::Foreread).filter_map(|ours| {
            let kernel = row(ours.target?, ours.pattern, AccessMethod::Buffered)?;
            Some((ours.times(kernel), ours))
        });
    let worst = against_kernel.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(times, ours)| {
        let place = if ours.target == Some("plain") { "as it is" } else { "on the slow device" };
        format!(
            "beside the kernel foreread does worst at '{}' {place}: {times:.2} x.",
            name(ours.pattern)
        )
    });
    let gives = gives.join(", ");
    let worst = worst.unwrap_or_else(|| "the kernel is not beside it here.".to_owned());
    wrapped(&format!("On the slow device foreread {gives}. {cached}{worst}"))
}

/// Lines of a width that most terminals have.
fn wrapped(text: &str) -> String {
    let mut lines = String::new();
    let mut width = 0;
    for word in text.split(' ') {
        let needs = word.len() + usize::from(width > 0);
        let separator = match width {
            0 => "",
            _ if width + needs > WIDTH => "\n",
            _ => " ",
        };
        width = if separator == " " { width + needs } else { word.len() };
        lines += separator;
        lines += word;
    }
    lines
}

const KINDS: [(AccessPattern, &str); 4] = [
    (AccessPattern::Seq4k, "one stream"),
    (AccessPattern::Inter2, "two in turns"),
    (AccessPattern::Rand4k, "random, cold"),
    (AccessPattern::Hot4k, "random, cached"),
];

const WIDTH: usize = 98;

const HEADING: [&str; 6] =
    ["pattern", "kernel buffered", "O_DIRECT bare", "foreread", "to kernel", "bytes/read"];
