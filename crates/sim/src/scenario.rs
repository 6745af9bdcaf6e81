//! A scenario: what a run is made of, as a TOML file.
//!
//! In:    the text.
//! Out:   a run that is ready to go; or the line that is wrong, and what could stand there.
//! Never: a key that is not known, a default that is not in docs/simulator.md.

mod error;
mod max_window;
mod scheduler;

use std::collections::{BTreeMap, BTreeSet};

use foreread_core::geometry::DEFAULT_WINDOW;
use foreread_core::path::{Config, DeviceId};
use foreread_core::prefetch::{Policy, Rules, Without};
use foreread_core::sched::{Choice, Submitter};
use foreread_core::units::{ByteCount, MAX_FILE_BYTES, Nanos, Sector};
use serde::Deserialize;
use toml::Spanned;

pub use error::BadScenario;
pub use max_window::MaxWindowSpec;
pub use scheduler::SchedulerSpec;

use crate::device::known::ModelChoice;
use crate::process::Process;
use crate::record::RecordMode;
use crate::run::{SimFile, SimRun};
use crate::size::Size;
use crate::workload::Workload;

/// What a run is made of.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What it shows, in a few words.
    pub name: String,
    /// All that is random follows from it.
    #[serde(default = "one")]
    pub seed: u64,
    /// When it stops, in seconds; without it, when all processes have ended.
    pub until_s: Option<f64>,
    /// From when on its figures are counted where policies are compared, in seconds: what comes
    /// before is on its way to what is to be shown.
    #[serde(default)]
    pub count_from_s: f64,
    /// The one cache.
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

/// The cache, and its read-ahead policy.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CacheSpec {
    /// The bound for all pages and all that is needed to find them.
    pub memory: Size,
    /// The policy.
    pub policy: PolicyName,
    /// The largest window, or `auto`.
    pub max_window: MaxWindowSpec,
    /// Rules beside the policy's own: `lseek`, `snap-eof`, `backwards`.
    pub rules: Vec<RuleName>,
    /// Parts of `adaptive` that are left out: `law`, `clip`, `lead`.
    pub without: Vec<PartName>,
}

/// A device and its scheduler.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceSpec {
    /// A known one by its name, or `hdd` or `flash` with parameters.
    pub model: Spanned<ModelChoice>,
    /// `noop`, or another, with settings.
    #[serde(default)]
    pub scheduler: SchedulerSpec,
    /// What becomes of it with the time.
    #[serde(default)]
    pub change: Vec<DeviceChange>,
}

/// From a time on, a device is another.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceChange {
    /// From when on, in seconds.
    pub at_s: f64,
    /// What it is then: of the same size, and it takes as much at once.
    pub model: Spanned<ModelChoice>,
}

/// A file in one piece.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSpec {
    /// On which device.
    pub device: Spanned<String>,
    /// Where it begins there.
    #[serde(default)]
    pub at: Size,
    /// How long it is.
    pub size: Size,
}

/// One process, or several alike.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessSpec {
    /// Its name; of several, with their number behind it.
    pub name: String,
    /// How many.
    #[serde(default = "one_process")]
    pub count: u32,
    /// When it begins, in ms.
    #[serde(default)]
    pub start_ms: f64,
    /// For whom it reads.
    pub submitter: Option<u32>,
    /// Its submitter has a share of the memory of its own: so many parts of it. Submitters without
    /// a weight share one part.
    pub weight: Option<u32>,
    /// What it does.
    pub run: Spanned<Workload>,
}

/// What workloads find in a run that is being built.
#[derive(Debug)]
pub struct PreparedRun {
    /// The run.
    pub run: SimRun,
    /// Its devices, by name.
    pub devices: BTreeMap<String, DeviceId>,
    /// Its files, by name.
    pub files: BTreeMap<String, SimFile>,
    /// For whom the processes read that are begun now; None: each for itself.
    pub submitter: Option<Submitter>,
}

/// A policy by its name.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PolicyName(pub Policy);

/// A rule by its name.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum RuleName {
    /// See [`Rules::lseek`].
    Lseek,
    /// See [`Rules::snap_eof`].
    SnapEof,
    /// See [`Rules::backwards`].
    Backwards,
}

/// A part of `adaptive` by its name.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum PartName {
    /// See [`Without::law`].
    Law,
    /// See [`Without::clip`].
    Clip,
    /// See [`Without::lead`].
    Lead,
}

impl Scenario {
    /// Reads one.
    ///
    /// # Errors
    ///
    /// The line that is wrong, and why.
    pub fn parse(text: &str) -> Result<Self, BadScenario> {
        let scenario: Self =
            toml::from_str(text).map_err(|error| BadScenario::of_toml(text, &error))?;
        scenario.check(text)?;
        Ok(scenario)
    }

    /// One that is part of the program.
    ///
    /// # Panics
    ///
    /// If it is wrong.
    #[must_use]
    pub fn built_in(text: &str) -> Self {
        Self::parse(text).unwrap_or_else(|error| panic!("a built-in scenario: {error}"))
    }

    /// Makes it a run that is ready to go.
    ///
    /// # Errors
    ///
    /// What is impossible, if it was changed after it was read.
    pub fn build(&self, keep: RecordMode) -> Result<PreparedRun, String> {
        let run = SimRun::new(self.cache.config(), self.seed, keep)?;
        let (devices, files) = (BTreeMap::new(), BTreeMap::new());
        let mut building = PreparedRun { run, devices, files, submitter: None };
        for (name, spec) in &self.device {
            let model = &spec.model.get_ref().model;
            let id = building.run.device(name, model, &spec.scheduler.choice)?;
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
            building.submitter = spec.submitter.map(Submitter).or_else(|| self.all_are_one());
            let (name, start) = (spec.name_of(index), spec.start());
            spec.run.get_ref().begin(&mut building, &name, index, start)?;
        }
        Ok(building)
    }

    /// Each process: how it is described, its name, when it begins.
    pub fn processes(&self) -> impl Iterator<Item = (&ProcessSpec, String, Nanos)> {
        self.each_process().map(|(spec, index)| (spec, spec.name_of(index), spec.start()))
    }

    fn each_process(&self) -> impl Iterator<Item = (&ProcessSpec, u32)> {
        self.process.iter().flat_map(|spec| (0..spec.count).map(move |index| (spec, index)))
    }

    /// When it stops: after thirty years at the latest, so that no sum of times leaves its range.
    #[must_use]
    pub fn until(&self) -> Nanos {
        let end = self.until_s.map_or(MOST_MS, |seconds| seconds * 1e3);
        Nanos(ns_of_ms(end))
    }

    /// For whom processes read that do not say it. All for the same, as in the library, but where
    /// a scheduler tells processes apart.
    fn all_are_one(&self) -> Option<Submitter> {
        let is_cfq = |spec: &DeviceSpec| matches!(spec.scheduler.choice, Choice::Cfq(_));
        (!self.device.values().any(is_cfq)).then(Submitter::default)
    }

    /// From when on its figures count.
    #[must_use]
    pub fn count_from(&self) -> Nanos {
        Nanos(ns_of_ms(self.count_from_s * 1e3))
    }

    fn check(&self, text: &str) -> Result<(), BadScenario> {
        for spec in self.device.values() {
            let at = spec.model.span();
            let model = &spec.model.get_ref().model;
            let mut device = model.build().map_err(|why| BadScenario::at(text, Some(at), why))?;
            for change in &spec.change {
                let at = Nanos(ns_of_ms(change.at_s * 1e3));
                check_time(change.at_s * 1e3, "at_s")
                    .and_then(|()| device.change(at, &change.model.get_ref().model))
                    .map_err(|why| BadScenario::at(text, Some(change.model.span()), why))?;
            }
        }
        for spec in self.file.values() {
            self.check_file(spec)
                .map_err(|why| BadScenario::at(text, Some(spec.device.span()), why))?;
        }
        let mut names = BTreeSet::new();
        for spec in &self.process {
            let at = spec.run.span();
            check_time(spec.start_ms, "start_ms")
                .and_then(|()| check_count(spec.count))
                .and_then(|()| check_weight(spec))
                .and_then(|()| check_names(spec, &mut names))
                .and_then(|()| spec.run.get_ref().check(self))
                .map_err(|why| BadScenario::at(text, Some(at), why))?;
        }
        let until = self.until_s.map_or(Ok(()), |seconds| check_time(seconds * 1e3, "until_s"));
        let count_from = check_time(self.count_from_s * 1e3, "count_from_s");
        let built = until.and(count_from).and_then(|()| self.build(RecordMode::Hash).map(drop));
        built.map_err(|why| BadScenario::of_key(text, why))
    }

    fn check_file(&self, spec: &FileSpec) -> Result<(), String> {
        let name = spec.device.get_ref();
        let Some(device) = self.device.get(name) else {
            return Err(unknown("device", name, self.device.keys()));
        };
        let capacity = device.model.get_ref().model.geometry().capacity;
        let end = spec.at.0.0.checked_add(spec.size.0.0);
        if !spec.at.0.0.is_multiple_of(4096) {
            return Err("at: wants whole pages of 4K".into());
        }
        if spec.size.0 > MAX_FILE_BYTES {
            return Err("size: wants less than 2^63 bytes".into());
        }
        if end.is_none_or(|end| end > capacity.0) {
            return Err(format!("the file ends behind its device, which has {capacity} bytes"));
        }
        Ok(())
    }
}

impl ProcessSpec {
    fn start(&self) -> Nanos {
        Nanos(ns_of_ms(self.start_ms))
    }

    /// The name of one of them.
    fn name_of(&self, index: u32) -> String {
        if self.count == 1 { self.name.clone() } else { format!("{}-{index}", self.name) }
    }
}

impl CacheSpec {
    /// What a path is made with.
    #[must_use]
    pub fn config(&self) -> Config {
        let has = |rule| self.rules.contains(&rule);
        let is_without = |part| self.without.contains(&part);
        Config {
            memory: self.memory.0,
            policy: self.policy.0,
            max_window: self.max_window.pages(),
            rules: Rules {
                lseek: has(RuleName::Lseek),
                snap_eof: has(RuleName::SnapEof),
                backwards: has(RuleName::Backwards),
                without: Without {
                    law: is_without(PartName::Law),
                    clip: is_without(PartName::Clip),
                    lead: is_without(PartName::Lead),
                },
            },
        }
    }
}

impl PreparedRun {
    /// Adds a process that begins at `start`.
    pub fn begin<F: Future<Output = ()> + 'static>(
        &mut self,
        name: &str,
        start: Nanos,
        what: impl FnOnce(Process) -> F + 'static,
    ) {
        let submitter = self.submitter;
        self.run.spawn(name, async move |process: Process| {
            process.set_submitter(submitter);
            process.until(start).await;
            what(process).await;
        });
    }

    /// The file of that name.
    ///
    /// # Errors
    ///
    /// The names that there are.
    pub fn file(&self, name: &str) -> Result<SimFile, String> {
        self.files.get(name).copied().ok_or_else(|| unknown("file", name, self.files.keys()))
    }

    /// The device of that name.
    ///
    /// # Errors
    ///
    /// The names that there are.
    pub fn device(&self, name: &str) -> Result<DeviceId, String> {
        self.devices.get(name).copied().ok_or_else(|| unknown("device", name, self.devices.keys()))
    }
}

impl Default for CacheSpec {
    fn default() -> Self {
        Self {
            memory: Size(ByteCount(64 << 20)),
            policy: PolicyName::default(),
            max_window: MaxWindowSpec::Size(Size(DEFAULT_WINDOW)),
            rules: Vec::new(),
            without: Vec::new(),
        }
    }
}

impl PartName {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Law, Self::Clip, Self::Lead];

    /// As a scenario writes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Law => "law",
            Self::Clip => "clip",
            Self::Lead => "lead",
        }
    }
}

impl<'de> Deserialize<'de> for PolicyName {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        Policy::from_name(&name).map(Self).ok_or_else(|| {
            let names = Policy::ALL.map(Policy::name);
            serde::de::Error::custom(unknown("policy", &name, names))
        })
    }
}

/// What to say of a name that is not known.
pub(crate) fn unknown<N: AsRef<str>>(
    what: &str,
    name: &str,
    names: impl IntoIterator<Item = N>,
) -> String {
    let names: Vec<_> = names.into_iter().map(|name| name.as_ref().to_owned()).collect();
    if names.is_empty() {
        return format!("no {what} {name:?}: there are none");
    }
    format!("no {what} {name:?}; choose one of {}", names.join(", "))
}

/// Milliseconds as nanoseconds; what is too long for 64 bits is as long as they can say.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked before")]
pub(crate) fn ns_of_ms(ms: f64) -> u64 {
    (ms * 1e6).round() as u64
}

pub(crate) fn check_time(ms: f64, what: &str) -> Result<(), String> {
    if ms.is_finite() && (0.0..=MOST_MS).contains(&ms) {
        Ok(())
    } else {
        Err(format!("{what}: wants a time that is not negative, and less than thirty years"))
    }
}

/// Thirty years, in ms.
const MOST_MS: f64 = 1e12;

fn check_count(count: u32) -> Result<(), String> {
    if (1..=100_000).contains(&count) { Ok(()) } else { Err("count: wants 1 to 100000".into()) }
}

fn check_weight(spec: &ProcessSpec) -> Result<(), String> {
    let is_someones = spec.weight.is_none() || spec.submitter.is_some();
    if is_someones && spec.weight.is_none_or(|weight| (1..=1000).contains(&weight)) {
        return Ok(());
    }
    Err("weight: wants 1 to 1000, and a submitter beside it".into())
}

/// A process draws from numbers of its name: two of one name would read the same places.
fn check_names(spec: &ProcessSpec, names: &mut BTreeSet<String>) -> Result<(), String> {
    match (0..spec.count).map(|index| spec.name_of(index)).find(|name| names.contains(name)) {
        Some(name) => Err(format!("name: wants another than {name:?}, which a process has")),
        None => {
            names.extend((0..spec.count).map(|index| spec.name_of(index)));
            Ok(())
        }
    }
}

fn one() -> u64 {
    1
}

fn one_process() -> u32 {
    1
}
