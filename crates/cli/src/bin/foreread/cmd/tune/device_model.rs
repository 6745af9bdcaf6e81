//! Fits a device model to the measurements of `foreread tune` and writes it to a file.
//!
//! A sweep that was stopped yields no model.
//!
//! ```text
//!   figures --> candidates of the tuner --> the same requests on each, in the simulator
//!                                           --> the candidate with the least error --> FILE
//! ```

mod compared;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use foreread_core::units::ByteCount;
use foreread_sim::scenario::NamedDevice;
use foreread_tune::device_fit::{
    DEVICE_MODEL_HEAD, DeviceLimits, FittedDevice, MeasuredPoints, ModelError, ModelPoint,
    candidates, device_table,
};
use foreread_tune::parallel_reads::{ParallelProbe, parallel_reads};
use foreread_tune::probe::Stopped;
use foreread_tune::report::{Method, ParallelResult, Report};
use foreread_tune::target::TuneTarget;
use serde::Serialize;

use super::date;
use super::report::short;
use foreread_cli::output::Failure;
use foreread_cli::output_file::{CommandOutputs, OutputFile, refuse_stdout};

/// Output file of the model.
pub(super) struct ModelFile {
    file: OutputFile,
    path: PathBuf,
    interrupted: Arc<AtomicBool>,
}

/// Written model, as printed by `--json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct WrittenModel {
    file: PathBuf,
    kind: &'static str,
    mean_error: f64,
    greatest_error: f64,
    /// Measurement with the largest error.
    at: String,
}

/// Best model, with its error.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ChosenModel {
    pub(super) device: FittedDevice,
    pub(super) points: Vec<ModelPoint>,
    pub(super) error: ModelError,
}

impl ModelFile {
    /// Checks and prepares the file, so that a wrong path is reported before the measurement.
    pub(super) fn prepare(
        path: Option<&Path>,
        interrupted: &Arc<AtomicBool>,
        outputs: &mut CommandOutputs<'_>,
    ) -> Result<Option<Self>, Failure> {
        let Some(path) = path else { return Ok(None) };
        refuse_stdout(("--device-model", "the model"), path, "the figures are")?;
        let file = outputs.prepare("--device-model", path, is_device_model)?;
        let (path, interrupted) = (path.to_owned(), Arc::clone(interrupted));
        Ok(Some(Self { file, path, interrupted }))
    }

    /// Fits a model to the measurements of a device and writes it.
    pub(super) fn fit(
        self,
        report: &Report,
        limits: &DeviceLimits,
        target: Option<&Path>,
    ) -> Result<WrittenModel, Failure> {
        let chosen = choose(report, limits, &self.interrupted)?;
        let of = target.map_or(String::new(), |path| format!(" ({})", path.display()));
        let how = match report.method {
            Method::Kernel => "by the kernel's own read-ahead, and O_DIRECT",
            Method::Direct => "with O_DIRECT",
            Method::Simulated => "a model itself, in virtual time",
        };
        let (device, seconds) = (&report.device, report.seconds);
        let what = format!("{device}{of}, {}, {seconds:.0} s, {how}", date::today());
        self.write(device, &chosen, what, &report.notes)
    }

    /// Writes the chosen model.
    pub(super) fn write(
        self,
        name: &str,
        chosen: &ChosenModel,
        what: String,
        notes: &[String],
    ) -> Result<WrittenModel, Failure> {
        let comments = comments(chosen, what, notes);
        let text = device_table(name, &chosen.device, &comments);
        // The file must be readable by replay.
        NamedDevice::parse(&text).map_err(|error| {
            Failure::Check(format!("--device-model: cannot write the fitted model: {error}"))
        })?;
        self.file.write(|file| file.write_all(text.as_bytes()))?;
        let ModelError { mean, greatest, at } = chosen.error.clone();
        let (kind, file) = (chosen.device.kind(), self.path);
        Ok(WrittenModel { file, kind, mean_error: mean, greatest_error: greatest, at })
    }
}

impl WrittenModel {
    /// Returns a one-line summary of the model.
    pub(super) fn text(&self) -> String {
        let Self { file, kind, mean_error, greatest_error, at } = self;
        format!(
            "device model: {}: {kind}, mean error {:.1} %, greatest {:.1} % ({at}); foreread \
             replay TRACE --device {0}",
            file.display(),
            mean_error * 100.0,
            greatest_error * 100.0
        )
    }
}

/// Returns the candidate whose simulation has the least error.
pub(super) fn choose(
    report: &Report,
    limits: &DeviceLimits,
    interrupted: &Arc<AtomicBool>,
) -> Result<ChosenModel, Failure> {
    let points = MeasuredPoints {
        sequential: &report.sweep,
        random: &report.random,
        parallel: &report.parallel,
    };
    let mut best: Option<(f64, ChosenModel)> = None;
    for device in candidates(&points, limits) {
        let Some(model) = compared::model_of(&device) else { continue };
        let points = match compared::points(&model, report, interrupted) {
            Ok(points) => points,
            Err(Stopped::Interrupted) => return Err(Failure::Check("interrupted".to_owned())),
            Err(Stopped::Failed(_)) => continue,
        };
        let Some(error) = ModelError::of(&points) else { continue };
        let counts = error.mean * device.handicap();
        if best.as_ref().is_none_or(|(least, _)| counts < *least) {
            best = Some((counts, ChosenModel { device, points, error }));
        }
    }
    let too_little = || {
        Failure::Check(format!(
            "{}: no model was written: too little was measured of it; give it more time with \
             --seconds, or a larger target",
            report.device
        ))
    };
    best.map(|(_, chosen)| chosen).ok_or_else(too_little)
}

/// Measures reads with several in flight for `time`, unless the sweep was stopped.
pub(super) fn at_once(
    time: Option<Duration>,
    probe: &mut dyn ParallelProbe,
    stopped: Option<Stopped>,
) -> (Vec<ParallelResult>, Option<Stopped>) {
    match time {
        Some(time) if stopped.is_none() => parallel_reads(probe, time, 1),
        Some(_) | None => (Vec::new(), stopped),
    }
}

/// Returns the limits that the kernel reports for the device.
pub(super) fn limits_of(target: &TuneTarget) -> DeviceLimits {
    let queue = &target.device.queue;
    let max_command = queue.max_sectors_kib.map(|kib| ByteCount(kib << 10));
    DeviceLimits::new(target.len, max_command, queue.queue_depth.or(queue.nr_requests))
}

/// Returns the comments at the top of the file.
fn comments(chosen: &ChosenModel, what: String, notes: &[String]) -> Vec<String> {
    let mut lines = vec![
        "`foreread-lab replay TRACE --device FILE` takes it, and so does a scenario of `foreread-lab sim`."
            .to_owned(),
        String::new(),
        what,
    ];
    lines.extend(notes.iter().map(|note| format!("note: {note}")));
    lines.push(String::new());
    let width = chosen.points.iter().map(|point| point.what.chars().count()).max().unwrap_or(0);
    lines
        .push(format!("{:width$}  {:>9}  {:>9}  {:5} {:>7}", "", "measured", "model", "", "error"));
    lines.extend(chosen.points.iter().map(|point| {
        let ModelPoint { what, unit, measured, model } = point;
        let (measured, model) = (short(*measured, 1000.0), short(*model, 1000.0));
        let error = format!("{:+.1} %", point.error() * 100.0);
        format!("{what:width$}  {measured:>9}  {model:>9}  {unit:5} {error:>7}")
    }));
    let ModelError { mean, greatest, at } = &chosen.error;
    lines.push(String::new());
    lines.push(format!("mean error {:.1} %, greatest {:.1} % ({at})", mean * 1e2, greatest * 1e2));
    lines.push(String::new());
    lines.extend(chosen.device.assumed().into_iter().map(|what| format!("not measured: {what}")));
    lines
}

/// Returns true if a file starts like a device model.
fn is_device_model(head: &[u8]) -> bool {
    head.starts_with(DEVICE_MODEL_HEAD.as_bytes())
}
