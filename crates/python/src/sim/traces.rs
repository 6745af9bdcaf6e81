//! Traces: replayed on a model of a device, or their pages counted in caches alone.
//!
//! In:    the path of a trace in any format that `foreread trace` reads.
//! Out:   rows as `foreread replay --json` prints them.
//! Never: a trace in memory: it is read once for its files, and once for each replay.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use foreread_core::geometry::DEFAULT_WINDOW;
use foreread_core::prefetch::Policy;
use foreread_core::units::ByteCount;
use foreread_sim::cache_policy::CachePolicyKind;
use foreread_sim::replay::{
    CacheUnit, Replay, ReplayError, ReplayFigures, ReplayGroup, ReplayPace, count_misses, replay,
};
use foreread_sim::scenario::{CacheSpec, PolicyName};
use foreread_sim::size::Size;
use foreread_trace::{Position, TraceError, TraceFormat, TraceLevel, TraceReader, TraceSummary};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::figures::{counts, dict, ms, picture, seconds};
use super::scenario::{ScenarioChanges, find_device, unknown};
use super::{background, policy};

/// A trace, and what one pass over it has found: its files and threads.
#[pyclass(frozen, module = "foreread._foreread")]
pub(crate) struct RawTrace {
    file: TraceSource,
    summary: Arc<TraceSummary>,
}

/// How a trace is replayed: a dictionary with all of these.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct ReplayOptions {
    /// "open", "closed", or as the level of the trace says.
    pace: Option<String>,
    scale: f64,
    is_warmed: bool,
    /// "file" or "thread".
    per: Option<String>,
    has_picture: bool,
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

    /// What the trace holds, in numbers.
    fn about<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let TraceSummary { format, reads, read_bytes, writes, is_cut_off, .. } = &*self.summary;
        Ok(dict!(py,
            format: format.name(),
            level: self.level(),
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
        let ReplayOptions { pace, scale, is_warmed, per, has_picture } = options;
        let pace = self.pace(pace.as_deref(), scale)?;
        let group = group_of(per.as_deref())?;
        let policy = changes.policy.as_ref().map_or(Policy::Adaptive, |choice| choice.policy());
        let learnt = (policy != Policy::Adaptive).then_some(DEFAULT_WINDOW);
        let max_window = changes.max_window.map_or(learnt, |window| window.map(ByteCount));
        let memory = ByteCount(changes.memory.unwrap_or(DEFAULT_MEMORY));
        let device = changes.device.as_ref().map_or(Ok(DEFAULT_DEVICE), |names| names.only())?;
        let how = Replay {
            cache: CacheSpec {
                memory: Size(memory),
                policy: PolicyName(policy),
                max_window: max_window.into(),
                ..CacheSpec::default()
            },
            device: find_device(device)?.model,
            pace,
            is_warmed,
            group,
            has_picture,
        };
        let figures = self.replayed(py, &how, changes.decider())?;
        let report = self.report(py, &how, &figures)?;
        if let Some(name) = changes.policy_name() {
            report.set_item("policy", name)?;
        }
        report.set_item("max_window", max_window.map(|window| window.0))?;
        let shown = figures.picture.as_ref();
        let shown = shown.map(|shown| picture(py, shown, &|file| self.file_name(file)));
        Ok(dict!(py,
            report: report,
            device: device,
            histogram: counts(&figures.wait_latency),
            picture: shown.transpose()?,
        ))
    }

    /// Counts the misses of eviction policies, all of them in one pass.
    fn miss_counts<'py>(
        &self,
        py: Python<'py>,
        policies: Vec<String>,
        capacities: Vec<usize>,
        is_of_objects: bool,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let named = |name: String| {
            CachePolicyKind::from_name(&name).ok_or_else(|| {
                let names = CachePolicyKind::ALL.map(CachePolicyKind::name).join(", ");
                unknown("eviction policy", &name, &names)
            })
        };
        let policies = policies.into_iter().map(named).collect::<PyResult<Vec<_>>>()?;
        let unit = if is_of_objects { CacheUnit::Object } else { CacheUnit::Page };
        let (file, name) = (self.file.clone(), self.file.path.clone());
        let counts = background::run(py, name.as_os_str(), move |stop| {
            count_misses(file.open(stop)?, &policies, &capacities, unit)
        })?;
        let row = |count: &foreread_sim::replay::CacheCount| {
            Ok(dict!(py,
                trace: self.file.name(),
                policy: count.policy.name(),
                capacity: count.capacity,
                unit: if is_of_objects { "object" } else { "page" },
                uses: count.uses,
                misses: count.misses,
                miss_ratio: ratio(count.misses, count.uses),
            ))
        };
        counts.map_err(value_error)?.iter().map(row).collect()
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
        // After an exception the trace ends early.
        let stop = Arc::new(AtomicBool::new(false));
        let figures = policy::with_python_policy(py, decide, || {
            replay(how, &self.summary, &|| self.file.open(&stop))
        });
        figures?.map_err(value_error)
    }

    /// The row that `foreread replay --json` prints.
    fn report<'py>(
        &self,
        py: Python<'py>,
        how: &Replay,
        figures: &ReplayFigures,
    ) -> PyResult<Bound<'py, PyDict>> {
        let quantile = |quantile: f64| ms(figures.wait_latency.value_at_quantile(quantile));
        let (pace, scale) = match how.pace {
            ReplayPace::Open { scale } => ("open", scale),
            ReplayPace::Closed { think } => ("closed", think),
        };
        let wait_ms = dict!(py,
            p50: quantile(0.5), p99: quantile(0.99), p999: quantile(0.999), max: quantile(1.0),
        );
        let mut groups = Vec::new();
        for (number, group) in &figures.groups {
            let name = match how.group {
                ReplayGroup::File => self.file_name(*number),
                ReplayGroup::Whole | ReplayGroup::Thread => number.to_string(),
            };
            groups.push(dict!(py,
                name: name,
                reads: group.reads,
                bytes: group.bytes,
                waits: group.waits,
                waited_s: seconds(group.waited_ns),
            ));
        }
        let report = dict!(py,
            trace: self.file.name(),
            level: self.level(),
            policy: how.cache.policy.0.name(),
            max_window: None::<u64>,
            memory: how.cache.memory.0.0,
        );
        let more = dict!(py,
            scale: scale,
            reads: figures.reads,
            bytes: figures.bytes,
            waits: figures.waits,
            waited_s: seconds(figures.waited_ns),
            wait_ms: wait_ms,
            requests: figures.requests,
            device_bytes: figures.device_bytes,
            device_s: figures.device_s,
            amplification: ratio(figures.device_bytes, figures.bytes),
            evicted_unread: figures.evicted_unread,
            elapsed_s: seconds(figures.elapsed_ns),
            late: figures.late,
            failed: figures.failed,
            writes: figures.writes,
            groups: groups,
        );
        report.set_item("loop", pace)?;
        report.update(more.as_mapping())?;
        Ok(report)
    }

    /// When reads begin: block traces have their times, threads of others wait for their reads.
    fn pace(&self, pace: Option<&str>, scale: f64) -> PyResult<ReplayPace> {
        if !(0.0..=1e6).contains(&scale) {
            return Err(PyValueError::new_err("scale: wants 0 to 1000000"));
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

    fn level(&self) -> &'static str {
        match self.summary.level() {
            TraceLevel::Block => "block",
            TraceLevel::File => "file",
        }
    }

    fn file_name(&self, number: u32) -> String {
        let file = self.summary.files.get(number as usize);
        file.map_or_else(|| number.to_string(), |file| file.name.clone())
    }
}

/// A trace by its path, which is opened for each pass.
#[derive(Clone)]
struct TraceSource {
    path: PathBuf,
    format: Option<TraceFormat>,
}

impl TraceSource {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Opens the trace from its start. It ends with an error once `stop` is set.
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
    Err(io::Error::other("is no regular file; a replay reads it several times"))
}

/// A file that fails once a run is to end.
struct StoppableFile {
    file: File,
    stop: Arc<AtomicBool>,
}

impl Read for StoppableFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.load(Ordering::Relaxed) || policy::has_failed() {
            return Err(io::Error::other("the run was ended"));
        }
        self.file.read(buffer)
    }
}

fn format_of(name: &str) -> PyResult<TraceFormat> {
    TraceFormat::from_name(name).ok_or_else(|| {
        unknown("trace format", name, &TraceFormat::ALL.map(TraceFormat::name).join(", "))
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

#[expect(clippy::cast_precision_loss, reason = "as the command line does")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// As of the command line.
const DEFAULT_DEVICE: &str = "cloud-gp3";
const DEFAULT_MEMORY: u64 = 256 << 20;
