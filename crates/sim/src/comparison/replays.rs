//! The replays of one combination, over its seeds.

use serde::Serialize;

use super::figure::{ComparedFigure, as_float, over};
use crate::json_rows::{ReplayRow, ReplaySetup, WaitRow};

/// One combination of policy, window, eviction policy and memory size, over all seeds.
#[derive(Clone, Debug, Serialize)]
pub struct ReplayComparisonRow {
    /// Trace, device and settings.
    #[serde(flatten)]
    pub setup: ReplaySetup,
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
    /// See [`ReplayRow::wait_ms`]; None if no read of a replay waited.
    pub wait_p50_ms: Option<ComparedFigure>,
    /// The 99th percentile.
    pub wait_p99_ms: Option<ComparedFigure>,
    /// The 99.9th percentile.
    pub wait_p999_ms: Option<ComparedFigure>,
    /// See [`ReplayRow::requests`].
    pub requests: ComparedFigure,
    /// See [`ReplayRow::fewest_requests`].
    pub fewest_requests: Option<u64>,
    /// `requests` over `fewest_requests`.
    pub requests_over_fewest: Option<ComparedFigure>,
    /// See [`ReplayRow::device_bytes`].
    pub device_bytes: ComparedFigure,
    /// See [`ReplayRow::fewest_bytes`].
    pub fewest_bytes: Option<u64>,
    /// `device_bytes` over `fewest_bytes`.
    pub bytes_over_fewest: Option<ComparedFigure>,
    /// See [`ReplayRow::device_s`].
    pub device_s: ComparedFigure,
    /// See [`ReplayRow::amplification`].
    pub amplification: ComparedFigure,
    /// See [`ReplayRow::evicted_unread`].
    pub evicted_unread: ComparedFigure,
    /// See [`ReplayRow::elapsed_s`].
    pub elapsed_s: ComparedFigure,
    /// One row per replay.
    pub runs: Vec<ReplayRow>,
}

impl ReplayComparisonRow {
    /// Summarises the replays of one combination against those of its baseline, which ran with the
    /// same seeds.
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
            setup: first.setup.clone(),
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

    /// Summarises one trace: `runs` holds its replays, `seeds` of them per combination. The
    /// baseline of each is the first policy with the same eviction policy and memory, and with the
    /// window at the same index among its windows, or else its last, as in
    /// [`Combination`](super::Combination).
    ///
    /// # Panics
    ///
    /// If there are no seeds.
    #[must_use]
    pub fn all(runs: &[ReplayRow], seeds: usize) -> Vec<Self> {
        let combinations: Vec<&[ReplayRow]> = runs.chunks(seeds).collect();
        let is_beside = |one: &ReplayRow, other: &ReplayRow, policy: &str| {
            let (one, other) = (&one.setup, &other.setup);
            (one.memory, one.eviction, policy) == (other.memory, other.eviction, &other.policy)
        };
        let base = |at: usize| {
            let (own, first) = (&combinations[at][0], &runs[0].setup.policy);
            if own.setup.policy == *first {
                return None;
            }
            let before = combinations[..at].iter();
            let nth = before.filter(|other| is_beside(own, &other[0], &own.setup.policy)).count();
            let of_first = combinations.iter().filter(|other| is_beside(own, &other[0], first));
            of_first.take(nth + 1).last().copied()
        };
        (0..combinations.len()).map(|at| Self::new(combinations[at], base(at))).collect()
    }

    /// Names of [`Self::figures`].
    pub const FIGURES: [&'static str; 13] = [
        "waits",
        "waited_s",
        "wait_p50_ms",
        "wait_p99_ms",
        "wait_p999_ms",
        "requests",
        "requests_over_fewest",
        "device_bytes",
        "bytes_over_fewest",
        "device_s",
        "amplification",
        "evicted_unread",
        "elapsed_s",
    ];

    /// Returns all figures, in the order of [`Self::FIGURES`].
    #[must_use]
    pub fn figures(&self) -> [Option<ComparedFigure>; 13] {
        [
            Some(self.waits),
            Some(self.waited_s),
            self.wait_p50_ms,
            self.wait_p99_ms,
            self.wait_p999_ms,
            Some(self.requests),
            self.requests_over_fewest,
            Some(self.device_bytes),
            self.bytes_over_fewest,
            Some(self.device_s),
            Some(self.amplification),
            Some(self.evicted_unread),
            Some(self.elapsed_s),
        ]
    }

    /// Returns true if the seed makes no difference, as on a device with constant service times.
    #[must_use]
    pub fn is_same_with_each_seed(&self) -> bool {
        let figures = |run: &ReplayRow| {
            let times = (run.waited_s, run.elapsed_s, run.device_s);
            (run.waits, run.requests, run.device_bytes, run.evicted_unread, times)
        };
        self.runs.iter().all(|run| figures(run) == figures(&self.runs[0]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(policy: &str, eviction: &'static str, window: Option<u64>, waited_s: f64) -> ReplayRow {
        ReplayRow {
            setup: ReplaySetup {
                trace: "a".to_owned(),
                level: "file",
                device: "disk".to_owned(),
                policy: policy.to_owned(),
                eviction,
                label: policy.to_owned(),
                max_window: window,
                memory: 1 << 20,
                pace: "closed",
                scale: 1.0,
                warm: false,
            },
            seed: 1,
            reads: 10,
            bytes: 40960,
            waits: 5,
            waited_s,
            least_waited_s: None,
            wait_ms: WaitRow { p50: 1.0, p99: 1.0, p999: 1.0, max: 1.0 },
            requests: 10,
            fewest_requests: None,
            device_bytes: 40960,
            fewest_bytes: None,
            device_s: 1.0,
            amplification: 1.0,
            evicted_unread: 0,
            elapsed_s: 1.0,
            late: 0,
            failed: 0,
            writes: 0,
            groups: Vec::new(),
        }
    }

    /// Returns the wait of each combination's baseline.
    fn bases(policies: &[(&str, Option<u64>)]) -> Vec<Option<f64>> {
        let each = |eviction| policies.iter().map(move |(name, window)| (*name, eviction, *window));
        let mut waited = 0.0;
        let with = |(name, eviction, window)| {
            waited += 1.0;
            run(name, eviction, window, waited)
        };
        let runs: Vec<ReplayRow> = each("lru").chain(each("sieve")).map(with).collect();
        let of = |row: &ReplayComparisonRow| {
            row.waited_s.over_first.map(|over| (row.waited_s.over_seeds.mean / over.ratio).round())
        };
        ReplayComparisonRow::all(&runs, 1).iter().map(of).collect()
    }

    #[test]
    fn each_is_compared_with_the_first_policy_with_its_eviction_and_the_window_of_its_place() {
        let (small, large) = (Some(64 << 10), Some(128 << 10));
        // The second windows of the two policies have different sizes.
        let two = [("linux", small), ("linux", large), ("adaptive", small), ("adaptive", None)];
        let expected = [None, None, Some(1.0), Some(2.0), None, None, Some(5.0), Some(6.0)];
        assert_eq!(bases(&two), expected);
        let one = [("none", small), ("linux", small), ("linux", large)];
        assert_eq!(bases(&one), [None, Some(1.0), Some(1.0), None, Some(4.0), Some(4.0)]);
        assert_eq!(bases(&two[..2]), [None; 4]);
    }
}
