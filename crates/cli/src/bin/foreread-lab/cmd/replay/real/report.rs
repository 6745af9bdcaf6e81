//! The figures of real replays: rows, a sentence, JSON, notes.
//!
//! Interrupted runs are not compared.

use std::io::Write as _;
use std::path::Path;

use foreread_core::prefetch::Policy;
use foreread_sim::replay::ReplayPace;
use foreread_trace::TraceSummary;
use hdrhistogram::Histogram;
use serde::Serialize;

use super::figures::RealFigures;
use super::opened_target::RunMethod;
use crate::cmd::replay::report::print_each;
use foreread_cli::measure::method::AccessMethod;
use foreread_cli::output::{Failure, Printer, plain};
use foreread_cli::table;

/// A trace on its target.
pub(super) struct RealSubject<'s> {
    pub(super) summary: &'s TraceSummary,
    pub(super) pace: ReplayPace,
    pub(super) mapping: &'s str,
    pub(super) lanes: usize,
}

/// One run, as `--json` prints it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct RealRow {
    pub(super) trace: String,
    pub(super) level: &'static str,
    pub(super) mapping: String,
    pub(super) method: AccessMethod,
    #[serde(skip)]
    pub(super) label: String,
    policy: Option<&'static str>,
    max_window: Option<u64>,
    memory: Option<u64>,
    #[serde(rename = "loop")]
    pub(super) pace: &'static str,
    pub(super) scale: f64,
    pub(super) threads: usize,
    pub(super) reads: u64,
    bytes: u64,
    pub(super) waits: u64,
    pub(super) waited_s: f64,
    wait_ms: WaitQuantiles,
    mb_per_s: f64,
    device_bytes: Option<u64>,
    elapsed_s: f64,
    trace_s: f64,
    length_error: Option<f64>,
    issue_delay_ms: IssueDelay,
    pub(super) late: u64,
    starved: u64,
    wrapped: u64,
    writes: u64,
    pub(super) interrupted: bool,
    /// Latencies of the reads that waited, for the chart.
    #[serde(skip)]
    pub(super) wait_latency: Histogram<u64>,
}

/// Latency quantiles of the reads that waited.
#[derive(Clone, Copy, Debug, Serialize)]
struct WaitQuantiles {
    p50: f64,
    p95: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

/// Issue delay of the reads that were not blocked.
#[derive(Clone, Copy, Debug, Serialize)]
struct IssueDelay {
    p50: f64,
    p99: f64,
    max: f64,
}

#[expect(clippy::cast_precision_loss, reason = "a few digits are shown")]
impl RealRow {
    pub(super) fn new(
        trace: &Path,
        subject: &RealSubject<'_>,
        how: &RunMethod,
        figures: RealFigures,
    ) -> Self {
        let ms = |of: &Histogram<u64>, quantile| of.value_at_quantile(quantile) as f64 / 1e6;
        let wait = |quantile| ms(&figures.wait_latency, quantile);
        let delay = |quantile| ms(&figures.issue_delay, quantile);
        let is_ours = how.method == AccessMethod::Foreread;
        let window = how.max_window.filter(|_| how.policy != Policy::None);
        let elapsed_s = figures.elapsed.0 as f64 / 1e9;
        Self {
            trace: trace.display().to_string(),
            level: subject.summary.level().name(),
            mapping: subject.mapping.to_owned(),
            method: how.method,
            label: how.label(),
            policy: is_ours.then(|| how.policy.name()),
            max_window: window.filter(|_| is_ours).map(|window| window.0),
            memory: is_ours.then_some(how.memory.0),
            pace: subject.pace.name(),
            scale: subject.pace.scale(),
            threads: subject.lanes,
            reads: figures.reads,
            bytes: figures.bytes,
            waits: figures.waits,
            waited_s: figures.waited_ns as f64 / 1e9,
            wait_ms: WaitQuantiles {
                p50: wait(0.5),
                p95: wait(0.95),
                p99: wait(0.99),
                p999: wait(0.999),
                max: wait(1.0),
            },
            mb_per_s: figures.bytes as f64 / elapsed_s.max(1e-9) / 1e6,
            device_bytes: figures.device_bytes,
            elapsed_s,
            trace_s: subject.summary.duration.0 as f64 / 1e9,
            length_error: figures
                .length_error()
                .filter(|_| matches!(subject.pace, ReplayPace::Open { .. })),
            issue_delay_ms: IssueDelay { p50: delay(0.5), p99: delay(0.99), max: delay(1.0) },
            late: figures.blocked,
            starved: figures.starved,
            wrapped: figures.wrapped,
            writes: figures.writes,
            interrupted: figures.is_interrupted,
            wait_latency: figures.wait_latency,
        }
    }

    pub(super) fn cells(&self) -> [String; 13] {
        let WaitQuantiles { p50, p95, p99, p999, .. } = self.wait_ms;
        let late = self.late as f64 / self.reads.max(1) as f64 * 100.0;
        [
            self.label.clone(),
            format!("{:.1} %", self.waits as f64 / self.reads.max(1) as f64 * 100.0),
            format!("{:.3}", self.waited_s),
            format!("{p50:.2}"),
            format!("{p95:.2}"),
            format!("{p99:.2}"),
            format!("{p999:.2}"),
            format!("{:.1}", self.mb_per_s),
            table::or_dash(self.device_bytes.map(|bytes| format!("{:.1}", bytes as f64 / 1e6))),
            format!("{late:.1} %"),
            format!("{:.3}", self.issue_delay_ms.p99),
            format!("{:.2}", self.elapsed_s),
            table::or_dash(self.length_error.map(|error| format!("{:+.1} %", error * 100.0))),
        ]
    }
}

pub(super) const HEADING: [&str; 13] = [
    "method",
    "waits",
    "waited s",
    "p50 ms",
    "p95 ms",
    "p99 ms",
    "p99.9 ms",
    "MB/s",
    "device MB",
    "late",
    "issue p99 ms",
    "elapsed",
    "length",
];

/// Prints a table and a sentence for each trace.
pub(super) fn print(out: &mut Printer, rows: &[RealRow]) -> Result<(), Failure> {
    print_each(
        out,
        rows,
        |row| &row.trace,
        |out, of_trace| {
            out.entry("", &about(&of_trace[0]))?;
            writeln!(out)?;
            table::print(out, HEADING, of_trace.iter().map(RealRow::cells))?;
            Ok(sentence(of_trace))
        },
    )
}

/// Returns target and settings.
pub(super) fn about(row: &RealRow) -> String {
    let RealRow { trace, level, pace, scale, mapping, threads, .. } = row;
    let mapping = plain(mapping);
    format!("{trace}: {level} level, {pace} loop x {scale}, {threads} threads; {mapping}")
}

/// Returns the waiting that foreread saves compared with the page cache, or else with no cache.
pub(super) fn sentence(rows: &[RealRow]) -> Option<String> {
    let whole = || rows.iter().filter(|row| !row.interrupted);
    let of = |method| whole().find(|row| row.method == method);
    let ours = whole().filter(|row| row.method == AccessMethod::Foreread);
    let ours = ours.min_by(|one, other| one.waited_s.total_cmp(&other.waited_s))?;
    let (other, name) = match (of(AccessMethod::Buffered), of(AccessMethod::Direct)) {
        (Some(buffered), _) => (buffered, "through the page cache"),
        (None, Some(direct)) => (direct, "with O_DIRECT alone"),
        (None, None) => return None,
    };
    let (here, there) = (ours.waited_s, other.waited_s);
    let label = &ours.label;
    Some(format!("Reads waited {here:.3} s with {label}, and {there:.3} s {name}."))
}

/// Returns notes on one run.
#[expect(clippy::cast_precision_loss, reason = "a few digits are shown")]
pub(super) fn notes(how: &RunMethod, figures: &RealFigures) -> Vec<String> {
    let label = how.label();
    let mut notes = Vec::new();
    if figures.is_interrupted {
        notes.push(format!("{label}: ended after {} reads; the trace has more", figures.reads));
    }
    if figures.blocked > 0 {
        let percent = figures.blocked as f64 / figures.reads.max(1) as f64 * 100.0;
        notes.push(format!(
            "{label}: {} reads ({percent:.1} %) were issued late, because the read before of their \
             thread had not returned: the target does not keep up with their times; their waits \
             count from when they were due",
            figures.blocked
        ));
    }
    let is_late = figures.length_error().is_some_and(|error| error > LENGTH_ERROR_MAX);
    if is_late && figures.blocked == 0 && !figures.is_interrupted {
        notes.push(format!("{label}: took longer than the trace: this machine is busy"));
    }
    if figures.starved > 0 {
        notes.push(format!(
            "{label}: {} reads came late from the trace; a larger --scale, or a trace that is not \
             compressed",
            figures.starved
        ));
    }
    if figures.wrapped > 0 {
        notes.push(format!(
            "{} reads past the end of the target began again at its start",
            figures.wrapped
        ));
    }
    notes
}

/// A run that is longer than this was not at the trace's times.
const LENGTH_ERROR_MAX: f64 = 0.05;
