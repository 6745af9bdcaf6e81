//! Compares a candidate model with the device, by the same requests in the simulator.
//!
//! Uses the simulator instead of a formula, as replays do.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use foreread_core::sizes::Exact;
use foreread_core::units::ByteCount;
use foreread_sim::device::DeviceParams;
use foreread_sim::scenario::NamedDevice;
use foreread_tune::device_fit::{FittedDevice, ModelPoint, device_table};
use foreread_tune::parallel_reads::{PARALLEL_READ, ParallelProbe as _, ReadsAtOnce};
use foreread_tune::probe::{Probe as _, RandomReads, SequentialRead, Stopped};
use foreread_tune::report::{Latency, ParallelResult, Report, WindowResult};

use crate::cmd::tune::simulated::SimulatedDevice;

/// Returns the parameters as in their file; None if one is out of range.
pub(super) fn model_of(device: &FittedDevice) -> Option<DeviceParams> {
    NamedDevice::parse(&device_table("candidate", device, &[])).ok().map(|named| named.model)
}

/// Returns each figure of the report with that of the model.
pub(super) fn points(
    model: &DeviceParams,
    report: &Report,
    interrupted: &Arc<AtomicBool>,
) -> Result<Vec<ModelPoint>, Stopped> {
    let mut probe = SimulatedDevice::new(model.clone(), Arc::clone(interrupted));
    let mut points = Vec::new();
    for row in report.sweep.iter().filter(|row| row.mb_per_s > 0.0) {
        points.push(of_window(&mut probe, row)?);
    }
    for row in report.random.iter().filter(|row| row.median_us > 0.0) {
        points.push(of_size(&mut probe, row)?);
    }
    for row in report.parallel.iter().filter(|row| row.reads_per_s > 0.0) {
        points.push(of_number(&mut probe, row)?);
    }
    Ok(points)
}

fn of_window(probe: &mut SimulatedDevice, row: &WindowResult) -> Result<ModelPoint, Stopped> {
    let window = ByteCount(row.window_kib << 10);
    let ask = SequentialRead {
        window,
        at_least: ByteCount(window.0 * WINDOWS),
        time: Duration::ZERO,
        at_most: LONGEST,
    };
    Ok(ModelPoint {
        what: format!("one stream, windows of {}", Exact(window)),
        unit: "MB/s",
        measured: row.mb_per_s,
        model: probe.sequential(&ask)?.mb_per_s(),
    })
}

fn of_size(probe: &mut SimulatedDevice, row: &Latency) -> Result<ModelPoint, Stopped> {
    let size = ByteCount(row.size_kib << 10);
    let mut ns = probe.random(&RandomReads { size, count: READS, at_most: LONGEST })?;
    ns.sort_unstable();
    let median = ns.get(ns.len() / 2).copied().unwrap_or(0);
    Ok(ModelPoint {
        what: format!("one read of {}, median", Exact(size)),
        unit: "us",
        measured: row.median_us,
        model: median as f64 / 1e3,
    })
}

fn of_number(probe: &mut SimulatedDevice, row: &ParallelResult) -> Result<ModelPoint, Stopped> {
    let at_once = row.at_once;
    let reads = f64::from(at_once) * READS_EACH;
    let time = Duration::from_secs_f64((reads / row.reads_per_s).min(LONGEST.as_secs_f64()));
    let sample = probe.at_once(&ReadsAtOnce { size: PARALLEL_READ, at_once, time })?;
    Ok(ModelPoint {
        what: format!("reads of {}, {at_once} in flight", Exact(PARALLEL_READ)),
        unit: "1/s",
        measured: row.reads_per_s,
        model: sample.reads_per_s(),
    })
}

/// Windows of a stream that are measured: an even number, as devices may serve two at once.
const WINDOWS: u64 = 4;

/// Enough for the median of a seek.
const READS: u32 = 200;

/// Simulated reads for each read in flight.
const READS_EACH: f64 = 64.0;

/// Longest simulated run, in virtual time.
const LONGEST: Duration = Duration::from_secs(3600);
