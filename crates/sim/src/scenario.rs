//! A scenario: a machine and its processes, as a TOML file. All keys and defaults are in
//! docs/lab/simulator.md.
//!
//! In:    the text.
//! Out:   a run that is ready to begin; or the line with the error, and the allowed values.

mod device_file;
mod error;

use std::collections::{BTreeMap, BTreeSet};

use foreread_core::prefetch::Policy;
use foreread_core::sched::{SchedulerKind, Submitter};
use foreread_core::units::{Nanos, Sector};
use serde::Deserialize;
use toml::Spanned;

pub use crate::machine::{
    CacheSpec, DeviceChange, DeviceSpec, EvictionName, ExpectedDevice, FileSpec, MaxWindowSpec,
    PolicyName, RuleName, SchedulerSpec,
};
pub use device_file::NamedDevice;
pub use error::BadScenario;

use crate::device::DeviceParams;
use crate::machine::Machine;
use crate::prepared_run::PreparedRun;
use crate::record::RecordMode;
use crate::rng::DEFAULT_SEED;
use crate::run::SimRun;
use crate::time::{MAX_MS, check_time, ns_of_ms};
use crate::validate::check;
use crate::workload::Workload;

/// A machine, its processes, and its stop time.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Short description.
    pub name: String,
    /// Seed of all random numbers.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// Stop time in seconds; by default, when all processes have ended.
    pub until_s: Option<f64>,
    /// Start of the measurement for policy comparisons, in seconds. Before that the run warms up.
    #[serde(default)]
    pub count_from_s: f64,
    /// The cache.
    #[serde(default)]
    pub cache: CacheSpec,
    /// The devices, by name.
    pub device: BTreeMap<String, DeviceSpec>,
    /// The files, by name.
    #[serde(default)]
    pub file: BTreeMap<String, FileSpec>,
    /// The processes.
    pub process: Vec<ProcessSpec>,
}

/// One process, or several with the same workload.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessSpec {
    /// Name of the process; for several, its number is appended.
    pub name: String,
    /// Number of processes.
    #[serde(default = "one_process")]
    pub count: u32,
    /// Start time, in ms.
    #[serde(default)]
    pub start_ms: f64,
    /// Submitter of its requests.
    pub submitter: Option<u32>,
    /// Weight of its submitter: number of parts of the read-ahead memory. Submitters without a
    /// weight share one part.
    pub weight: Option<u32>,
    /// Workload.
    pub run: Spanned<Workload>,
}

impl Scenario {
    /// Parses and checks a scenario.
    ///
    /// # Errors
    ///
    /// The line with the error, and the reason.
    pub fn parse(text: &str) -> Result<Self, BadScenario> {
        let scenario: Self =
            toml::from_str(text).map_err(|error| BadScenario::of_toml(text, &error))?;
        scenario.check(text)?;
        Ok(scenario)
    }

    /// Parses a scenario that is part of the program.
    ///
    /// # Panics
    ///
    /// If it is invalid.
    #[must_use]
    pub fn built_in(text: &str) -> Self {
        Self::parse(text).unwrap_or_else(|error| panic!("a built-in scenario: {error}"))
    }

    /// Builds a run that is ready to begin.
    ///
    /// # Errors
    ///
    /// The value that is out of range, if the scenario was changed after it was parsed.
    pub fn build(&self, mode: RecordMode) -> Result<PreparedRun, String> {
        let config = self.cache.config(self.models());
        let mut run = SimRun::new(config, self.seed, mode)?;
        run.evict_by(self.cache.eviction.0);
        let (devices, files) = (BTreeMap::new(), BTreeMap::new());
        let mut building = PreparedRun { run, devices, files, submitter: None };
        for (name, spec) in &self.device {
            let model = &spec.model.get_ref().model;
            let id = building.run.device(name, model, &spec.scheduler.choice)?;
            if let Some(expected) = &spec.expected {
                building.run.expect_of_device(id, expected.get_ref().learnt());
            }
            for change in &spec.change {
                let at = Nanos(ns_of_ms(change.at_s * 1e3));
                building.run.change_device(id, at, &change.model.get_ref().model)?;
            }
            building.devices.insert(name.clone(), id);
        }
        for (name, spec) in &self.file {
            let device = building.device(spec.device.get_ref())?;
            let file = building.run.try_file(device, Sector(spec.at.0.0 / 512), spec.size.0)?;
            building.files.insert(name.clone(), file);
        }
        for spec in &self.process {
            if let Some((submitter, weight)) = spec.submitter.zip(spec.weight) {
                let set = building.run.set_weight(Submitter(submitter), weight);
                set.map_err(|error| format!("process {}: weight: {error}", spec.name))?;
            }
        }
        for (spec, index) in self.each_process() {
            building.submitter = spec.submitter.map(Submitter).or_else(|| self.default_submitter());
            let (name, start) = (spec.name_of(index), spec.start());
            spec.run.get_ref().begin(&mut building, &name, index, start)?;
        }
        Ok(building)
    }

    /// Returns the largest window of the run: the scenario's, or the default of its policy.
    #[must_use]
    pub fn max_window(&self) -> MaxWindowSpec {
        self.cache.max_window_on(self.models())
    }

    /// Like [`Self::max_window`], for another policy.
    #[must_use]
    pub fn max_window_of(&self, policy: Policy) -> MaxWindowSpec {
        self.cache.max_window.unwrap_or_else(|| MaxWindowSpec::default_of(policy, self.models()))
    }

    fn models(&self) -> impl Iterator<Item = &DeviceParams> {
        self.device.values().map(|spec| &spec.model.get_ref().model)
    }

    /// Returns each process: its description, name and start time.
    pub fn processes(&self) -> impl Iterator<Item = (&ProcessSpec, String, Nanos)> {
        self.each_process().map(|(spec, index)| (spec, spec.name_of(index), spec.start()))
    }

    fn each_process(&self) -> impl Iterator<Item = (&ProcessSpec, u32)> {
        self.process.iter().flat_map(|spec| (0..spec.count).map(move |index| (spec, index)))
    }

    /// Returns the stop time: at most thirty years, so that no sum of times overflows.
    #[must_use]
    pub fn until(&self) -> Nanos {
        let end = self.until_s.map_or(MAX_MS, |seconds| seconds * 1e3);
        Nanos(ns_of_ms(end))
    }

    /// Returns the submitter of processes without one. As in the library, it is the same for all,
    /// unless a scheduler distinguishes submitters.
    fn default_submitter(&self) -> Option<Submitter> {
        let is_cfq = |spec: &DeviceSpec| matches!(spec.scheduler.choice, SchedulerKind::Cfq(_));
        (!self.device.values().any(is_cfq)).then(Submitter::default)
    }

    /// Returns the start of the measurement for policy comparisons.
    #[must_use]
    pub fn count_from(&self) -> Nanos {
        Nanos(ns_of_ms(self.count_from_s * 1e3))
    }

    /// Checks a scenario that was changed after it was parsed from `text`.
    ///
    /// # Errors
    ///
    /// The line with the error, and the reason.
    pub fn check(&self, text: &str) -> Result<(), BadScenario> {
        let machine = self.machine();
        for spec in self.device.values() {
            check_device(spec, text)?;
        }
        for spec in self.file.values() {
            let at = Some(spec.device.span());
            machine.check_file(spec).map_err(|why| BadScenario::at(text, at, why))?;
        }
        let mut names = BTreeSet::new();
        for spec in &self.process {
            let at = spec.run.span();
            check_time(spec.start_ms, "start_ms")
                .and_then(|()| check((1..=100_000).contains(&spec.count), "count", "1 to 100000"))
                .and_then(|()| check_weight(spec))
                .and_then(|()| check_names(spec, &mut names))
                .and_then(|()| spec.run.get_ref().check(&machine))
                .map_err(|why| BadScenario::at(text, Some(at), why))?;
        }
        let until = self.until_s.map_or(Ok(()), |seconds| check_time(seconds * 1e3, "until_s"));
        let count_from = check_time(self.count_from_s * 1e3, "count_from_s");
        let built = until.and(count_from).and_then(|()| self.build(RecordMode::Hash).map(drop));
        built.map_err(|why| BadScenario::of_key(text, why))
    }

    fn machine(&self) -> Machine<'_> {
        Machine {
            devices: &self.device,
            files: &self.file,
            memory: self.cache.memory.0,
            stops: self.until_s.is_some(),
        }
    }
}

impl ProcessSpec {
    fn start(&self) -> Nanos {
        Nanos(ns_of_ms(self.start_ms))
    }

    /// Returns the name of the process with this number.
    fn name_of(&self, index: u32) -> String {
        if self.count == 1 { self.name.clone() } else { format!("{}-{index}", self.name) }
    }
}

/// Checks the parameters of a device and of each of its changes.
fn check_device(spec: &DeviceSpec, text: &str) -> Result<(), BadScenario> {
    let at = spec.model.span();
    let params = &spec.model.get_ref().model;
    let mut device = params.build().map_err(|why| BadScenario::at(text, Some(at), why))?;
    if let Some(expected) = &spec.expected {
        let checked = expected.get_ref().check();
        checked.map_err(|why| BadScenario::at(text, Some(expected.span()), why))?;
    }
    for change in &spec.change {
        let at_ms = change.at_s * 1e3;
        let params = &change.model.get_ref().model;
        check_time(at_ms, "at_s")
            .and_then(|()| device.change(Nanos(ns_of_ms(at_ms)), params))
            .map_err(|why| BadScenario::at(text, Some(change.model.span()), why))?;
    }
    Ok(())
}

fn check_weight(spec: &ProcessSpec) -> Result<(), String> {
    let has_submitter = spec.weight.is_none() || spec.submitter.is_some();
    if has_submitter && spec.weight.is_none_or(|weight| (1..=1000).contains(&weight)) {
        return Ok(());
    }
    Err("weight: must be 1 to 1000, and requires a submitter".into())
}

/// Process names must be unique, because they seed the random numbers: equal names would read the
/// same positions.
fn check_names(spec: &ProcessSpec, names: &mut BTreeSet<String>) -> Result<(), String> {
    match (0..spec.count).map(|index| spec.name_of(index)).find(|name| names.contains(name)) {
        Some(name) => Err(format!("name: {name:?} is already the name of a process")),
        None => {
            names.extend((0..spec.count).map(|index| spec.name_of(index)));
            Ok(())
        }
    }
}

const fn default_seed() -> u64 {
    DEFAULT_SEED
}

fn one_process() -> u32 {
    1
}
