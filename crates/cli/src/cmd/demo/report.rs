//! What the demo says: a table, and what it means.
//!
//! In:    the runs of each pattern in each way.
//! Out:   medians with their range, ratios of runs that were made side by side, two sentences.
//! Never: a word that the figures do not bear out: each sentence is made from them.

use std::io::Write as _;

use serde::Serialize;

use super::Args;
use super::arm::{Arm, Course};
use super::pattern::{PAGE, Pattern, Run};
use super::target::Target;
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
            window_kib: (arm != Arm::Direct).then_some(course.window / 1024),
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
            Pattern::Hot4k => format!("{} ns", self.ns_per_read.shown()),
            Pattern::Seq4k | Pattern::Inter2 | Pattern::Rand4k => {
                format!("{} MB/s", self.mb_per_s.shown())
            }
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
        ratios.sort_by(f64::total_cmp);
        ratios[ratios.len() / 2]
    }
}

impl Spread {
    fn of(runs: &[Run], figure: impl Fn(&Run) -> f64) -> Self {
        let mut figures: Vec<f64> = runs.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        Self {
            median: figures[figures.len() / 2],
            min: figures[0],
            max: figures[figures.len() - 1],
        }
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
    notes: &[String],
) -> Result<(), Failure> {
    writeln!(
        out,
        "{}, 4 KiB reads, {} runs, policy {}",
        target.name,
        args.runs,
        args.policy.name()
    )?;
    for key in ["plain", "delayed"] {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.target == key).collect();
        let window = rows.iter().find_map(|row| row.window_kib).unwrap_or(0);
        let how = match key {
            "plain" => "as it is".to_owned(),
            _ => format!("behind {}", args.delay),
        };
        writeln!(out, "\n{how}, windows of up to {window} KiB")?;
        let kinds = [Pattern::Seq4k, Pattern::Inter2, Pattern::Rand4k, Pattern::Hot4k];
        let lines = kinds.iter().filter_map(|kind| line(&rows, *kind));
        table::print(out, HEADING, lines)?;
    }
    writeln!(out, "\n{}", meaning(rows))?;
    for note in notes {
        writeln!(out, "note: {note}")?;
    }
    Ok(())
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
        kind.title().to_owned(),
        table::or_dash(kernel.map(Row::cell)),
        table::or_dash(direct.map(Row::cell)),
        ours.cell(),
        table::or_dash(kernel.map(|kernel| format!("{:.2} x", ours.times(kernel)))),
        table::or_dash(per_read),
    ])
}

/// What the table says, in two sentences.
fn meaning(rows: &[Row]) -> String {
    let row = |target: &str, kind, arm| {
        rows.iter().find(|row| row.target == target && row.kind == kind && row.arm == arm)
    };
    let times = |target, kind, other| {
        Some(row(target, kind, Arm::Foreread)?.times(row(target, kind, other)?))
    };
    let shown = |times: Option<f64>| times.map_or("-".to_owned(), |times| format!("{times:.2}"));
    let random = row("delayed", Pattern::Rand4k, Arm::Foreread);
    let per_read = random.and_then(|row| row.device_bytes.map(|bytes| (bytes, row.bytes_wanted)));
    let random = match per_read {
        Some((bytes, wanted)) if bytes == wanted => "not a byte more".to_owned(),
        Some((bytes, wanted)) => format!("{:.2} times as much", bytes as f64 / wanted as f64),
        None => "an unknown amount".to_owned(),
    };
    format!(
        "On the slow device foreread reads one stream {} times as fast as O_DIRECT alone and {} times \
         as fast as the kernel's\npage cache at the same window, two streams in turns {} times as fast \
         as the kernel. A random read asks the device for\nwhat it wants and {random}, and a cached \
         page comes {} times as fast as by pread.",
        shown(times("delayed", Pattern::Seq4k, Arm::Direct)),
        shown(times("delayed", Pattern::Seq4k, Arm::Buffered)),
        shown(times("delayed", Pattern::Inter2, Arm::Buffered)),
        shown(times("plain", Pattern::Hot4k, Arm::Buffered)),
    )
}

const HEADING: [&str; 6] = [
    "pattern",
    "kernel buffered",
    "O_DIRECT bare",
    "foreread",
    "foreread / kernel",
    "device bytes a read",
];
