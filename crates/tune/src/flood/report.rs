//! What the mixed load found, as `--json` prints it.
//!
//! In:    a plan that has ended.
//! Out:   [`FloodReport`].
//! Never: a figure that was not measured.

use serde::{Deserialize, Serialize};

use super::mixed_load::MixedSample;
use super::plan::TrialPlan;
use super::trial_runs::{TrialRuns, middle};
use crate::setting::DeviceSetting;

/// A device's schedulers measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FloodReport {
    /// The whole device.
    pub device: String,
    /// How long it took.
    pub seconds: f64,
    /// What was tried; the first one is what was in force.
    pub rows: Vec<FloodRow>,
    /// What to set, in this order; nothing if what is in force should stay.
    pub recommended: Vec<DeviceSetting>,
    /// Why.
    pub why: String,
    /// What a reader of the figures has to know.
    pub notes: Vec<String>,
    /// Whether every setting is as it was.
    pub restored: bool,
}

/// One setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FloodRow {
    /// In words: `mq-deadline, async_depth 4`.
    pub name: String,
    /// The scheduler; None if the device has none.
    pub scheduler: Option<String>,
    /// How many of one direction before the other.
    pub fifo_batch: Option<u64>,
    /// How many writes.
    pub async_depth: Option<u64>,
    /// How many of any kind.
    pub nr_requests: Option<u64>,
    /// Half of the reads took less.
    pub read_median_us: f64,
    /// 99 of 100 took less.
    pub read_p99_us: f64,
    /// Reads a second of the chain, the median of its runs.
    pub reads_per_s: f64,
    /// What the writers wrote, in MB/s, the median of its runs.
    pub write_mb_per_s: f64,
    /// Reads a second of the slowest run,
    pub low: f64,
    /// and of the fastest.
    pub high: f64,
    /// How many runs.
    pub runs: u64,
    /// How many reads in them.
    pub reads: u64,
}

/// A row for each trial that was run.
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
