//! The figures of one combination, over its seeds.

use serde::Serialize;

use super::figure::{ComparedFigure, as_float, over};
use super::{Combination, ComparedRun};

/// One combination over all seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparisonRow {
    /// Name of the scenario.
    pub scenario: String,
    /// Name of the policy.
    pub policy: &'static str,
    /// Largest window, in bytes; None: learnt.
    pub max_window: Option<u64>,
    /// Memory bound, in bytes.
    pub memory: u64,
    /// Number of seeds.
    pub seeds: usize,
    /// See [`ComparedRun::mb_per_s`].
    pub mb_per_s: ComparedFigure,
    /// See [`ComparedRun::waited_s`].
    pub waited_s: ComparedFigure,
    /// See [`ComparedRun::requests`].
    pub requests: ComparedFigure,
    /// [`ComparedRun::requests`] over the fewest that windows can reach; None without a formula for
    /// it.
    pub requests_over_optimum: Option<ComparedFigure>,
    /// [`ComparedRun::requests`] over the lower bound for any read-ahead; None if a run has no such
    /// bound.
    pub requests_over_fewest: Option<ComparedFigure>,
    /// See [`ComparedRun::amplification`].
    pub amplification: ComparedFigure,
    /// [`ComparedRun::device_bytes`] over the lower bound for any cache; None if a run has no such
    /// bound.
    pub bytes_over_fewest: Option<ComparedFigure>,
    /// See [`ComparedRun::evicted_unread`].
    pub evicted_unread: ComparedFigure,
    /// See [`ComparedRun::wait_p50_ms`]; None if all operations of a run were hits.
    pub wait_p50_ms: Option<ComparedFigure>,
    /// See [`ComparedRun::wait_p99_ms`].
    pub wait_p99_ms: Option<ComparedFigure>,
    /// See [`ComparedRun::wait_p999_ms`].
    pub wait_p999_ms: Option<ComparedFigure>,
    /// The figures of each run.
    pub runs: Vec<ComparedRun>,
}

impl ComparisonRow {
    /// Names of [`Self::figures`].
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

    /// Returns all figures, in the order of [`Self::FIGURES`].
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

    /// Returns true if the seed makes no difference, as in a deterministic scenario.
    #[must_use]
    pub fn is_same_with_each_seed(&self) -> bool {
        self.runs.iter().all(|run| run.hash == self.runs[0].hash)
    }
}
