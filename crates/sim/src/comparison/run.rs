//! The figures of one run.

use std::sync::{Mutex, PoisonError};

use foreread_core::units::PAGE_SIZE;
use serde::Serialize;

use crate::json_rows::wait_ms;
use crate::rivals::{RunKeeps, measure_keeping};
use crate::scenario::Scenario;
use crate::time_series::TimeSeries;

/// Figures of one run that are compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedRun {
    /// Seed of the run.
    pub seed: u64,
    /// Hash of the run's events.
    pub hash: String,
    /// Number of events.
    pub events: u64,
    /// Duration of the measured part, in virtual seconds.
    pub elapsed_s: f64,
    /// Number of processes that had not finished.
    pub unfinished: usize,
    /// Bytes read or written per second, in MB.
    pub mb_per_s: f64,
    /// Total time that all readers waited for reads through the cache, in seconds.
    pub waited_s: f64,
    /// Number of requests sent to the devices.
    pub requests: u64,
    /// Fewest requests that windows can reach; None without a formula for it.
    pub optimum_requests: Option<f64>,
    /// Lower bound of requests for any read-ahead, even with perfect knowledge; None if it was not
    /// computed, or if the device accepts requests as large as the memory.
    pub fewest_requests: Option<u64>,
    /// Bytes requested from the devices.
    pub device_bytes: u64,
    /// Lower bound of bytes for any cache of this memory; None if it was not computed.
    pub fewest_bytes: Option<u64>,
    /// Bytes requested from the devices per byte read or written.
    pub amplification: f64,
    /// Pages that were read ahead and evicted unused.
    pub evicted_unread: u64,
    /// Number of operations that took time: all except hits.
    pub waits: u64,
    /// Median of their times, in ms; None if there are none.
    pub wait_p50_ms: Option<f64>,
    /// 99th percentile, in ms.
    pub wait_p99_ms: Option<f64>,
    /// 99.9th percentile, in ms.
    pub wait_p999_ms: Option<f64>,
    /// Figures over time, if they were kept.
    #[serde(skip)]
    pub series: Option<TimeSeries>,
}

impl ComparedRun {
    /// Runs a scenario and returns its figures.
    ///
    /// `bounding` is locked while lower bounds are computed, because long runs take gigabytes for
    /// them.
    pub(super) fn of(scenario: &Scenario, keeps: RunKeeps, bounding: &Mutex<()>) -> Self {
        let mut measured = measure_keeping(scenario, keeps, &mut |_| {});
        let bounds = {
            let _one = bounding.lock().unwrap_or_else(PoisonError::into_inner);
            measured.lower_bounds(scenario)
        };
        measured.reads = Vec::new();
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
            optimum_requests: measured.optimum_requests(scenario),
            fewest_requests: bounds.and_then(|bounds| bounds.fewest_requests),
            device_bytes: measured.to.device_bytes - measured.from.device_bytes,
            fewest_bytes: bounds.map(|bounds| bounds.fewest_pages * PAGE_SIZE),
            amplification: measured.amplification(),
            evicted_unread: measured.to.evicted_unread,
            waits: waits.len(),
            wait_p50_ms: quantile(0.5),
            wait_p99_ms: quantile(0.99),
            wait_p999_ms: quantile(0.999),
            series: measured.series,
        }
    }
}
