//! The machine of a scenario: its cache, devices and files, parsed from TOML tables. The keys are
//! documented in docs/lab/simulator.md.

mod cache;
mod expected;
mod max_window;
mod scheduler;

use std::collections::BTreeMap;

use foreread_core::units::{ByteCount, MAX_FILE_BYTES};
use serde::Deserialize;
use toml::Spanned;

pub use cache::{CacheSpec, EvictionName, PolicyName, RuleName};
pub use expected::ExpectedDevice;
pub use max_window::MaxWindowSpec;
pub use scheduler::SchedulerSpec;

use crate::device::ModelChoice;
use crate::size::Size;
use crate::validate::{check, unknown};

/// A device and its scheduler.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceSpec {
    /// A known device by name, or `hdd`, `flash` or `mapped` with parameters.
    pub model: Spanned<ModelChoice>,
    /// Scheduler: `noop`, or another one with settings.
    #[serde(default)]
    pub scheduler: SchedulerSpec,
    /// Prior expectation of its performance, as for an object store.
    pub expected: Option<Spanned<ExpectedDevice>>,
    /// Later changes of its parameters.
    #[serde(default)]
    pub change: Vec<DeviceChange>,
}

/// A change of a device's parameters.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceChange {
    /// Time of the change, in seconds.
    pub at_s: f64,
    /// New parameters: the capacity and the geometry stay the same.
    pub model: Spanned<ModelChoice>,
}

/// A file in one extent.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSpec {
    /// Name of its device.
    pub device: Spanned<String>,
    /// Offset on the device.
    #[serde(default)]
    pub at: Size,
    /// Length of the file.
    pub size: Size,
}

/// The parts of a scenario that its files and workloads must fit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine<'s> {
    pub(crate) devices: &'s BTreeMap<String, DeviceSpec>,
    pub(crate) files: &'s BTreeMap<String, FileSpec>,
    /// Memory bound of the cache.
    pub(crate) memory: ByteCount,
    /// True if the run stops at a fixed time.
    pub(crate) stops: bool,
}

impl<'s> Machine<'s> {
    /// Returns the file of this name, or an error with the names of all files.
    pub(crate) fn file(&self, name: &str) -> Result<&'s FileSpec, String> {
        self.files.get(name).ok_or_else(|| unknown("file", name, self.files.keys()))
    }

    /// Returns the device of this name, or an error with the names of all devices.
    pub(crate) fn device(&self, name: &str) -> Result<&'s DeviceSpec, String> {
        self.devices.get(name).ok_or_else(|| unknown("device", name, self.devices.keys()))
    }

    /// Checks that a range is within a device.
    pub(crate) fn check_range(
        &self,
        device: &str,
        at: ByteCount,
        size: ByteCount,
    ) -> Result<(), String> {
        let spec = self.device(device)?;
        check(at.0.is_multiple_of(512), "at", "a multiple of 512 bytes")?;
        let capacity = spec.capacity();
        let is_inside = at.0.checked_add(size.0).is_some_and(|end| end <= capacity.0);
        if is_inside {
            return Ok(());
        }
        Err(format!("at: {size} bytes from there on end behind {device}, which has {capacity}"))
    }

    /// Checks that a device accepts requests of this size: direct requests are not split.
    pub(crate) fn check_request(
        &self,
        device: &str,
        request: ByteCount,
        parameter: &str,
    ) -> Result<(), String> {
        let max = self.device(device)?.model.get_ref().model.geometry().max_io.bytes();
        let wants = format!("at most max_command of {device}, {max} bytes");
        check(request <= max, parameter, &wants)
    }

    /// Checks that a file is within its device.
    pub(crate) fn check_file(&self, file: &FileSpec) -> Result<(), String> {
        let capacity = self.device(file.device.get_ref())?.capacity();
        let end = file.at.0.0.checked_add(file.size.0.0);
        if !file.at.0.0.is_multiple_of(4096) {
            return Err("at: must be a multiple of 4K".into());
        }
        if file.size.0 > MAX_FILE_BYTES {
            return Err("size: must be less than 2^63 bytes".into());
        }
        if end.is_none_or(|end| end > capacity.0) {
            return Err(format!("the file ends behind its device, which has {capacity} bytes"));
        }
        Ok(())
    }
}

impl DeviceSpec {
    /// Returns the capacity of the device.
    #[must_use]
    pub fn capacity(&self) -> ByteCount {
        self.model.get_ref().model.geometry().capacity
    }
}
