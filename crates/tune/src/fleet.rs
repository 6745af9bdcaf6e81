//! Many machines: what `doctor --json` has printed on each, compared.
//!
//! In:    one report a machine.
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

/// Machines, compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Fleet {
    /// In the order of their classes, then of their names.
    pub machines: Vec<FleetMachine>,
    /// The largest first.
    pub classes: Vec<MachineClass>,
    /// What is worth knowing, and no finding: files that name one host.
    pub notes: Vec<String>,
}

/// One machine of a fleet.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FleetMachine {
    /// The file that it came from.
    pub file: String,
    /// Its name; the file's if it did not say.
    pub host: String,
    /// Its kernel.
    pub kernel: Option<String>,
    /// The name of its class.
    pub class: String,
    /// How many devices it has.
    pub devices: usize,
    /// How many mounts it has.
    pub mounts: usize,
    /// `sda: read-ahead-off`
    pub findings: Vec<String>,
    /// Settings that most of its class have otherwise.
    pub outliers: Vec<Outlier>,
}

/// A setting that differs from what most of a class have.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Outlier {
    /// `sda read_ahead_kb`
    pub setting: String,
    /// Here.
    pub value: String,
    /// On most of the others.
    pub usual: String,
}

/// Machines with the same hardware.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MachineClass {
    /// `A`, `B`, ..
    pub name: String,
    /// What they have in common.
    pub hardware: String,
    /// Their names.
    pub hosts: Vec<String>,
    /// What was found on them, the most frequent first.
    pub findings: Vec<ClassFinding>,
}

/// A finding of a class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassFinding {
    /// Which check.
    pub check: String,
    /// The device or mount.
    pub device: String,
    /// The machines that have it.
    pub hosts: Vec<String>,
    /// What mends it, the best first; the commands of the machine that was read first, which are
    /// those of all if `is_same`.
    pub mend: Vec<String>,
    /// Whether all of these machines have the same commands.
    pub is_same: bool,
}
