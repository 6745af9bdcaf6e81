//! The figures of one combination, over its seeds.

use serde::Serialize;

use super::figure::{ComparedFigure, as_float, over};
use super::{Combination, ComparedRun};

/// One combination with all seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparisonRow {
    /// The name of the scenario.
    pub scenario: String,
    /// The name of the policy.
    pub policy: &'static str,
    /// The largest window, in bytes; None: learnt.
    pub max_window: Option<u64>,
    /// The memory bound, in bytes.
    pub memory: u64,
    /// The number of seeds.
    pub seeds: usize,
    /// See [`ComparedRun::mb_per_s`].
    pub mb_per_s: ComparedFigure,
    /// See [`ComparedRun::waited_s`].
    pub waited_s: ComparedFigure,
    /// See [`ComparedRun::requests`].
    pub requests: ComparedFigure,
    /// [`ComparedRun::requests`] over the fewest that windows could come to; None where no formula
    /// says so.
    pub requests_over_optimum: Option<ComparedFigure>,
    /// The same over those that no read-ahead can do without; None where a run has no such bound.
    pub requests_over_fewest: Option<ComparedFigure>,
    /// See [`ComparedRun::amplification`].
    pub amplification: ComparedFigure,
    /// [`ComparedRun::device_bytes`] over those that no cache can do without; None where a run has
    /// no such bound.
    pub bytes_over_fewest: Option<ComparedFigure>,
    /// See [`ComparedRun::evicted_unread`].
    pub evicted_unread: ComparedFigure,
    /// See [`ComparedRun::wait_p50_ms`]; None where the operations of a run were all hits.
    pub wait_p50_ms: Option<ComparedFigure>,
    /// See [`ComparedRun::wait_p99_ms`].
    pub wait_p99_ms: Option<ComparedFigure>,
    /// See [`ComparedRun::wait_p999_ms`].
    pub wait_p999_ms: Option<ComparedFigure>,
    /// The figures of each run.
    pub runs: Vec<ComparedRun>,
}

impl ComparisonRow {
    /// The names of [`Self::figures`].
    pub const FIGURES: [&'static str; 11] = [
        "mb_per_s",
        "waited_s",
        "requests",
        "requests_over_optimum",
        "requests_over_fewest",
        "amplification",
        "bytes_over_fewest",
        "evicted_unread",
        "wait_p50_ms",
        "wait_p99_ms",
        "wait_p999_ms",
    ];

    #[expect(clippy::cast_precision_loss, reason = "counts of a run")]
    pub(super) fn new(
        scenario: &str,
        combination: &Combination,
        runs: &[ComparedRun],
        base: Option<&[ComparedRun]>,
    ) -> Self {
        let some = |of: &dyn Fn(&ComparedRun) -> Option<f64>| ComparedFigure::of(runs, base, of);
        let each = |of: &dyn Fn(&ComparedRun) -> f64| {
            some(&|run| Some(of(run))).expect("there is a run, and each has this figure")
        };
        Self {
            scenario: scenario.to_owned(),
            policy: combination.policy.name(),
            max_window: combination.max_window.map(|window| window.0),
            memory: combination.memory.0,
            seeds: runs.len(),
            mb_per_s: each(&|run| run.mb_per_s),
            waited_s: each(&|run| run.waited_s),
            requests: each(&|run| run.requests as f64),
            requests_over_optimum: some(&|run| over(run.requests, run.optimum_requests)),
            requests_over_fewest: some(&|run| over(run.requests, as_float(run.fewest_requests))),
            amplification: each(&|run| run.amplification),
            bytes_over_fewest: some(&|run| over(run.device_bytes, as_float(run.fewest_bytes))),
            evicted_unread: each(&|run| run.evicted_unread as f64),
            wait_p50_ms: some(&|run| run.wait_p50_ms),
            wait_p99_ms: some(&|run| run.wait_p99_ms),
            wait_p999_ms: some(&|run| run.wait_p999_ms),
            runs: runs.to_vec(),
        }
    }

    /// Each figure, in the order of [`Self::FIGURES`].
    #[must_use]
    pub fn figures(&self) -> [Option<ComparedFigure>; 11] {
        [
            Some(self.mb_per_s),
            Some(self.waited_s),
            Some(self.requests),
            self.requests_over_optimum,
            self.requests_over_fewest,
            Some(self.amplification),
            self.bytes_over_fewest,
            Some(self.evicted_unread),
            self.wait_p50_ms,
            self.wait_p99_ms,
            self.wait_p999_ms,
        ]
    }

    /// Whether other seeds change nothing, as where nothing follows from them.
    #[must_use]
    pub fn is_same_with_each_seed(&self) -> bool {
        self.runs.iter().all(|run| run.hash == self.runs[0].hash)
    }
}
