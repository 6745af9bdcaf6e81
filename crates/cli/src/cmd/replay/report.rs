//! The figures of replays: rows, a sentence, JSON.
//!
//! In:    jobs and their figures.
//! Out:   a table for each trace, and what to do.
//! Never: a saving without what it is compared with.

use std::io::Write as _;
use std::path::Path;

use foreread_core::prefetch::Policy;
use foreread_core::sizes::Exact;
use foreread_core::units::ByteCount;
use foreread_sim::replay::{ReplayFigures, ReplayGroup, ReplayPace};
use foreread_trace::{TraceLevel, TraceSummary};
use serde::Serialize;

use super::jobs::{JobFigures, ReplayJob};
use crate::output::{Failure, Printer};
use crate::table;

/// One replay, as `--json` prints it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ReplayRow {
    pub(super) trace: String,
    pub(super) level: &'static str,
    policy: &'static str,
    eviction: &'static str,
    #[serde(skip)]
    pub(super) label: String,
    max_window: Option<u64>,
    pub(super) memory: u64,
    #[serde(rename = "loop")]
    pub(super) pace: &'static str,
    pub(super) scale: f64,
    pub(super) reads: u64,
    bytes: u64,
    pub(super) waits: u64,
    pub(super) waited_s: f64,
    pub(super) least_waited_s: Option<f64>,
    wait_ms: WaitReport,
    requests: u64,
    fewest_requests: Option<u64>,
    device_bytes: u64,
    fewest_bytes: Option<u64>,
    device_s: f64,
    amplification: f64,
    evicted_unread: u64,
    elapsed_s: f64,
    late: u64,
    failed: u64,
    writes: u64,
    groups: Vec<GroupReport>,
}

/// Of the reads that waited.
#[derive(Clone, Copy, Debug, Serialize)]
struct WaitReport {
    p50: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

#[derive(Clone, Debug, Serialize)]
struct GroupReport {
    name: String,
    reads: u64,
    bytes: u64,
    waits: u64,
    waited_s: f64,
}

#[expect(clippy::cast_precision_loss, reason = "a few digits are shown")]
impl ReplayRow {
    pub(super) fn new(
        trace: &Path,
        summary: &TraceSummary,
        pace: ReplayPace,
        job: &ReplayJob,
        JobFigures { figures, bounds }: &JobFigures,
    ) -> Self {
        let ms = |quantile: f64| figures.wait_latency.value_at_quantile(quantile) as f64 / 1e6;
        let (pace, scale) = match pace {
            ReplayPace::Open { scale } => ("open", scale),
            ReplayPace::Closed { think } => ("closed", think),
        };
        let name = |number: u32| match job.group() {
            ReplayGroup::File => summary.files.get(number as usize).map(|file| file.name.clone()),
            ReplayGroup::Whole | ReplayGroup::Thread => None,
        };
        let groups = figures.groups.iter().map(|(number, group)| GroupReport {
            name: name(*number).unwrap_or_else(|| number.to_string()),
            reads: group.reads,
            bytes: group.bytes,
            waits: group.waits,
            waited_s: group.waited_ns as f64 / 1e9,
        });
        Self {
            trace: trace.display().to_string(),
            level: match summary.level() {
                TraceLevel::Block => "block",
                TraceLevel::File => "file",
            },
            policy: job.policy.name(),
            eviction: job.eviction.name(),
            label: job.label(),
            max_window: job.max_window.map(|window| window.0),
            memory: job.memory.0,
            pace,
            scale,
            reads: figures.reads,
            bytes: figures.bytes,
            waits: figures.waits,
            waited_s: figures.waited_ns as f64 / 1e9,
            least_waited_s: bounds.map(|bounds| bounds.least_waited_ns as f64 / 1e9),
            wait_ms: WaitReport { p50: ms(0.5), p99: ms(0.99), p999: ms(0.999), max: ms(1.0) },
            requests: figures.requests,
            fewest_requests: bounds.map(|bounds| bounds.fewest_requests),
            device_bytes: figures.device_bytes,
            fewest_bytes: bounds.map(|bounds| bounds.fewest_bytes),
            device_s: figures.device_s,
            amplification: figures.device_bytes as f64 / figures.bytes.max(1) as f64,
            evicted_unread: figures.evicted_unread,
            elapsed_s: figures.elapsed_ns as f64 / 1e9,
            late: figures.late,
            failed: figures.failed,
            writes: figures.writes,
            groups: groups.collect(),
        }
    }

    pub(super) fn memory_words(memory: u64) -> String {
        Exact(ByteCount(memory)).to_string()
    }

    pub(super) fn cells(&self) -> [String; 15] {
        let WaitReport { p50, p99, p999, .. } = self.wait_ms;
        let none = || "-".to_owned();
        #[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
        let times = |count: u64, least: u64| {
            if least == 0 { none() } else { format!("{:.2}", count as f64 / least as f64) }
        };
        [
            self.label.clone(),
            Self::memory_words(self.memory),
            format!("{:.1} %", self.waits as f64 / self.reads.max(1) as f64 * 100.0),
            format!("{:.3}", self.waited_s),
            self.least_waited_s.map_or_else(none, |least| format!("{least:.3}")),
            format!("{p50:.2}"),
            format!("{p99:.2}"),
            format!("{p999:.2}"),
            self.requests.to_string(),
            self.fewest_requests.map_or_else(none, |fewest| times(self.requests, fewest)),
            format!("{:.2}", self.device_s),
            format!("{:.3}", self.amplification),
            self.fewest_bytes.map_or_else(none, |fewest| times(self.device_bytes, fewest)),
            self.evicted_unread.to_string(),
            format!("{:.1}", self.elapsed_s),
        ]
    }
}

/// A table and a sentence for each trace.
pub(super) fn print(out: &mut Printer, rows: &[ReplayRow]) -> Result<(), Failure> {
    print_each(
        out,
        rows,
        |row| &row.trace,
        |out, of_trace| {
            let ReplayRow { trace, reads, level, pace, scale, .. } = &of_trace[0];
            writeln!(out, "{trace}: {reads} reads, {level} level, {pace} loop x {scale}\n")?;
            table::print(out, HEADING, of_trace.iter().map(ReplayRow::cells))?;
            Ok(sentence(of_trace))
        },
    )
}

/// Prints the rows of one trace after those of another: `table` prints them, and returns a sentence
/// that is to follow.
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

/// What the best policy saves of the waiting without read-ahead, and what more memory adds.
pub(super) fn sentence(rows: &[ReplayRow]) -> Option<String> {
    let smallest = rows.iter().map(|row| row.memory).min()?;
    let none = Policy::None.name();
    let of = |memory: u64| {
        let base = rows.iter().find(|row| row.memory == memory && row.policy == none)?;
        let others = rows.iter().filter(|row| row.memory == memory && row.policy != none);
        let best = others.min_by(|one, other| one.waited_s.total_cmp(&other.waited_s))?;
        let saved = (1.0 - best.waited_s / base.waited_s.max(1e-9)) * 100.0;
        Some((best, saved))
    };
    let size = ReplayRow::memory_words;
    let (best, saved) = of(smallest)?;
    let mut text = if saved > 0.5 {
        let (memory, label) = (size(smallest), &best.label);
        format!("With {memory}, {label} saves {saved:.0} % of the waiting without read-ahead")
    } else {
        format!("With {}, read-ahead saves nothing of this trace", size(smallest))
    };
    let more = rows.iter().map(|row| row.memory).filter(|memory| *memory > smallest);
    let base = rows.iter().find(|row| row.memory == smallest && row.policy == none)?;
    if let Some(largest) = more.max()
        && let Some((row, _)) = of(largest)
    {
        let all = (1.0 - row.waited_s / base.waited_s.max(1e-9)) * 100.0;
        let (memory, points) = (size(largest), all - saved.max(0.0));
        text += &if points < 0.5 {
            format!("; {memory} would save no more")
        } else {
            format!("; {memory} would save {points:.0} points more (with {})", row.label)
        };
    }
    Some(text + ".")
}

/// What a reader of the figures has to know of one replay.
pub(super) fn notes(job: &ReplayJob, figures: &ReplayFigures) -> Vec<String> {
    let mut notes = Vec::new();
    if figures.failed > 0 {
        notes.push(format!("{}: {} reads failed", job.label(), figures.failed));
    }
    if figures.late > 0 {
        let (label, memory) = (job.label(), Exact(job.memory));
        notes.push(format!(
            "{label} with {memory}: the device cannot keep up with the times of the trace: {} reads \
             began late, with 1024 others in flight; --loop closed, or a larger --scale",
            figures.late
        ));
    }
    notes
}
