//! Device measurements that outlive the engine: one small file for each device.
//!
//! In:    a directory, names of devices, the core's estimates.
//! Out:   the initial estimate of a device; its record, written whole after the device was closed.
//! Never: a file of another program replaced; a file written under the driver's mutex; an error
//!        because of an unreadable record, without which the device is learnt from scratch.
//!
//! ```text
//!   open   name of the device --> DIR/NAME.learnt --> core: restore_device
//!   close  core: learnt_device --> noted here        |
//!   save_learnt, end of the engine: changed records --> DIR/NAME.learnt
//! ```
//!
//! If two processes use the same device, each writes the whole file, and the last one wins.

mod kept;
mod record;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use std::{fmt, io};

use foreread_core::path::DeviceId;
use foreread_core::prefetch::LearntDevice;
use foreread_files::{FileError, system};
use rustix::fs::{major, minor};

pub use self::kept::{KeptRecord, device_records, forget_device_record};
use self::record::{HEAD, Record};
use crate::OpenOptions;
use crate::backend::Backend;
use crate::driver::Driver;

/// State of the record of a file's device: [`FileDevice::record`](crate::FileDevice::record).
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum DeviceRecord {
    /// No record is kept: the engine is not configured to
    /// [remember](crate::EngineBuilder::remember) devices, this device has no
    /// [name](OpenOptions::device_name), or it is read through the kernel's cache.
    Off,
    /// No record was found. The engine learns the device and writes one.
    New,
    /// The estimate started with the record of an earlier engine. The first requests validate it.
    Restored {
        /// Time at which the record was written.
        saved: SystemTime,
    },
    /// A file of the record's name exists but is unusable: the device is learnt as without a
    /// record.
    Ignored {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
}

/// The records of an engine's devices.
#[derive(Debug)]
pub(crate) struct DeviceRecords {
    directory: PathBuf,
    devices: Mutex<HashMap<String, KnownDevice>>,
}

#[derive(Debug)]
struct KnownDevice {
    /// The contents of the record.
    saved: Option<LearntDevice>,
    /// The measurements since.
    learnt: Option<LearntDevice>,
    /// The core's devices of the open files on it.
    open: Vec<DeviceId>,
    state: DeviceRecord,
}

impl DeviceRecords {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory, devices: Mutex::default() }
    }

    /// Returns the name under which the device of a file is remembered, if any.
    fn name(backend: &Backend, options: &OpenOptions) -> Option<String> {
        if backend.buffered.is_some() || backend.faults.is_some() {
            return None;
        }
        let given = options.device_name.as_deref().filter(|name| !name.is_empty());
        let by_number = || {
            let disk = backend.disk()?;
            // Network and other file systems get major number 0 and a new minor number at each
            // mount.
            let (major, minor) = (major(disk), minor(disk));
            (major != 0).then(|| format!("block-{major}-{minor}"))
        };
        let name = given.map(str::to_owned).or_else(by_number)?;
        let slowed = options.delay.map_or_else(String::new, |delay| format!("-delay-{delay}"));
        Some(plain(&(name + &slowed)))
    }

    /// Loads the record of a file's device, once. Returns the name of the device, or None if it is
    /// not remembered. Must not run under the driver's mutex.
    pub(crate) fn look_up(&self, backend: &Backend, options: &OpenOptions) -> Option<String> {
        let name = Self::name(backend, options)?;
        if self.lock().contains_key(&name) {
            return Some(name);
        }
        let path = self.path(&name);
        let (saved, state) = match Record::read(&path, &name) {
            Ok(None) => (None, DeviceRecord::New),
            Ok(Some(Record { learnt, saved })) => {
                let saved = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(saved));
                let saved = saved.unwrap_or(SystemTime::UNIX_EPOCH);
                (Some(learnt), DeviceRecord::Restored { saved })
            }
            Err(why) => (None, DeviceRecord::Ignored { path, why }),
        };
        let known = KnownDevice { saved, learnt: None, open: Vec::new(), state };
        self.lock().entry(name.clone()).or_insert(known);
        Some(name)
    }

    /// Registers an open file on a device, and returns the device's estimate.
    pub(crate) fn opened(&self, device: DeviceId, name: &str) -> Option<LearntDevice> {
        let mut devices = self.lock();
        let known = devices.get_mut(name)?;
        known.open.push(device);
        known.learnt.or(known.saved)
    }

    /// Unregisters a closed file, and notes the device's measurements.
    pub(crate) fn closed(&self, driver: &Driver, device: DeviceId, name: &str) {
        let mut devices = self.lock();
        let Some(known) = devices.get_mut(name) else { return };
        known.note(driver, device);
        known.open.retain(|open| *open != device);
    }

    pub(crate) fn state(&self, name: &str) -> DeviceRecord {
        self.lock().get(name).map_or(DeviceRecord::Off, |known| known.state.clone())
    }

    /// Notes the measurements of all open devices.
    pub(crate) fn note_all(&self, driver: &Driver) {
        for known in self.lock().values_mut() {
            for device in known.open.clone() {
                known.note(driver, device);
            }
        }
    }

    /// Writes the records that have changed. Tries all, and returns the first error.
    pub(crate) fn save(&self) -> io::Result<()> {
        let changed: Vec<_> = {
            let devices = self.lock();
            let changed = devices.iter().filter_map(|(name, known)| {
                let learnt = known.learnt?;
                let is_new = known.saved.is_none_or(|saved| is_other(&saved, &learnt));
                is_new.then(|| (name.clone(), learnt))
            });
            changed.collect()
        };
        let mut result = Ok(());
        for (name, learnt) in changed {
            match write(&self.path(&name), &name, learnt) {
                Ok(()) => {
                    if let Some(known) = self.lock().get_mut(&name) {
                        known.saved = Some(learnt);
                    }
                }
                // Another process has just written its measurements of the same device.
                Err(FileError::InUse { .. }) => {}
                Err(error) => {
                    let line = error.to_string();
                    let kind = io::Error::from(error).kind();
                    result = result.and(Err(io::Error::new(kind, line)));
                }
            }
        }
        result
    }

    fn path(&self, name: &str) -> PathBuf {
        path_of(&self.directory, name)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, KnownDevice>> {
        // No code panics while it holds this lock.
        self.devices.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes the record of a device that was measured without an engine, and replaces an earlier one.
/// An engine that [remembers](crate::EngineBuilder::remember) devices in this directory starts with
/// it when it opens a file whose device has [this name](OpenOptions::device_name). Returns the path
/// of the record.
///
/// ```
/// use foreread::LearntDevice;
/// use foreread::Pages;
///
/// # fn main() -> std::io::Result<()> {
/// # let directory = tempfile::tempdir()?;
/// let learnt = LearntDevice { window: Pages(512), cost: None };
/// let path = foreread::write_device_record(directory.path(), "disk-7", learnt)?;
/// assert!(path.ends_with("disk-7.learnt"));
/// # Ok(()) }
/// ```
///
/// # Errors
///
/// If the values are not plausible for a device, or the file cannot be written or is not
/// foreread's.
pub fn write_device_record(
    directory: impl AsRef<Path>,
    name: &str,
    learnt: LearntDevice,
) -> io::Result<PathBuf> {
    if !learnt.is_plausible() {
        let why = "its window and times are implausible";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let name = plain(name);
    let path = path_of(directory.as_ref(), &name);
    write(&path, &name, learnt).map_err(|error| {
        let line = error.to_string();
        io::Error::new(io::Error::from(error).kind(), line)
    })?;
    Ok(path)
}

fn write(path: &Path, name: &str, learnt: LearntDevice) -> Result<(), FileError> {
    let text = Record { learnt, saved: today() }.text(name);
    system::write_whole(path, &text, |head| head.starts_with(HEAD.as_bytes()))
}

fn path_of(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.learnt"))
}

impl KnownDevice {
    fn note(&mut self, driver: &Driver, device: DeviceId) {
        self.learnt = driver.path.learnt_device(device).or(self.learnt);
    }
}

impl fmt::Display for DeviceRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("the device is not remembered"),
            Self::New => f.write_str("the device was not seen before"),
            Self::Restored { .. } => f.write_str("the device is remembered"),
            Self::Ignored { path, why } => {
                write!(f, "{}: learning the device again: {why}", path.display())
            }
        }
    }
}

/// Returns true if two estimates differ by more than noise.
fn is_other(one: &LearntDevice, other: &LearntDevice) -> bool {
    let differs = |one: f64, other: f64| (one - other).abs() > NOISE * one.max(other);
    one.window != other.window
        || match (&one.cost, &other.cost) {
            (Some(one), Some(other)) => {
                differs(one.per_request_ns, other.per_request_ns)
                    || differs(one.per_kib_ns, other.per_kib_ns)
                    || one.parallel != other.parallel
                    || one.min_parallel != other.min_parallel
            }
            (one, other) => one.is_some() != other.is_some(),
        }
}

/// Converts a name to a single path component without special characters.
fn plain(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let plain = name.chars().map(|c| if is_plain(c) { c } else { '-' });
    let plain: String = plain.take(NAME_MAX).collect();
    // The result must be neither hidden nor a directory.
    let rest = plain.trim_start_matches('.');
    if rest.is_empty() { "device".to_owned() } else { rest.to_owned() }
}

/// Returns the current time in seconds since 1970.
#[expect(clippy::disallowed_methods, reason = "no decision depends on it: users read it")]
fn today() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// Relative difference up to which two estimates of the same device count as equal.
const NOISE: f64 = 0.1;

/// File names may have 255 bytes; this leaves room for additions.
const NAME_MAX: usize = 128;
