//! The figures of one run.

use std::sync::{Mutex, PoisonError};

use foreread_core::units::PAGE_SIZE;
use serde::Serialize;

use crate::json_rows::wait_ms;
use crate::rivals::{RunKeeps, measure_keeping};
use crate::scenario::Scenario;
use crate::time_series::TimeSeries;

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
    /// The fewest requests that windows could come to; None where no formula says so.
    pub optimum_requests: Option<f64>,
    /// Requests that no read-ahead can do without, whatever it knows; None if it was not computed,
    /// or where the device takes requests as large as the memory.
    pub fewest_requests: Option<u64>,
    /// Bytes that the devices were asked for.
    pub device_bytes: u64,
    /// Bytes that no cache of this memory can do without; None if it was not computed.
    pub fewest_bytes: Option<u64>,
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
    /// Its figures over time, where they were kept.
    #[serde(skip)]
    pub series: Option<TimeSeries>,
}

impl ComparedRun {
    /// Runs a scenario, and keeps this of it.
    ///
    /// `bounding` is held while lower bounds are computed: they take gigabytes for long runs.
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
