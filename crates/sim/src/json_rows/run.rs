//! A run of a scenario.

use std::collections::BTreeMap;

use foreread_core::sched::Op;
use foreread_core::units::Nanos;
use hdrhistogram::Histogram;
use serde::Serialize;

use super::ms;
use crate::device::StoreTotals;
use crate::meter::{DeviceMeter, ProcessMeter, without_hits};
use crate::run::RunOutcome;
use crate::scenario::Scenario;
use crate::time::seconds;

/// Figures of a run.
#[derive(Debug, Serialize)]
pub struct RunRow<'r> {
    name: &'r str,
    seed: u64,
    policy: &'r str,
    /// Largest window in bytes; None: learnt.
    max_window: Option<u64>,
    seconds: f64,
    events: u64,
    hash: String,
    unfinished: usize,
    /// Number of operations of all processes that took time.
    waits: u64,
    /// Distribution of their times.
    wait_ms: LatencyRow,
    processes: Vec<ProcessRow<'r>>,
    devices: Vec<DeviceRow<'r>>,
    cache: CacheRow,
}

/// Figures of a process.
#[derive(Debug, Serialize)]
pub struct ProcessRow<'r> {
    name: &'r str,
    ops: u64,
    bytes: u64,
    seconds: f64,
    mb_per_s: f64,
    /// Latency of all operations.
    latency_ms: LatencyRow,
    /// Number of operations that took time: all except hits.
    waits: u64,
    /// Distribution of their times.
    wait_ms: LatencyRow,
    other: &'r BTreeMap<&'static str, f64>,
}

/// Latency of operations, in ms.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LatencyRow {
    mean: f64,
    p50: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

/// Figures of a device.
#[derive(Debug, Serialize)]
pub struct DeviceRow<'r> {
    name: &'r str,
    reads: u64,
    read_bytes: u64,
    writes: u64,
    write_bytes: u64,
    busy_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<StoreTotals>,
}

/// Figures of the cache, in pages.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CacheRow {
    /// Pages of reads that missed.
    pub pages_wanted: u64,
    /// Missed pages requested for the read.
    pub pages_missed: u64,
    /// Missed pages already in flight.
    pub pages_joined: u64,
    /// Pages that were read ahead.
    pub pages_ahead: u64,
    /// Evicted pages.
    pub evicted: u64,
    /// Evicted pages that were never used.
    pub evicted_before_use: u64,
}

impl<'r> RunRow<'r> {
    /// Creates the row of a run. `policy` is its name: a policy written in Python is not in the
    /// scenario.
    #[must_use]
    pub fn new(scenario: &'r Scenario, policy: &'r str, ran: &'r RunOutcome) -> Self {
        let waits = without_hits(ProcessMeter::latency_of_all(&ran.processes));
        Self {
            name: &scenario.name,
            seed: scenario.seed,
            policy,
            max_window: scenario.max_window().bytes().map(|window| window.0),
            seconds: seconds(ran.end.0),
            events: ran.events,
            hash: ran.hash_text(),
            unfinished: ran.unfinished,
            waits: waits.len(),
            wait_ms: LatencyRow::new(&waits),
            processes: ran.processes.iter().map(|meter| ProcessRow::new(meter, ran.end)).collect(),
            devices: ran.devices.iter().map(|meter| DeviceRow::new(meter, ran.end)).collect(),
            cache: CacheRow::new(ran),
        }
    }
}

impl<'r> ProcessRow<'r> {
    fn new(meter: &'r ProcessMeter, end: Nanos) -> Self {
        let waits = without_hits(meter.latency().clone());
        Self {
            name: &meter.name,
            ops: meter.ops,
            bytes: meter.bytes.0,
            seconds: meter.seconds(end),
            mb_per_s: meter.mb_per_s(end),
            latency_ms: LatencyRow::new(meter.latency()),
            waits: waits.len(),
            wait_ms: LatencyRow::new(&waits),
            other: &meter.other,
        }
    }
}

impl LatencyRow {
    /// Returns the mean and quantiles of a distribution in ns; 0 if it is empty.
    #[must_use]
    pub fn new(latency: &Histogram<u64>) -> Self {
        Self {
            mean: latency.mean() / 1e6,
            p50: ms(latency.value_at_quantile(0.5)),
            p99: ms(latency.value_at_quantile(0.99)),
            p999: ms(latency.value_at_quantile(0.999)),
            max: ms(latency.max()),
        }
    }
}

impl<'r> DeviceRow<'r> {
    fn new(meter: &'r DeviceMeter, end: Nanos) -> Self {
        Self {
            name: &meter.name,
            reads: meter.requests(Op::Read),
            read_bytes: meter.bytes(Op::Read).0,
            writes: meter.requests(Op::Write),
            write_bytes: meter.bytes(Op::Write).0,
            busy_seconds: meter.busy_seconds(end),
            store: meter.store,
        }
    }
}

impl CacheRow {
    /// Returns the cache figures of a run.
    #[must_use]
    pub fn new(ran: &RunOutcome) -> Self {
        Self {
            pages_wanted: ran.stats.pages_wanted,
            pages_missed: ran.stats.pages_missed,
            pages_joined: ran.stats.pages_joined,
            pages_ahead: ran.stats.pages_ahead,
            evicted: ran.cache.evictions,
            evicted_before_use: ran.cache.evicted_before_use,
        }
    }
}
