//! Figures of runs and replays as dictionaries.
//!
//! In:    what the simulator measured.
//! Out:   under `report` the keys of the command line's `--json`; distributions and pictures beside
//!        them.
//! Never: a rounded figure: floats are those of the JSON, bit for bit.

use foreread_core::sched::Op;
use foreread_core::units::Nanos;
use foreread_sim::meter::{DeviceMeter, ProcessMeter};
use foreread_sim::picture::{PictureKind, RunPicture};
use foreread_sim::run::RunOutcome;
use foreread_sim::scenario::MaxWindowSpec;
use hdrhistogram::Histogram;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// Makes a dictionary of `key: value`.
macro_rules! dict {
    ($py:expr, $($key:ident: $value:expr),+ $(,)?) => {{
        let dict = PyDict::new($py);
        $(dict.set_item(stringify!($key), $value)?;)+
        dict
    }};
}
pub(super) use dict;

/// A run that has ended, and what its figures say of its scenario.
pub(super) struct FinishedRun {
    pub(super) name: String,
    pub(super) seed: u64,
    pub(super) policy: String,
    pub(super) memory: u64,
    pub(super) max_window: MaxWindowSpec,
    pub(super) ran: RunOutcome,
}

/// The figures of a run of a scenario.
pub(super) fn of_run<'py>(py: Python<'py>, run: &FinishedRun) -> PyResult<Bound<'py, PyDict>> {
    let ran = &run.ran;
    let processes = PyList::empty(py);
    let histograms = PyList::empty(py);
    let waited_s = PyList::empty(py);
    let mut all = Histogram::<u64>::new(3).expect("1 to 5 significant digits are allowed");
    for meter in &ran.processes {
        processes.append(process(py, meter, ran.end)?)?;
        histograms.append(counts(&meter.latency))?;
        waited_s.append(seconds(meter.waited_ns))?;
        all.add(&meter.latency).expect("a histogram that resizes itself takes any other");
    }
    let devices = PyList::empty(py);
    for meter in &ran.devices {
        devices.append(device(py, meter, ran.end)?)?;
    }
    let cache = dict!(py,
        pages_wanted: ran.stats.pages_wanted,
        pages_missed: ran.stats.pages_missed,
        pages_joined: ran.stats.pages_joined,
        pages_ahead: ran.stats.pages_ahead,
        evicted: ran.cache.evictions,
        evicted_before_use: ran.cache.evicted_before_use,
    );
    let max_window = match run.max_window {
        MaxWindowSpec::Auto => None,
        MaxWindowSpec::Size(size) => Some(size.0.0),
    };
    let report = dict!(py,
        name: &run.name,
        seed: run.seed,
        policy: &run.policy,
        seconds: seconds(ran.end.0),
        events: ran.events,
        hash: format!("{:016x}", ran.hash),
        unfinished: ran.unfinished,
        processes: processes,
        devices: devices,
        cache: cache,
    );
    Ok(dict!(py,
        report: report,
        memory: run.memory,
        max_window: max_window,
        histograms: histograms,
        waited_s: waited_s,
        latency_ms: latency(py, &all, all.mean() / 1e6)?,
        lines: &ran.lines,
    ))
}

fn process<'py>(py: Python<'py>, meter: &ProcessMeter, end: Nanos) -> PyResult<Bound<'py, PyDict>> {
    Ok(dict!(py,
        name: &meter.name,
        ops: meter.ops,
        bytes: meter.bytes.0,
        seconds: meter.seconds(end),
        mb_per_s: meter.mb_per_s(end),
        latency_ms: latency(py, &meter.latency, meter.mean_ms())?,
        other: &meter.other,
    ))
}

fn latency<'py>(
    py: Python<'py>,
    histogram: &Histogram<u64>,
    mean: f64,
) -> PyResult<Bound<'py, PyDict>> {
    Ok(dict!(py,
        mean: mean,
        p50: ms(histogram.value_at_quantile(0.5)),
        p99: ms(histogram.value_at_quantile(0.99)),
        p99_9: ms(histogram.value_at_quantile(0.999)),
        max: ms(histogram.max()),
    ))
}

fn device<'py>(py: Python<'py>, meter: &DeviceMeter, end: Nanos) -> PyResult<Bound<'py, PyDict>> {
    let device = dict!(py,
        name: &meter.name,
        reads: meter.requests(Op::Read),
        read_bytes: meter.bytes(Op::Read).0,
        writes: meter.requests(Op::Write),
        write_bytes: meter.bytes(Op::Write).0,
        busy_seconds: meter.busy_seconds(end),
    );
    if let Some(totals) = meter.store {
        let store = dict!(py,
            requests: totals.requests,
            hedged: totals.hedged,
            throttled: totals.throttled,
            cost: totals.cost,
        );
        device.set_item("store", store)?;
    }
    Ok(device)
}

/// The values of a histogram in ns, each with its count.
pub(super) fn counts(histogram: &Histogram<u64>) -> Vec<(u64, u64)> {
    let recorded = histogram.iter_recorded();
    recorded.map(|step| (step.value_iterated_to(), step.count_at_value())).collect()
}

/// What a replay keeps for pictures of itself.
pub(super) fn picture<'py>(
    py: Python<'py>,
    picture: &RunPicture,
    file_name: &dyn Fn(u32) -> String,
) -> PyResult<Bound<'py, PyDict>> {
    let cells: Vec<(u32, u32, &str)> =
        picture.cells.iter().map(|cell| (cell.column, cell.row, kind_name(cell.kind))).collect();
    let counts = PyDict::new(py);
    for kind in KINDS {
        counts.set_item(kind_name(kind), picture.counts[kind as usize])?;
    }
    let streams = PyList::empty(py);
    for stream in &picture.streams {
        let points: Vec<(u32, u64, u64)> = stream
            .points
            .iter()
            .map(|point| (point.column, point.window.0, point.ahead.0))
            .collect();
        streams.append(dict!(py,
            thread: stream.thread,
            file: file_name(stream.file),
            pages: stream.pages,
            points: points,
        ))?;
    }
    Ok(dict!(py,
        column_s: seconds(picture.column_ns),
        row_bytes: picture.row_bytes,
        cells: cells,
        counts: counts,
        streams: streams,
    ))
}

const KINDS: [PictureKind; 4] =
    [PictureKind::Hit, PictureKind::Prefetched, PictureKind::Wasted, PictureKind::Waited];

fn kind_name(kind: PictureKind) -> &'static str {
    match kind {
        PictureKind::Hit => "hit",
        PictureKind::Prefetched => "prefetched",
        PictureKind::Wasted => "wasted",
        PictureKind::Waited => "waited",
    }
}

#[expect(clippy::cast_precision_loss, reason = "as the command line does")]
pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[expect(clippy::cast_precision_loss, reason = "as the command line does")]
pub(super) fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}
