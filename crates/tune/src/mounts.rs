//! What governs the read-ahead of each mounted file system.
//!
//! In:    `/proc/self/mountinfo`, `/sys/class/bdi`, block devices, files that set a window.
//! Out:   [`MountWindow`]: the backing device (bdi) that counts, its window, what set it.
//! Never: a guess without saying so; a file system of the kernel's own (proc, cgroup).
//!
//! ```text
//!   ext4, xfs, ..           its block device's window
//!   nfs, fuse, virtiofs     a bdi of its own, named by the number of the mount: 0:52
//!   smb, ceph, 9p, btrfs    a bdi of its own, named by kind and a counter: cifs-1
//!   overlay                 none: each file has the window of the layer that it lies in
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

/// A mounted file system, and what governs its read-ahead.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MountWindow {
    /// Where it is mounted; of several places the first.
    pub mount: String,
    /// Its kind: `nfs4`, `fuse.sshfs`, `ext4`.
    pub fs: String,
    /// What is mounted.
    pub source: String,
    /// How many further places show the same file system.
    pub also_at: usize,
    /// What governs its read-ahead.
    pub governed_by: Governor,
    /// The file that has the window, if one has.
    pub attribute: Option<String>,
    /// The window in force.
    pub read_ahead_kb: Option<u64>,
    /// The window that the kernel itself gives.
    pub kernel_kb: Option<u64>,
    /// Where the value in force came from.
    pub origin: String,
    /// Which rule or file says so: a commit of Linux, a manual page, a file of this machine.
    pub cited: Option<String>,
    /// How sure that is.
    pub confidence: Confidence,
    /// How many findings it has.
    pub findings: usize,
    /// What is worth knowing, and no finding.
    pub notes: Vec<String>,
    /// The mount itself.
    #[serde(skip)]
    pub entry: MountEntry,
}

/// What governs the read-ahead of a mount.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(tag = "by", rename_all = "lowercase")]
pub enum Governor {
    /// A backing device of its own.
    Bdi {
        /// `0:52`, `cifs-1`.
        name: String,
    },
    /// A block device.
    Device {
        /// The whole device, as the kernel calls it.
        name: String,
    },
    /// The file systems of the layers: each file has the window of its layer.
    Layers {
        /// Where those are mounted.
        mounts: Vec<String>,
    },
    /// A prefetcher of the file system's own.
    Own {
        /// Its setting.
        setting: String,
    },
    /// Nothing: its files are in memory.
    Memory,
    /// It is not known.
    Unknown {
        /// Why not.
        why: String,
    },
}

impl Governor {
    /// For a table: `bdi 0:52`.
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

/// The kernel's own window for a mount.
#[derive(Clone, Debug, PartialEq)]
pub struct MountDefault {
    /// In KiB.
    pub window_kib: u64,
    /// Why, in words: `its constant of 128 KiB since Linux 5.4, whatever rsize is`.
    pub why: String,
    /// Where that is written.
    pub cited: &'static str,
    /// How sure that is.
    pub confidence: Confidence,
}

/// All mounted file systems from which data is read, each once.
#[must_use]
pub fn mount_windows(sys: &SystemRoot, devices: &[BlockDevice]) -> Vec<MountWindow> {
    mount_windows_by(&BdiRules::of(sys), sys, devices)
}

/// The same, by rules of udev that may have been read already.
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

/// One mounted file system.
#[must_use]
pub fn window_of(
    sys: &SystemRoot,
    devices: &[BlockDevice],
    mounts: &[MountEntry],
    entry: &MountEntry,
) -> MountWindow {
    window_by(&BdiRules::of(sys), sys, devices, mounts, entry)
}

/// The same, by rules of udev that may have been read already.
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
