//! The replays of one combination, over its seeds.

use serde::Serialize;

use super::figure::{ComparedFigure, as_float, over};
use crate::json_rows::{ReplayRow, WaitRow};

/// One combination of a policy, a window, an eviction policy and a memory size, with all seeds.
#[derive(Clone, Debug, Serialize)]
pub struct ReplayComparisonRow {
    /// See [`ReplayRow::trace`].
    pub trace: String,
    /// See [`ReplayRow::level`].
    pub level: &'static str,
    /// See [`ReplayRow::device`].
    pub device: String,
    /// See [`ReplayRow::policy`].
    pub policy: String,
    /// See [`ReplayRow::eviction`].
    pub eviction: &'static str,
    /// See [`ReplayRow::label`].
    #[serde(skip)]
    pub label: String,
    /// See [`ReplayRow::max_window`].
    pub max_window: Option<u64>,
    /// See [`ReplayRow::memory`].
    pub memory: u64,
    /// See [`ReplayRow::pace`].
    #[serde(rename = "loop")]
    pub pace: &'static str,
    /// See [`ReplayRow::scale`].
    pub scale: f64,
    /// See [`ReplayRow::warm`].
    pub warm: bool,
    /// See [`ReplayRow::reads`].
    pub reads: u64,
    /// See [`ReplayRow::bytes`].
    pub bytes: u64,
    /// The number of seeds.
    pub seeds: usize,
    /// See [`ReplayRow::waits`].
    pub waits: ComparedFigure,
    /// See [`ReplayRow::waited_s`].
    pub waited_s: ComparedFigure,
    /// See [`ReplayRow::least_waited_s`].
    pub least_waited_s: Option<f64>,
    /// See [`ReplayRow::wait_ms`]; None where no read of a replay waited.
    pub wait_p50_ms: Option<ComparedFigure>,
    /// The 99th percentile.
    pub wait_p99_ms: Option<ComparedFigure>,
    /// The 99.9th percentile.
    pub wait_p999_ms: Option<ComparedFigure>,
    /// See [`ReplayRow::requests`].
    pub requests: ComparedFigure,
    /// See [`ReplayRow::fewest_requests`].
    pub fewest_requests: Option<u64>,
    /// The one over the other.
    pub requests_over_fewest: Option<ComparedFigure>,
    /// See [`ReplayRow::device_bytes`].
    pub device_bytes: ComparedFigure,
    /// See [`ReplayRow::fewest_bytes`].
    pub fewest_bytes: Option<u64>,
    /// The one over the other.
    pub bytes_over_fewest: Option<ComparedFigure>,
    /// See [`ReplayRow::device_s`].
    pub device_s: ComparedFigure,
    /// See [`ReplayRow::amplification`].
    pub amplification: ComparedFigure,
    /// See [`ReplayRow::evicted_unread`].
    pub evicted_unread: ComparedFigure,
    /// See [`ReplayRow::elapsed_s`].
    pub elapsed_s: ComparedFigure,
    /// Each replay.
    pub runs: Vec<ReplayRow>,
}

impl ReplayComparisonRow {
    /// The row of the replays of one combination, and of those of the combination that it is
    /// compared with, each with the same seeds.
    ///
    /// # Panics
    ///
    /// If there is no replay.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts of a replay")]
    pub fn new(runs: &[ReplayRow], base: Option<&[ReplayRow]>) -> Self {
        let some = |of: &dyn Fn(&ReplayRow) -> Option<f64>| ComparedFigure::of(runs, base, of);
        let each = |of: &dyn Fn(&ReplayRow) -> f64| {
            some(&|run| Some(of(run))).expect("there is a replay, and each has this figure")
        };
        let wait = |of: fn(&WaitRow) -> f64| some(&|run| (run.waits > 0).then(|| of(&run.wait_ms)));
        let first = &runs[0];
        Self {
            trace: first.trace.clone(),
            level: first.level,
            device: first.device.clone(),
            policy: first.policy.clone(),
            eviction: first.eviction,
            label: first.label.clone(),
            max_window: first.max_window,
            memory: first.memory,
            pace: first.pace,
            scale: first.scale,
            warm: first.warm,
            reads: first.reads,
            bytes: first.bytes,
            seeds: runs.len(),
            waits: each(&|run| run.waits as f64),
            waited_s: each(&|run| run.waited_s),
            least_waited_s: first.least_waited_s,
            wait_p50_ms: wait(|wait| wait.p50),
            wait_p99_ms: wait(|wait| wait.p99),
            wait_p999_ms: wait(|wait| wait.p999),
            requests: each(&|run| run.requests as f64),
            fewest_requests: first.fewest_requests,
            requests_over_fewest: some(&|run| over(run.requests, as_float(run.fewest_requests))),
            device_bytes: each(&|run| run.device_bytes as f64),
            fewest_bytes: first.fewest_bytes,
            bytes_over_fewest: some(&|run| over(run.device_bytes, as_float(run.fewest_bytes))),
            device_s: each(&|run| run.device_s),
            amplification: each(&|run| run.amplification),
            evicted_unread: each(&|run| run.evicted_unread as f64),
            elapsed_s: each(&|run| run.elapsed_s),
            runs: runs.to_vec(),
        }
    }

    /// The rows of one trace: `runs` are its replays, so many of each combination. Each is compared
    /// with the first policy with the same eviction policy, memory and, if there is one, window.
    ///
    /// # Panics
    ///
    /// If there are no seeds.
    #[must_use]
    pub fn all(runs: &[ReplayRow], seeds: usize) -> Vec<Self> {
        let of_combinations: Vec<&[ReplayRow]> = runs.chunks(seeds).collect();
        let base = |of: &ReplayRow| {
            let is_first = |other: &&[ReplayRow]| {
                let other = &other[0];
                (other.memory, other.eviction) == (of.memory, of.eviction)
                    && other.policy == runs[0].policy
            };
            let of_first = of_combinations.iter().copied().filter(is_first);
            let same = of_first.clone().find(|other| other[0].max_window == of.max_window);
            same.or_else(|| of_first.clone().next()).filter(|_| of.policy != runs[0].policy)
        };
        of_combinations.iter().map(|own| Self::new(own, base(&own[0]))).collect()
    }

    /// Whether other seeds change nothing, as on a device whose times do not vary.
    #[must_use]
    pub fn is_same_with_each_seed(&self) -> bool {
        let figures = |run: &ReplayRow| {
            let times = (run.waited_s, run.elapsed_s, run.device_s);
            (run.waits, run.requests, run.device_bytes, run.evicted_unread, times)
        };
        self.runs.iter().all(|run| figures(run) == figures(&self.runs[0]))
    }
}
