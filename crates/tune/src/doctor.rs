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
mod mount;
mod read_ahead;
mod reclaim;
mod resize;
mod scheduler;
mod small_window;
mod snapshot;
mod stack;
mod stacking;
pub mod write_cost;

use serde::Serialize;

pub use crate::confidence::Confidence;
use crate::machine::MachineFacts;
use crate::mounts::{Governor, MountWindow, mount_windows_by};
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
    /// The names of the devices to look at; empty, with no mount: all.
    pub only: &'a [String],
    /// The mounts to look at, by where they are mounted; empty, with no device: all.
    pub only_mounts: &'a [String],
}

/// A window that was measured, and is meant to be in force.
#[derive(Clone, Debug, PartialEq)]
pub struct RememberedWindow {
    /// The device's name, as the kernel calls it today; of a mount, where it is mounted.
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
    /// The mounted file systems, and what governs the read-ahead of each.
    pub mounts: Vec<MountWindow>,
    /// The layers below each of those mounts, in the order of a drawn tree.
    pub stacks: Vec<Vec<StackLayer>>,
    /// What should be looked into, in the order of the devices, then of the mounts.
    pub findings: Vec<Finding>,
    /// The machine.
    pub machine: MachineFacts,
    /// What is worth knowing of the machine as a whole.
    pub notes: Vec<String>,
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
    /// Vendor and model, as it reports them.
    pub maker: Option<String>,
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
    /// The device; of a mount with a window of its own where it is mounted, which begins with `/`;
    /// `memory` for what concerns the machine's page cache.
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

/// One layer of a stack.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StackLayer {
    /// How far down it lies; the first has 0.
    pub depth: usize,
    /// Its name: `/srv`, `dm-3`, `sda`.
    pub name: String,
    /// What it is: `xfs`, `LVM vg-data`, `raid6`, `partition`, `disk`.
    pub what: String,
    /// Its window, if it has one of its own.
    pub read_ahead_kb: Option<u64>,
    /// The largest request, in KiB.
    pub max_sectors_kb: Option<u64>,
    /// Its scheduler.
    pub scheduler: Option<String>,
    /// How far its start is from a physical block's, in bytes, where the kernel says so.
    pub alignment_offset: Option<u64>,
    /// Whether its window counts for reads from the top.
    pub role: LayerRole,
}

/// What the window of a layer does for reads from the top of its stack.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LayerRole {
    /// It counts.
    Counts,
    /// It counts for a second read-ahead, of the file of a loop device.
    Again,
    /// It is ignored: a layer above it has one.
    Ignored,
    /// It has none of its own.
    None,
}

impl LayerRole {
    /// For a table.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Counts => "counts",
            Self::Again => "counts again",
            Self::Ignored => "ignored",
            Self::None => "-",
        }
    }
}

/// Looks at all devices, or at those that the facts name.
#[must_use]
pub fn examine(sys: &SystemRoot, facts: &ExaminationInput<'_>) -> Examination {
    let snapshot = SystemSnapshot::new(sys, facts);
    let mut examination = Examination { machine: MachineFacts::of(sys), ..Examination::default() };
    let is_all = facts.only.is_empty() && facts.only_mounts.is_empty();
    for device in &snapshot.devices {
        if !is_all && !facts.only.contains(&device.name) {
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
            maker: snapshot.maker(device),
            read_ahead_kb: device.queue.read_ahead_kib,
            kernel_kb: device.queue.read_ahead_kib.map(|_| snapshot.kernel(device).window_kib),
            size_rule_kb: snapshot.size_rule_kib(device),
            scheduler: device.queue.scheduler.as_ref().map(|scheduler| scheduler.chosen.clone()),
            findings: findings.len(),
            notes,
        });
        examination.findings.append(&mut findings);
    }
    for mut mount in mount_windows_by(&snapshot.rules, sys, &snapshot.devices) {
        let is_on = |name: &str| facts.only.iter().any(|only| only == name);
        let is_meant = is_all
            || facts.only_mounts.contains(&mount.mount)
            || matches!(&mount.governed_by, Governor::Device { name } if is_on(name));
        if is_meant {
            let mut findings = mount::check(&snapshot, &mut mount);
            mount.findings = findings.len();
            examination.findings.append(&mut findings);
            examination.mounts.push(mount);
        }
    }
    examination.stacks = stack::stacks(&snapshot, &examination.mounts);
    if is_all {
        of_machine(sys, &mut examination);
    }
    examination
}

/// What concerns the machine as a whole.
fn of_machine(sys: &SystemRoot, examination: &mut Examination) {
    let found = reclaim::check(sys, &mut examination.notes);
    examination.findings.extend(found);
    if let Some(container) = &examination.machine.container {
        examination.notes.push(format!(
            "this is a container ({container}): devices and mounts are the host's, and a window \
             that is set here holds for all that read through them; set it on the host"
        ));
    }
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
