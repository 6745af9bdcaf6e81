//! The kernel's scheduler below a flood, set as long as that runs.

use std::cell::OnceCell;
use std::io;

use foreread_tune::setting::DeviceSetting;
use foreread_tune::sysfs::SystemRoot;
use foreread_tune::temporary_settings::TemporarySettings;

use super::method::FloodMethod;
use crate::settings_holder::holder;

/// The kernel's scheduler below the target.
pub(super) struct KernelDisk {
    disk: Option<String>,
    held: OnceCell<TemporarySettings>,
}

impl KernelDisk {
    pub(super) fn new(disk: Option<String>) -> Self {
        Self { disk, held: OnceCell::new() }
    }

    /// Sets the scheduler of a method; methods without one get the original.
    pub(super) fn use_scheduler_of(&self, method: &FloodMethod) -> io::Result<()> {
        let FloodMethod::Direct { scheduler: Some(name) } = method else {
            return self.held.get().map_or(Ok(()), |held| held.restore().map(drop));
        };
        let refused = |why: &dyn std::fmt::Display| {
            io::Error::other(format!("{} cannot be had: {why}", method.name()))
        };
        let disk = self.disk.clone();
        let device = disk.ok_or_else(|| refused(&"no disk of the kernel's lies below"))?;
        let setting =
            DeviceSetting { device, attribute: SCHEDULER.to_owned(), value: name.clone() };
        if self.held.get().is_none() {
            let _ = self.held.set(holder()?);
        }
        let held = self.held.get().expect("set above if it was not there");
        held.set(&setting).map_err(|error| refused(&error))
    }

    /// Returns the current scheduler.
    pub(super) fn scheduler(&self) -> Option<String> {
        let (device, attribute) = (self.disk.clone()?, SCHEDULER.to_owned());
        DeviceSetting { device, attribute, value: String::new() }.in_force(&SystemRoot::here())
    }
}

const SCHEDULER: &str = "queue/scheduler";
