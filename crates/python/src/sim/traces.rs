//! Traces in any format that `foreread-lab trace` reads, replayed on a device model or counted in
//! isolated caches. Rows equal those of `foreread-lab replay --json`. A trace is never held in
//! memory: it is read once for its files, and once per replay.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use foreread_core::prefetch::Policy;
use foreread_core::units::ByteCount;
use foreread_sim::cache_policy::CachePolicyKind;
use foreread_sim::json_rows::{MissRow, ReplayRow};
use foreread_sim::replay::{
    CacheCount, CacheUnit, Replay, ReplayBounds, ReplayError, ReplayFigures, ReplayGroup,
    ReplayPace, TraceFuture, count_misses, fewest_misses, replay,
};
use foreread_sim::rng::DEFAULT_SEED;
use foreread_sim::scenario::{CacheSpec, EvictionName, PolicyName};
use foreread_sim::size::Size;
use foreread_trace::{Position, TraceError, TraceFormat, TraceLevel, TraceReader, TraceSummary};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::figures::{counts, dict, picture, row, seconds};
use super::scenario::{ScenarioChanges, find_device, unknown};
use super::{background, policy};

/// A trace, and its files and threads, found in a first pass.
#[pyclass(frozen, module = "foreread._foreread")]
pub(crate) struct RawTrace {
    file: TraceSource,
    summary: Arc<TraceSummary>,
}

/// Options of a replay: a dictionary with all of these keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct ReplayOptions {
    /// "open", "closed", or None for the default of the trace's level.
    pace: Option<String>,
    scale: f64,
    is_warmed: bool,
    /// "file" or "thread".
    per: Option<String>,
    has_picture: bool,
    /// Name of an eviction policy.
    eviction: String,
    has_bounds: bool,
}

#[pymethods]
impl RawTrace {
    #[new]
    #[pyo3(signature = (path, format = None))]
    fn new(py: Python<'_>, path: PathBuf, format: Option<&str>) -> PyResult<Self> {
        let file = TraceSource { path, format: format.map(format_of).transpose()? };
        let (source, name) = (file.clone(), file.path.clone());
        let summary = background::run(py, name.as_os_str(), move |stop| {
            source.open(stop).and_then(TraceSummary::of)
        })?;
        let summary = summary.map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Self { file, summary: Arc::new(summary) })
    }

    /// Returns the summary of the trace.
    fn about<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let TraceSummary { format, reads, read_bytes, writes, is_cut_off, .. } = &*self.summary;
        Ok(dict!(py,
            format: format.name(),
            level: self.summary.level().name(),
            has_threads: format.has_threads(),
            reads: reads,
            read_bytes: read_bytes,
            writes: writes,
            seconds: seconds(self.summary.duration.0),
            files: self.summary.files.len(),
            threads: self.summary.threads.len(),
            is_cut_off: is_cut_off,
        ))
    }

    /// Replays the trace.
    #[expect(clippy::needless_pass_by_value, reason = "an argument is extracted by value")]
    fn replay<'py>(
        &self,
        py: Python<'py>,
        changes: ScenarioChanges,
        options: ReplayOptions,
    ) -> PyResult<Bound<'py, PyDict>> {
        let ReplayOptions { pace, scale, is_warmed, per, has_picture, eviction, has_bounds } =
            options;
        let pace = self.pace(pace.as_deref(), scale)?;
        let group = group_of(per.as_deref())?;
        let policy = changes.policy.as_ref().map_or(Policy::Adaptive, |choice| choice.policy());
        let memory = ByteCount(changes.memory.unwrap_or(DEFAULT_MEMORY));
        let device = changes.device.as_ref().map_or(Ok(DEFAULT_DEVICE), |names| names.only())?;
        let model = find_device(device)?.model;
        let how = Replay {
            cache: CacheSpec {
                memory: Size(memory),
                policy: PolicyName(policy),
                eviction: EvictionName(eviction_of(&eviction)?),
                max_window: changes.max_window.map(|window| window.map(ByteCount).into()),
                ..CacheSpec::default()
            },
            device: model,
            pace,
            is_warmed,
            group,
            has_picture,
            series: None,
            seed: DEFAULT_SEED,
        };
        let figures = self.replayed(py, &how, changes.decider())?;
        let bounds = if has_bounds { self.bounds(py, &how)? } else { None };
        let name = self.file.name();
        let mut report = ReplayRow::new(name, device, &self.summary, &how, &figures, bounds);
        if let Some(name) = changes.policy_name() {
            name.clone_into(&mut report.setup.policy);
        }
        let shown = figures.picture.as_ref();
        let shown = shown.map(|shown| picture(py, shown, &|file| self.file_name(file)));
        Ok(dict!(py,
            report: row(py, &report)?,
            histogram: counts(&figures.wait_latency),
            picture: shown.transpose()?,
        ))
    }

    /// Counts the misses of eviction policies, in one pass for all.
    fn miss_counts<'py>(
        &self,
        py: Python<'py>,
        policies: Vec<String>,
        capacities: Vec<usize>,
        is_of_objects: bool,
        has_bounds: bool,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let named = policies.into_iter().map(|name| eviction_of(&name));
        let policies = named.collect::<PyResult<Vec<_>>>()?;
        let unit = if is_of_objects { CacheUnit::Object } else { CacheUnit::Page };
        let (file, name, trace) = (self.file.clone(), self.file.path.clone(), self.file.name());
        let found = background::run(py, name.as_os_str(), move |stop| {
            let counts = count_misses(file.open(stop)?, &policies, &capacities, unit)?;
            let fewest =
                if has_bounds { fewest_misses(file.open(stop)?, &capacities, unit)? } else { None };
            let fewest = fewest.unwrap_or_default();
            let of = |count: &CacheCount| {
                let at = capacities.iter().position(|capacity| *capacity == count.capacity)?;
                fewest.get(at).copied()
            };
            Ok(counts.iter().map(|count| MissRow::new(&trace, unit, count, of(count))).collect())
        })?;
        let rows: Vec<MissRow> = found.map_err(value_error)?;
        rows.iter().map(|found| row(py, found)).collect()
    }
}

impl RawTrace {
    fn replayed(
        &self,
        py: Python<'_>,
        how: &Replay,
        decide: Option<&Py<PyAny>>,
    ) -> PyResult<ReplayFigures> {
        if self.summary.reads == 0 {
            return Err(PyValueError::new_err(format!("{}: has no reads", self.file.name())));
        }
        let Some(decide) = decide else {
            let (how, file, summary) = (how.clone(), self.file.clone(), Arc::clone(&self.summary));
            let name = file.path.clone();
            let figures = background::run(py, name.as_os_str(), move |stop| {
                replay(&how, &summary, &|| file.open(stop))
            })?;
            return figures.map_err(value_error);
        };
        // An exception ends the trace early.
        let stop = Arc::new(AtomicBool::new(false));
        let figures = policy::with_python_policy(py, decide, || {
            replay(how, &self.summary, &|| self.file.open(&stop))
        });
        figures?.map_err(value_error)
    }

    /// Computes the lower bounds for any policy; None if the trace is too long to keep.
    fn bounds(&self, py: Python<'_>, how: &Replay) -> PyResult<Option<ReplayBounds>> {
        let (how, file, summary) = (how.clone(), self.file.clone(), Arc::clone(&self.summary));
        let name = file.path.clone();
        let bounds = background::run(py, name.as_os_str(), move |stop| {
            let open = || file.open(stop);
            let future = TraceFuture::of(&summary, &open)?;
            future.map(|future| future.bounds(&how, &open)).transpose()
        })?;
        bounds.map_err(value_error)
    }

    /// Returns the pace of the reads: block traces keep their times; in other traces, threads wait
    /// for their previous reads.
    fn pace(&self, pace: Option<&str>, scale: f64) -> PyResult<ReplayPace> {
        if !(0.0..=1e6).contains(&scale) {
            return Err(PyValueError::new_err("scale: must be from 0 to 1000000"));
        }
        let of_level = match self.summary.level() {
            TraceLevel::Block => "open",
            TraceLevel::File => "closed",
        };
        match pace.unwrap_or(of_level) {
            "open" => Ok(ReplayPace::Open { scale }),
            "closed" => Ok(ReplayPace::Closed { think: scale }),
            other => Err(unknown("loop", other, "open, closed")),
        }
    }

    fn file_name(&self, number: u32) -> String {
        let file = self.summary.files.get(number as usize);
        file.map_or_else(|| number.to_string(), |file| file.name.clone())
    }
}

/// A trace by path, reopened for each pass.
#[derive(Clone)]
struct TraceSource {
    path: PathBuf,
    format: Option<TraceFormat>,
}

impl TraceSource {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Opens the trace at its start. Reads fail once `stop` is set.
    fn open(&self, stop: &Arc<AtomicBool>) -> Result<TraceReader<'static>, TraceError> {
        let name = self.name();
        let file = opened(&self.path).map_err(|error| TraceError {
            name: name.clone(),
            at: Position::Whole,
            what: error.to_string(),
        })?;
        let input = StoppableFile { file, stop: Arc::clone(stop) };
        TraceReader::with_format(input, &name, self.format)
    }
}

fn opened(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::other("is not a regular file; a replay reads it several times"))
}

/// A file whose reads fail once the run must stop.
struct StoppableFile {
    file: File,
    stop: Arc<AtomicBool>,
}

impl Read for StoppableFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.load(Ordering::Relaxed) || policy::has_failed() {
            return Err(io::Error::other("the run was stopped"));
        }
        self.file.read(buffer)
    }
}

fn format_of(name: &str) -> PyResult<TraceFormat> {
    TraceFormat::from_name(name).ok_or_else(|| {
        unknown("trace format", name, &TraceFormat::ALL.map(TraceFormat::name).join(", "))
    })
}

fn eviction_of(name: &str) -> PyResult<CachePolicyKind> {
    CachePolicyKind::from_name(name).ok_or_else(|| {
        let names = CachePolicyKind::ALL.map(CachePolicyKind::name).join(", ");
        unknown("eviction policy", name, &names)
    })
}

fn group_of(per: Option<&str>) -> PyResult<ReplayGroup> {
    match per {
        None => Ok(ReplayGroup::Whole),
        Some("file") => Ok(ReplayGroup::File),
        Some("thread") => Ok(ReplayGroup::Thread),
        Some(other) => Err(unknown("group", other, "file, thread")),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn value_error(error: ReplayError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Defaults of the command line.
const DEFAULT_DEVICE: &str = "cloud-gp3";
const DEFAULT_MEMORY: u64 = 256 << 20;
