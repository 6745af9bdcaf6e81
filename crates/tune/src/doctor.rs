//! Finds settings of a system's block devices that slow down reads, and says how to fix them.
//!
//! In:    sysfs and proc, the devices that count, what was measured and remembered of them.
//! Out:   [`Examination`]: the devices with their settings, and [`Finding`]s.
//! Never: writes; opens a device; states a cost that was not measured: a figure was measured on
//!        this machine, or docs/doctor.md has its source.
//!
//! ```text
//!   sysfs, proc --> snapshot --> checks, one file each --> findings    worth acting on
//!   remembered --'                                 '--> notes       worth knowing, not acting
//! ```

mod alignment;
mod block_size;
mod inode_table;
mod read_ahead;
mod resize;
mod scheduler;
mod small_window;
mod snapshot;
mod stacking;
pub mod write_cost;

use serde::Serialize;

use crate::report::WindowResult;
use crate::sysfs::{BlockDeviceKind, SystemRoot};
use snapshot::SystemSnapshot;
use write_cost::WriteCost;

/// What an examination knows beyond sysfs.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExaminationInput<'a> {
    /// Windows that were measured before and remembered.
    pub remembered: &'a [RememberedWindow],
    /// What an odd size costs a writer here, if it was measured just now.
    pub measured: Option<&'a WriteCost>,
    /// The names of the devices to look at; empty: all.
    pub only: &'a [String],
}

/// A window that was measured, and is meant to be in force.
#[derive(Clone, Debug, PartialEq)]
pub struct RememberedWindow {
    /// The device's name, as the kernel calls it today.
    pub device: String,
    /// The window.
    pub read_ahead_kb: u64,
    /// When, as a text for people.
    pub date: String,
    /// Whether it was set until the next boot only.
    pub is_until_boot: bool,
    /// What each window delivered.
    pub rows: Vec<WindowResult>,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Examination {
    /// The devices that were looked at, partitions after their disk.
    pub devices: Vec<Examined>,
    /// Those that were not, and why.
    pub skipped: Vec<Skipped>,
    /// What should be looked into, in the order of the devices.
    pub findings: Vec<Finding>,
}

/// A device that was looked at.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Examined {
    /// As the kernel calls it.
    pub device: String,
    /// Its size.
    pub bytes: u64,
    /// What it is: `disk`, `partition of sda`, `loop`, `map vg-root`, `raid5`.
    pub kind: String,
    /// The window in force.
    pub read_ahead_kb: Option<u64>,
    /// The window that the kernel itself would give it.
    pub kernel_kb: Option<u64>,
    /// The largest window by the rule of its size.
    pub size_rule_kb: Option<u64>,
    /// Its scheduler.
    pub scheduler: Option<String>,
    /// How many findings it has.
    pub findings: usize,
    /// What is worth knowing, and no finding.
    pub notes: Vec<String>,
}

/// A device that was not looked at.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Skipped {
    /// As the kernel calls it.
    pub device: String,
    /// Why not.
    pub why: String,
}

/// Something that should be looked into.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The device.
    pub device: String,
    /// Which check found it. A name that stays.
    pub check: &'static str,
    /// What is.
    pub what: String,
    /// Why it matters.
    pub why: String,
    /// Figures, and the files that they are from.
    pub evidence: Vec<String>,
    /// Commands, to be run as root; each of them mends it, the best first. None where no command
    /// can.
    pub mend: Vec<String>,
    /// How sure this is.
    pub confidence: Confidence,
}

/// How sure a finding is.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// Measured on this machine.
    Measured,
    /// It follows from what the system says of itself.
    Computed,
    /// What is follows from what the system says; what it costs was measured elsewhere.
    Cited,
    /// It is so on most devices.
    Likely,
}

impl Confidence {
    /// For people.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Measured => "measured here",
            Self::Computed => "computed from what the system says",
            Self::Cited => "cited: the cost was measured elsewhere, docs/doctor.md says where",
            Self::Likely => "likely: true of most devices, not measured on this one",
        }
    }
}

/// Looks at all devices, or at those that the facts name.
#[must_use]
pub fn examine(sys: &SystemRoot, facts: &ExaminationInput<'_>) -> Examination {
    let snapshot = SystemSnapshot::new(sys, facts);
    let mut examination = Examination::default();
    for device in &snapshot.devices {
        if !facts.only.is_empty() && !facts.only.contains(&device.name) {
            continue;
        }
        if let Some(why) = why_skipped(&device.name, device.size.0) {
            examination.skipped.push(Skipped { device: device.name.clone(), why: why.to_owned() });
            continue;
        }
        let mut notes = Vec::new();
        let mut findings = Vec::new();
        // If a window that was set below has no effect here, that is the finding; no rule is asked.
        let window = stacking::check(&snapshot, device, &mut notes);
        findings.extend(window.or_else(|| read_ahead::check(&snapshot, device, &mut notes)));
        findings.extend(block_size::check(&snapshot, device, &mut notes));
        findings.extend(alignment::check(&snapshot, device));
        findings.extend(scheduler::check(&snapshot, device));
        findings.extend(inode_table::check(&snapshot, device));
        examination.devices.push(Examined {
            device: device.name.clone(),
            bytes: device.size.0,
            kind: kind_text(&device.kind),
            read_ahead_kb: device.queue.read_ahead_kib,
            kernel_kb: device.queue.read_ahead_kib.map(|_| snapshot.kernel(device).window_kib),
            size_rule_kb: snapshot.size_rule_kib(device),
            scheduler: device.queue.scheduler.as_ref().map(|scheduler| scheduler.chosen.clone()),
            findings: findings.len(),
            notes,
        });
        examination.findings.append(&mut findings);
    }
    examination
}

/// Why a device is skipped, if it is not read from, or not as a disk.
fn why_skipped(name: &str, bytes: u64) -> Option<&'static str> {
    let is = |stem: &str| {
        let number = name.strip_prefix(stem);
        number.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    if is("zram") {
        Some("compressed memory: nothing is read ahead from it")
    } else if is("ram") {
        Some("memory")
    } else if bytes == 0 {
        Some("no medium")
    } else {
        None
    }
}

fn kind_text(kind: &BlockDeviceKind) -> String {
    match kind {
        BlockDeviceKind::Disk => "disk".to_owned(),
        BlockDeviceKind::Partition { of, .. } => format!("partition of {of}"),
        BlockDeviceKind::Loop { .. } => "loop".to_owned(),
        BlockDeviceKind::Mapped { name, .. } => format!("map {name}"),
        BlockDeviceKind::Raid { level } => level.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_without_a_medium_are_skipped() {
        assert_eq!(why_skipped("sda", 0), Some("no medium"));
        assert_eq!(why_skipped("ram0", 1 << 20), Some("memory"));
        assert!(why_skipped("zram0", 1 << 30).is_some());
        assert_eq!(why_skipped("rampart", 1 << 30), None);
        assert_eq!(why_skipped("sda", 512), None);
    }
}
