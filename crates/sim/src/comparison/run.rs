//! The figures of one run.

use serde::Serialize;

use crate::json_rows::wait_ms;
use crate::rivals::measure;
use crate::scenario::Scenario;

/// What is compared of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedRun {
    /// Its seed.
    pub seed: u64,
    /// The hash of its events.
    pub hash: String,
    /// Their number.
    pub events: u64,
    /// How long what was counted took, in virtual seconds.
    pub elapsed_s: f64,
    /// The number of processes that had not ended.
    pub unfinished: usize,
    /// Bytes that were read or written a second, in MB.
    pub mb_per_s: f64,
    /// How long all readers waited for reads through the cache, in seconds.
    pub waited_s: f64,
    /// The number of requests that the devices were sent.
    pub requests: u64,
    /// Bytes that the devices were asked for, a byte that was read or written.
    pub amplification: f64,
    /// Pages that were read ahead and evicted unused.
    pub evicted_unread: u64,
    /// The number of operations that took time: all but hits.
    pub waits: u64,
    /// Their median, in ms; None where there are none.
    pub wait_p50_ms: Option<f64>,
    /// Their 99th percentile.
    pub wait_p99_ms: Option<f64>,
    /// Their 99.9th percentile.
    pub wait_p999_ms: Option<f64>,
}

impl ComparedRun {
    /// Runs a scenario.
    pub(super) fn of(scenario: &Scenario) -> Self {
        let measured = measure(scenario, &mut |_| {});
        let waits = measured.wait_latency();
        let quantile = |quantile| (!waits.is_empty()).then(|| wait_ms(&waits, quantile));
        Self {
            seed: scenario.seed,
            hash: measured.ran.hash_text(),
            events: measured.ran.events,
            elapsed_s: measured.elapsed_s(),
            unfinished: measured.ran.unfinished,
            mb_per_s: measured.mb_per_s(),
            waited_s: measured.to.waited_s - measured.from.waited_s,
            requests: measured.requests(),
            amplification: measured.amplification(),
            evicted_unread: measured.to.evicted_unread,
            waits: waits.len(),
            wait_p50_ms: quantile(0.5),
            wait_p99_ms: quantile(0.99),
            wait_p999_ms: quantile(0.999),
        }
    }
}
