//! Figures of runs and replays as dictionaries: `report` has the keys of the command line's
//! `--json`, next to distributions and pictures. Floats equal those of the JSON, bit for bit.

use foreread_sim::json_rows::{LatencyRow, RunRow};
use foreread_sim::meter::ProcessMeter;
use foreread_sim::picture::{PictureKind, RunPicture};
use foreread_sim::run::RunOutcome;
use foreread_sim::scenario::Scenario;
use hdrhistogram::Histogram;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use serde::Serialize;

/// Creates a dictionary of `key: value`.
macro_rules! dict {
    ($py:expr, $($key:ident: $value:expr),+ $(,)?) => {{
        let dict = PyDict::new($py);
        $(dict.set_item(stringify!($key), $value)?;)+
        dict
    }};
}
pub(super) use dict;

/// A finished run, its scenario, and the name of its policy.
pub(super) struct FinishedRun {
    pub(super) scenario: Scenario,
    pub(super) policy: String,
    pub(super) ran: RunOutcome,
}

/// Returns the figures of a run of a scenario.
pub(super) fn of_run<'py>(py: Python<'py>, run: &FinishedRun) -> PyResult<Bound<'py, PyDict>> {
    let ran = &run.ran;
    let all = ProcessMeter::latency_of_all(&ran.processes);
    let histograms: Vec<_> = ran.processes.iter().map(|meter| counts(meter.latency())).collect();
    let waited_s: Vec<_> = ran.processes.iter().map(|meter| seconds(meter.waited_ns)).collect();
    Ok(dict!(py,
        report: row(py, &RunRow::new(&run.scenario, &run.policy, ran))?,
        memory: run.scenario.cache.memory.0.0,
        histograms: histograms,
        waited_s: waited_s,
        latency_ms: row(py, &LatencyRow::new(&all))?,
        lines: &ran.lines,
    ))
}

/// Converts a row of the command line's `--json` to a dictionary. JSON round-trips floats exactly.
pub(super) fn row<'py>(py: Python<'py>, row: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(row).expect("rows have keys of text and no failing parts");
    py.import("json")?.call_method1("loads", (text,))
}

/// Returns the values of a histogram in ns, each with its count.
pub(super) fn counts(histogram: &Histogram<u64>) -> Vec<(u64, u64)> {
    let recorded = histogram.iter_recorded();
    recorded.map(|step| (step.value_iterated_to(), step.count_at_value())).collect()
}

/// Returns the data for the picture of a replay.
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
