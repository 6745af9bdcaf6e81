//! A run built from a scenario, with the names of its devices and files.

use std::collections::BTreeMap;

use foreread_core::path::DeviceId;
use foreread_core::sched::Submitter;
use foreread_core::units::Nanos;

use crate::process::Process;
use crate::run::{SimFile, SimRun};
use crate::validate::unknown;

/// A run, and the names of its devices and files.
#[derive(Debug)]
pub struct PreparedRun {
    /// The run.
    pub run: SimRun,
    /// Devices, by name.
    pub devices: BTreeMap<String, DeviceId>,
    /// Files, by name.
    pub files: BTreeMap<String, SimFile>,
    /// Submitter of the processes added now; None: each process is its own submitter.
    pub submitter: Option<Submitter>,
}

impl PreparedRun {
    /// Adds a process that begins at `start`.
    pub fn begin<F: Future<Output = ()> + 'static>(
        &mut self,
        name: &str,
        start: Nanos,
        body: impl FnOnce(Process) -> F + 'static,
    ) {
        let submitter = self.submitter;
        self.run.spawn(name, async move |process: Process| {
            process.set_submitter(submitter);
            // The wait for its start does not count as running time.
            process.meter(|meter, now| meter.began = now.max(start));
            process.until(start).await;
            body(process).await;
        });
    }

    /// Returns the file of this name.
    ///
    /// # Errors
    ///
    /// The names of all files, if there is none of this name.
    pub fn file(&self, name: &str) -> Result<SimFile, String> {
        self.files.get(name).copied().ok_or_else(|| unknown("file", name, self.files.keys()))
    }

    /// Returns the device of this name.
    ///
    /// # Errors
    ///
    /// The names of all devices, if there is none of this name.
    pub fn device(&self, name: &str) -> Result<DeviceId, String> {
        self.devices.get(name).copied().ok_or_else(|| unknown("device", name, self.devices.keys()))
    }
}
