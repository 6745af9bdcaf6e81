//! Finds settings of a system's block devices that slow down reads, and explains how to fix them.
//!
//! In:    sysfs and proc, the devices that count, earlier measurements and remembered settings.
//! Out:   [`Examination`]: the devices with their settings, and [`Finding`]s.
//! Never: writes; opens a device; states a cost that was not measured: a figure was measured on
//!        this machine, or docs/guide/doctor.md has its source.
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

/// Facts for an examination beyond those in sysfs.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExaminationInput<'a> {
    /// Windows that were measured and remembered earlier.
    pub remembered: &'a [RememberedWindow],
    /// Cost of an odd size to a writer on this machine, if it was measured just now.
    pub measured: Option<&'a WriteCost>,
    /// Names of the devices to examine; if empty and no mount is named, all devices.
    pub only: &'a [String],
    /// Mount points to examine; if empty and no device is named, all mounts.
    pub only_mounts: &'a [String],
}

/// A measured window that is meant to be in force.
#[derive(Clone, Debug, PartialEq)]
pub struct RememberedWindow {
    /// Current kernel name of the device; for a mount, its mount point.
    pub device: String,
    /// Window in KiB.
    pub read_ahead_kb: u64,
    /// Date of the measurement, as text.
    pub date: String,
    /// True if it was set until the next boot only.
    pub is_until_boot: bool,
    /// Throughput of each window.
    pub rows: Vec<WindowResult>,
}

/// Result of an examination.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Examination {
    /// Examined devices, partitions after their disk.
    pub devices: Vec<Examined>,
    /// Skipped devices, with the reason.
    pub skipped: Vec<Skipped>,
    /// Mounted file systems, with the source of each one's read-ahead window.
    pub mounts: Vec<MountWindow>,
    /// Layers below each of those mounts, in the order of a drawn tree.
    pub stacks: Vec<Vec<StackLayer>>,
    /// Findings, in the order of the devices, then of the mounts.
    pub findings: Vec<Finding>,
    /// Facts about the machine.
    pub machine: MachineFacts,
    /// Notes about the machine as a whole.
    pub notes: Vec<String>,
}

/// An examined device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Examined {
    /// Kernel name.
    pub device: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Kind: `disk`, `partition of sda`, `loop`, `map vg-root`, `raid5`.
    pub kind: String,
    /// Vendor and model, as the device reports them.
    pub maker: Option<String>,
    /// Window in force.
    pub read_ahead_kb: Option<u64>,
    /// The kernel's default window for it.
    pub kernel_kb: Option<u64>,
    /// Largest window by the size rule.
    pub size_rule_kb: Option<u64>,
    /// Scheduler in force.
    pub scheduler: Option<String>,
    /// Number of findings.
    pub findings: usize,
    /// Notes that are not findings.
    pub notes: Vec<String>,
}

/// A skipped device.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Skipped {
    /// Kernel name.
    pub device: String,
    /// Reason for skipping it.
    pub why: String,
}

/// A condition worth acting on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Name of the device; the mount point, which begins with `/`, of a mount with its own window;
    /// `memory` for findings about the machine's page cache.
    pub device: String,
    /// Stable name of the check.
    pub check: &'static str,
    /// The condition.
    pub what: String,
    /// Consequence of the condition.
    pub why: String,
    /// Figures, and the files they come from.
    pub evidence: Vec<String>,
    /// Alternative commands that fix it, to be run as root, the best first; empty if no command
    /// can.
    pub mend: Vec<String>,
    /// Confidence in the finding.
    pub confidence: Confidence,
}

/// One layer of a stack.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StackLayer {
    /// Depth in the stack; 0 is the top.
    pub depth: usize,
    /// Name: `/srv`, `dm-3`, `sda`.
    pub name: String,
    /// Kind: `xfs`, `LVM vg-data`, `raid6`, `partition`, `disk`.
    pub what: String,
    /// The layer's own window, if it has one.
    pub read_ahead_kb: Option<u64>,
    /// Largest request, in KiB.
    pub max_sectors_kb: Option<u64>,
    /// Scheduler in force.
    pub scheduler: Option<String>,
    /// Bytes by which its start misses a physical block, if the kernel reports it.
    pub alignment_offset: Option<u64>,
    /// Effect of the layer's window on reads from the top of the stack.
    pub role: LayerRole,
}

/// Effect of a layer's window on reads from the top of its stack.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LayerRole {
    /// The window is in force.
    Counts,
    /// The window is in force for a second read-ahead, on the file of a loop device.
    Again,
    /// The window is ignored because a layer above has one.
    Ignored,
    /// The layer has no window.
    None,
}

impl LayerRole {
    /// Returns the text for a table.
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

/// Examines all devices, or those that the input names.
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
        // If a window set below has no effect here, that is the finding, and the window rules do
        // not apply.
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

/// Adds the findings about the machine as a whole.
fn of_machine(sys: &SystemRoot, examination: &mut Examination) {
    let found = reclaim::check(sys, &mut examination.notes);
    examination.findings.extend(found);
    if let Some(container) = &examination.machine.container {
        examination.notes.push(format!(
            "this is a container ({container}): devices and mounts belong to the host, and a \
             window set here affects all their readers; set it on the host"
        ));
    }
}

/// Returns the reason to skip a device that is never read, or not as a disk.
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
