//! Finds the source of each mounted file system's read-ahead window.
//!
//! In:    `/proc/self/mountinfo`, `/sys/class/bdi`, block devices, files that set a window.
//! Out:   [`MountWindow`]: the effective backing device (bdi), its window, the origin of the value.
//! Never: an unmarked guess; a pseudo file system of the kernel (proc, cgroup).
//!
//! ```text
//!   ext4, xfs, ..           its block device's window
//!   nfs, fuse, virtiofs     a bdi of its own, named by the number of the mount: 0:52
//!   smb, ceph, 9p, btrfs    a bdi of its own, named by kind and a counter: cifs-1
//!   overlay                 none: each file uses the window of its layer
//!   zfs                     its own prefetcher, with another setting
//! ```

mod backing;
mod kernel_rule;
mod kinds;
mod setters;
mod visible;

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde::Serialize;

pub(crate) use self::setters::BdiRules;
use self::visible::MountTree;
use crate::confidence::Confidence;
use crate::sysfs::{BlockDevice, MountEntry, SystemRoot};

pub use backing::{BackingDevice, bdi_of};
pub use kernel_rule::mount_default;
pub use kinds::{FileSystemKind, OWN_PREFETCHERS};

/// A mounted file system, and the source of its read-ahead window.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MountWindow {
    /// Mount point; the first if there are several.
    pub mount: String,
    /// File system type: `nfs4`, `fuse.sshfs`, `ext4`.
    pub fs: String,
    /// Mounted source.
    pub source: String,
    /// Number of further mount points of the same file system.
    pub also_at: usize,
    /// Source of its window.
    pub governed_by: Governor,
    /// File that has the window, if there is one.
    pub attribute: Option<String>,
    /// Window in force.
    pub read_ahead_kb: Option<u64>,
    /// The kernel's default window.
    pub kernel_kb: Option<u64>,
    /// Origin of the value in force.
    pub origin: String,
    /// Source of the rule: a commit of Linux, a manual page, a file of this machine.
    pub cited: Option<String>,
    /// Confidence in the origin.
    pub confidence: Confidence,
    /// Number of findings.
    pub findings: usize,
    /// Notes that are not findings.
    pub notes: Vec<String>,
    /// Entry of mountinfo.
    #[serde(skip)]
    pub entry: MountEntry,
}

/// Source of a mount's read-ahead window.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(tag = "by", rename_all = "lowercase")]
pub enum Governor {
    /// The mount's own backing device.
    Bdi {
        /// Name: `0:52`, `cifs-1`.
        name: String,
    },
    /// A block device.
    Device {
        /// Kernel name of the whole device.
        name: String,
    },
    /// The file systems of the layers: each file uses the window of its layer.
    Layers {
        /// Mount points of the layers.
        mounts: Vec<String>,
    },
    /// The file system's own prefetcher.
    Own {
        /// Setting of the file system's prefetcher.
        setting: String,
    },
    /// No window: the files are in memory.
    Memory,
    /// Unknown.
    Unknown {
        /// Reason why it is unknown.
        why: String,
    },
}

impl Governor {
    /// Returns the text for a table: `bdi 0:52`.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Bdi { name } => format!("bdi {name}"),
            Self::Device { name } => name.clone(),
            Self::Layers { mounts } => format!("layers on {}", mounts.join(", ")),
            Self::Own { setting } => setting.clone(),
            Self::Memory => "memory".to_owned(),
            Self::Unknown { .. } => "not known".to_owned(),
        }
    }
}

/// The kernel's default window for a mount.
#[derive(Clone, Debug, PartialEq)]
pub struct MountDefault {
    /// Window in KiB.
    pub window_kib: u64,
    /// Reason, in words: `a constant 128 KiB since Linux 5.4, regardless of rsize`.
    pub why: String,
    /// Source of the rule.
    pub cited: &'static str,
    /// Confidence in the rule.
    pub confidence: Confidence,
}

/// Returns all mounted file systems that hold data, each once.
#[must_use]
pub fn mount_windows(sys: &SystemRoot, devices: &[BlockDevice]) -> Vec<MountWindow> {
    mount_windows_by(&BdiRules::of(sys), sys, devices)
}

/// Like [`mount_windows`], with udev rules that the caller may already have parsed.
pub(crate) fn mount_windows_by(
    rules: &BdiRules<'_>,
    sys: &SystemRoot,
    devices: &[BlockDevice],
) -> Vec<MountWindow> {
    let mounts = sys.mounts();
    let tree = MountTree::new(&mounts);
    let mut known: HashMap<((u32, u32), &str), usize> = HashMap::new();
    let mut windows: Vec<MountWindow> = Vec::new();
    for entry in &mounts {
        let kind = FileSystemKind::of(&entry.kind);
        let is_of_memory = matches!(kind, FileSystemKind::Kernel | FileSystemKind::Memory);
        if is_of_memory || !tree.is_visible(entry) {
            continue;
        }
        match known.entry((entry.number, entry.kind.as_str())) {
            Entry::Occupied(index) => windows[*index.get()].also_at += 1,
            Entry::Vacant(free) => {
                free.insert(windows.len());
                windows.push(window_by(rules, sys, devices, &mounts, entry));
            }
        }
    }
    windows
}

/// Describes one mounted file system.
#[must_use]
pub fn window_of(
    sys: &SystemRoot,
    devices: &[BlockDevice],
    mounts: &[MountEntry],
    entry: &MountEntry,
) -> MountWindow {
    window_by(&BdiRules::of(sys), sys, devices, mounts, entry)
}

/// Describes one mounted file system, with udev rules that may have been parsed before.
pub(crate) fn window_by(
    rules: &BdiRules<'_>,
    sys: &SystemRoot,
    devices: &[BlockDevice],
    mounts: &[MountEntry],
    entry: &MountEntry,
) -> MountWindow {
    let governed_by = backing::governor(sys, devices, mounts, entry);
    let attribute = match &governed_by {
        Governor::Bdi { .. } => bdi_of(sys, mounts, entry).ok().map(|bdi| bdi.attribute()),
        Governor::Device { name } => Some(format!("/sys/block/{name}/queue/read_ahead_kb")),
        Governor::Layers { .. }
        | Governor::Own { .. }
        | Governor::Memory
        | Governor::Unknown { .. } => None,
    };
    let mut window = MountWindow {
        mount: entry.point.clone(),
        fs: entry.kind.clone(),
        source: entry.source.clone(),
        also_at: 0,
        read_ahead_kb: attribute.as_ref().and_then(|file| sys.number(file)),
        governed_by,
        attribute,
        kernel_kb: None,
        origin: String::new(),
        cited: None,
        confidence: Confidence::Computed,
        findings: 0,
        notes: Vec::new(),
        entry: entry.clone(),
    };
    setters::explain(rules, sys, devices, &mut window);
    window
}

#[cfg(test)]
mod tests;
