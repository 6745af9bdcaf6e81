//! Results of the mixed load, in the form that `--json` prints.

use serde::{Deserialize, Serialize};

use super::mixed_load::MixedSample;
use super::plan::TrialPlan;
use super::trial_runs::{TrialRuns, middle};
use crate::setting::DeviceSetting;

/// Measured schedulers of a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FloodReport {
    /// Whole device.
    pub device: String,
    /// Duration of the measurement.
    pub seconds: f64,
    /// Trials; the first is the setting in force.
    pub rows: Vec<FloodRow>,
    /// Settings to make, in this order; empty if those in force should stay.
    pub recommended: Vec<DeviceSetting>,
    /// Reason for the recommendation.
    pub why: String,
    /// Notes for the interpretation of the figures.
    pub notes: Vec<String>,
    /// True if every setting was restored.
    pub restored: bool,
}

/// One trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FloodRow {
    /// Description: `mq-deadline, async_depth 4`.
    pub name: String,
    /// Scheduler; None if the device has none.
    pub scheduler: Option<String>,
    /// Requests of one direction dispatched before the other.
    pub fifo_batch: Option<u64>,
    /// Limit of asynchronous requests.
    pub async_depth: Option<u64>,
    /// Limit of requests of any kind.
    pub nr_requests: Option<u64>,
    /// Median read latency.
    pub read_median_us: f64,
    /// p99 read latency.
    pub read_p99_us: f64,
    /// Reads per second of the chain, median of its runs.
    pub reads_per_s: f64,
    /// Write throughput in MB/s, median of its runs.
    pub write_mb_per_s: f64,
    /// Reads per second of the slowest run.
    pub low: f64,
    /// Reads per second of the fastest run.
    pub high: f64,
    /// Number of runs.
    pub runs: u64,
    /// Number of reads in all runs.
    pub reads: u64,
}

/// Returns a row for each trial that was run.
pub(super) fn rows(plan: &TrialPlan) -> Vec<FloodRow> {
    plan.tried().iter().filter_map(row).collect()
}

fn row(tried: &TrialRuns) -> Option<FloodRow> {
    let reads_per_s = middle(tried, MixedSample::reads_per_s)?;
    let rates = || tried.runs.iter().map(|(_, sample)| sample.reads_per_s());
    let scheduler = tried.queue.scheduler.as_ref();
    let tunable = |name: &str| scheduler?.tunables.get(name)?.parse().ok();
    let latencies = tried.latencies();
    Some(FloodRow {
        name: tried.trial.to_string(),
        scheduler: scheduler.map(|scheduler| scheduler.chosen.clone()),
        fifo_batch: tunable("fifo_batch"),
        async_depth: tunable("async_depth").or(tried.queue.async_depth),
        nr_requests: tried.queue.nr_requests,
        read_median_us: latencies.median_us,
        read_p99_us: latencies.p99_us,
        reads_per_s,
        write_mb_per_s: middle(tried, MixedSample::written_mb_per_s)?,
        low: rates().fold(f64::INFINITY, f64::min),
        high: rates().fold(0.0, f64::max),
        runs: tried.runs.len() as u64,
        reads: latencies.reads as u64,
    })
}
