//! Compares machines by their `doctor --json` reports.
//!
//! In:    one report for each machine.
//! Out:   [`Fleet`]: machines in classes of the same hardware, outliers, commands for each class.
//! Never: a file or a device; a machine left out without an error.
//!
//! ```text
//!   reports --> class: product, disks, kinds of mounts --> the usual value of each setting
//!                                                     '--> outliers: who differs from it
//!                                                     '--> findings, with their commands
//! ```

mod compared;
mod parsed;

use serde::Serialize;

pub use compared::compare;
pub use parsed::{MachineReport, SettingValue, parse};

/// A comparison of machines.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Fleet {
    /// Machines, by class and name.
    pub machines: Vec<FleetMachine>,
    /// Classes, the largest first.
    pub classes: Vec<MachineClass>,
    /// Notes that are not findings, such as files that name the same host.
    pub notes: Vec<String>,
}

/// One machine of a fleet.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FleetMachine {
    /// File of its report.
    pub file: String,
    /// Host name; the file's name if the report has none.
    pub host: String,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Name of its class.
    pub class: String,
    /// Number of devices.
    pub devices: usize,
    /// Number of mounts.
    pub mounts: usize,
    /// Findings: `sda: read-ahead-off`.
    pub findings: Vec<String>,
    /// Settings that differ from most of its class.
    pub outliers: Vec<Outlier>,
}

/// A setting that differs from most of its class.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Outlier {
    /// Name of the setting: `sda read_ahead_kb`.
    pub setting: String,
    /// Value on this machine.
    pub value: String,
    /// Value on most of the others.
    pub usual: String,
}

/// Machines with the same hardware.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MachineClass {
    /// `A`, `B`, ..
    pub name: String,
    /// Hardware that they have in common.
    pub hardware: String,
    /// Host names.
    pub hosts: Vec<String>,
    /// Findings on these machines, the most frequent first.
    pub findings: Vec<ClassFinding>,
}

/// A finding of a class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassFinding {
    /// Name of the check.
    pub check: String,
    /// Device or mount.
    pub device: String,
    /// Machines that have it.
    pub hosts: Vec<String>,
    /// Commands that fix it, the best first, for the machine that was read first. They suit all
    /// machines if `is_same`.
    pub mend: Vec<String>,
    /// True if all of these machines have the same commands.
    pub is_same: bool,
}
