//! What the demo says: a table, and what it means.
//!
//! In:    the runs of each pattern in each way.
//! Out:   medians with their range, ratios of runs that were made side by side, two sentences.
//! Never: a word that the figures do not bear out: each sentence is made from them.

use std::io::Write as _;

use serde::Serialize;

use super::Args;
use crate::measure::arm::{Arm, Course};
use crate::measure::pattern::{PAGE, Pattern, Run};
use crate::measure::target::Target;
use crate::output::{Failure, Output};
use crate::table;

/// All runs of one pattern in one way, as JSON has them.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    target: &'static str,
    pattern: &'static str,
    arm: Arm,
    /// Who read ahead; of foreread only.
    policy: Option<&'static str>,
    threads: u32,
    window_kib: Option<u64>,
    runs: usize,
    mb_per_s: Spread,
    ns_per_read: Spread,
    /// Counts of the median run.
    device_reads: Option<u64>,
    device_bytes: Option<u64>,
    bytes_wanted: u64,
    evicted_before_use: Option<u64>,
    #[serde(skip)]
    kind: Pattern,
    #[serde(skip)]
    taken: Vec<Run>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Spread {
    median: f64,
    min: f64,
    max: f64,
}

impl Row {
    pub(super) fn new(course: &Course<'_>, kind: Pattern, arm: Arm, taken: Vec<Run>) -> Self {
        let mut by_speed: Vec<&Run> = taken.iter().collect();
        by_speed.sort_by(|a, b| a.mb_per_s().total_cmp(&b.mb_per_s()));
        let median = *by_speed[by_speed.len() / 2];
        Self {
            target: course.key(),
            pattern: kind.name(),
            arm,
            policy: (arm == Arm::Foreread).then(|| course.policy.name()),
            threads: 1,
            window_kib: match arm {
                Arm::Buffered => course.kernel_window.map(|window| window / 1024),
                Arm::Direct => None,
                Arm::Foreread => Some(course.window / 1024),
            },
            runs: taken.len(),
            mb_per_s: Spread::of(&taken, Run::mb_per_s),
            ns_per_read: Spread::of(&taken, Run::ns_per_read),
            device_reads: median.asked.reads,
            device_bytes: median.asked.bytes,
            bytes_wanted: median.reads * PAGE as u64,
            evicted_before_use: median.asked.evicted_before_use,
            kind,
            taken,
        }
    }

    fn cell(&self) -> String {
        match self.kind {
            Pattern::Hot4k => self.ns_per_read.shown(),
            Pattern::Seq4k | Pattern::Inter2 | Pattern::Rand4k => self.mb_per_s.shown(),
        }
    }

    /// How many times as fast as `other`: the median over rounds, each way beside the other.
    fn times(&self, other: &Self) -> f64 {
        let mut ratios: Vec<f64> = self
            .taken
            .iter()
            .zip(&other.taken)
            .map(|(ours, theirs)| theirs.ns_per_read() / ours.ns_per_read())
            .collect();
        median(&mut ratios)
    }
}

/// The middle one, or what is between the two in the middle.
fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    let half = figures.len() / 2;
    if figures.len() % 2 == 1 {
        figures[half]
    } else {
        f64::midpoint(figures[half - 1], figures[half])
    }
}

impl Spread {
    fn of(runs: &[Run], figure: impl Fn(&Run) -> f64) -> Self {
        let mut figures: Vec<f64> = runs.iter().map(figure).collect();
        Self { median: median(&mut figures), min: figures[0], max: figures[figures.len() - 1] }
    }

    fn shown(self) -> String {
        let digits = if self.median < 100.0 { 1 } else { 0 };
        let Self { median, min, max } = self;
        format!("{median:.digits$} [{min:.digits$}-{max:.digits$}]")
    }
}

impl Course<'_> {
    fn key(&self) -> &'static str {
        if self.delay.is_some() { "delayed" } else { "plain" }
    }

    pub(super) fn title(&self) -> &'static str {
        if self.delay.is_some() { "slow device:" } else { "as it is:" }
    }
}

pub(super) fn print(
    out: &mut Output,
    target: &Target,
    args: &Args,
    rows: &[Row],
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
        let rows: Vec<&Row> = rows.iter().filter(|row| row.target == key).collect();
        let how = match key {
            "plain" => "as it is".to_owned(),
            _ => format!("behind {} (the kernel: over FUSE)", args.delay),
        };
        writeln!(out, "\n{how}, {}", windows(&rows))?;
        let kinds = [Pattern::Seq4k, Pattern::Inter2, Pattern::Rand4k, Pattern::Hot4k];
        let lines = kinds.iter().filter_map(|kind| line(&rows, *kind));
        table::print(out, HEADING, lines)?;
    }
    writeln!(out, "\n{}", meaning(rows))?;
    Ok(())
}

/// The largest windows: one figure where they are the same.
fn windows(rows: &[&Row]) -> String {
    let of = |arm| rows.iter().find(|row| row.arm == arm).and_then(|row| row.window_kib);
    match (of(Arm::Buffered), of(Arm::Foreread)) {
        (Some(kernel), Some(ours)) if kernel != ours => {
            format!("windows up to {kernel} KiB in the kernel, {ours} KiB in foreread")
        }
        (_, Some(ours)) => format!("windows up to {ours} KiB"),
        (_, None) => "no windows".to_owned(),
    }
}

fn line(rows: &[&Row], kind: Pattern) -> Option<[String; 6]> {
    let row = |arm| rows.iter().find(|row| row.kind == kind && row.arm == arm).copied();
    let (kernel, direct, ours) = (row(Arm::Buffered), row(Arm::Direct), row(Arm::Foreread)?);
    let per_read = match kind {
        Pattern::Hot4k => None,
        Pattern::Seq4k | Pattern::Inter2 | Pattern::Rand4k => {
            ours.device_bytes.map(|bytes| bytes / (ours.bytes_wanted / PAGE as u64).max(1))
        }
    };
    Some([
        format!("{}, {}", kind.title(), kind.unit()),
        table::or_dash(kernel.map(Row::cell)),
        table::or_dash(direct.map(Row::cell)),
        ours.cell(),
        table::or_dash(kernel.map(|kernel| format!("{:.2} x", ours.times(kernel)))),
        table::or_dash(per_read),
    ])
}

/// What the table says, in two sentences: what it gives, and where it gives least.
fn meaning(rows: &[Row]) -> String {
    let row = |target: &str, kind, arm| {
        rows.iter().find(|row| row.target == target && row.kind == kind && row.arm == arm)
    };
    let times = |target, kind, other| {
        Some(row(target, kind, Arm::Foreread)?.times(row(target, kind, other)?))
    };
    let mut gives = Vec::new();
    if let Some(times) = times("delayed", Pattern::Seq4k, Arm::Direct) {
        gives.push(format!("reads one stream {times:.1} times as fast as O_DIRECT alone"));
    }
    if let Some(times) = times("delayed", Pattern::Seq4k, Arm::Buffered) {
        gives.push(format!("reads it {times:.2} times as fast as the kernel's page cache"));
    }
    if let Some(times) = times("delayed", Pattern::Inter2, Arm::Buffered) {
        gives.push(format!("reads two streams in turns {times:.2} times as fast as that"));
    }
    let random = row("delayed", Pattern::Rand4k, Arm::Foreread)
        .and_then(|row| Some(row.device_bytes? as f64 / row.bytes_wanted.max(1) as f64));
    if let Some(bytes) = random {
        gives.push(format!("and asks for {bytes:.2} bytes a byte that random reads want"));
    }
    let cached = times("plain", Pattern::Hot4k, Arm::Buffered).map_or(String::new(), |times| {
        format!("A cached page comes {times:.1} times as fast as by pread; ")
    });
    let against_kernel = rows.iter().filter(|row| row.arm == Arm::Foreread).filter_map(|ours| {
        let kernel = row(ours.target, ours.kind, Arm::Buffered)?;
        Some((ours.times(kernel), ours))
    });
    let worst = against_kernel.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(times, ours)| {
        let place = if ours.target == "plain" { "as it is" } else { "on the slow device" };
        format!(
            "beside the kernel foreread does worst at '{}' {place}: {times:.2} x.",
            ours.kind.title()
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

const WIDTH: usize = 98;

const HEADING: [&str; 6] =
    ["pattern", "kernel buffered", "O_DIRECT bare", "foreread", "to kernel", "bytes/read"];
