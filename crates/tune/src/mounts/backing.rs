//! Finds the backing device (bdi) of a mounted file system. If several could be meant, it is an
//! error.
//!
//! ```text
//!   nfs, virtiofs, fuse    0:52            the mount's number
//!   fuseblk                8:1-fuseblk
//!   btrfs                  btrfs-1         /sys/fs/btrfs/UUID/bdi says which, where it is
//!   smb, ceph, 9p, ..      cifs-1          kind and a counter: certain if there is only one
//! ```

use std::fs;
use std::path::Path;

use super::{FileSystemKind, Governor};
use crate::sysfs::{BlockDevice, BlockDeviceKind, MountEntry, SystemRoot, names_in};

/// A backing device.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BackingDevice {
    /// Name in `/sys/class/bdi`.
    pub name: String,
}

impl BackingDevice {
    /// Returns the file of its window.
    #[must_use]
    pub fn attribute(&self) -> String {
        format!("{CLASS}/{}/read_ahead_kb", self.name)
    }
}

/// Returns a mount's own backing device.
///
/// # Errors
///
/// The reason: the mount has none, or it is ambiguous.
pub fn bdi_of(
    sys: &SystemRoot,
    mounts: &[MountEntry],
    entry: &MountEntry,
) -> Result<BackingDevice, String> {
    let (major, minor) = entry.number;
    let by_number = [format!("{major}:{minor}"), format!("{major}:{minor}-fuseblk")];
    let is_there = |name: &String| sys.path(CLASS).join(name).join("read_ahead_kb").is_file();
    if let Some(name) = by_number.into_iter().find(is_there) {
        return Ok(BackingDevice { name });
    }
    if FileSystemKind::of(&entry.kind) == FileSystemKind::Btrfs
        && let Some(name) = bdi_of_btrfs(sys, entry)
    {
        return Ok(BackingDevice { name });
    }
    by_counter(sys, mounts, entry)
}

/// Matches types named by a counter: unambiguous if one such mount and one such name exist.
fn by_counter(
    sys: &SystemRoot,
    mounts: &[MountEntry],
    entry: &MountEntry,
) -> Result<BackingDevice, String> {
    let stem = format!("{}-", entry.kind);
    let is_one = |name: &String| {
        let number = name.strip_prefix(&stem);
        number.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    };
    let names: Vec<_> = names_in(&sys.path(CLASS)).into_iter().filter(is_one).collect();
    let mut numbers: Vec<_> =
        mounts.iter().filter(|it| it.kind == entry.kind).map(|it| it.number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    match (names.as_slice(), numbers.len()) {
        ([], _) => Err(format!("{CLASS} has none for it")),
        ([name], 1) => Ok(BackingDevice { name: name.clone() }),
        (names, _) => Err(format!("it is one of {}", names.join(", "))),
    }
}

/// Returns the bdi of a btrfs, from the link `/sys/fs/btrfs/UUID/bdi`.
fn bdi_of_btrfs(sys: &SystemRoot, entry: &MountEntry) -> Option<String> {
    let folder = btrfs_folder(sys, entry)?;
    let link = fs::read_link(sys.path(&folder).join("bdi")).ok();
    let of_link = link.and_then(|to| Some(to.file_name()?.to_str()?.to_owned()));
    // A recorded system has no links; a file contains the name.
    of_link.or_else(|| sys.text(Path::new(&folder).join("bdi")))
}

/// Returns the folder in `/sys/fs/btrfs` that lists the source among its devices.
pub(super) fn btrfs_folder(sys: &SystemRoot, entry: &MountEntry) -> Option<String> {
    let devices = sys.devices();
    let source = devices.iter().find(|device| device.is_named(&entry.source))?;
    let folders = names_in(&sys.path(BTRFS)).into_iter().map(|name| format!("{BTRFS}/{name}"));
    let lists =
        |folder: &String| names_in(&sys.path(folder).join("devices")).contains(&source.name);
    folders.into_iter().find(lists)
}

/// Returns the number of devices of a btrfs.
pub(super) fn btrfs_devices(sys: &SystemRoot, entry: &MountEntry) -> Option<u64> {
    let folder = btrfs_folder(sys, entry)?;
    let count = names_in(&sys.path(folder).join("devices")).len() as u64;
    (count > 0).then_some(count)
}

/// Returns the source of a mount's window.
pub(super) fn governor(
    sys: &SystemRoot,
    devices: &[BlockDevice],
    mounts: &[MountEntry],
    entry: &MountEntry,
) -> Governor {
    match FileSystemKind::of(&entry.kind) {
        FileSystemKind::Kernel | FileSystemKind::Memory => Governor::Memory,
        FileSystemKind::Own(setting) => Governor::Own { setting: setting.to_owned() },
        FileSystemKind::Overlay => match layers(mounts, entry) {
            mounts if mounts.is_empty() => unknown(
                "its layers are not mounted here; the layers of a container are on the \
                         host",
            ),
            mounts => Governor::Layers { mounts },
        },
        FileSystemKind::Block => on_device(devices, entry)
            .unwrap_or_else(|| unknown("its block device is not in /sys/block")),
        FileSystemKind::Unknown => match bdi_of(sys, mounts, entry) {
            Ok(bdi) => Governor::Bdi { name: bdi.name },
            Err(why) => on_device(devices, entry).unwrap_or_else(|| {
                unknown(&format!("{} is not known to foreread, and {why}", entry.kind))
            }),
        },
        FileSystemKind::Nfs
        | FileSystemKind::Smb
        | FileSystemKind::Ceph
        | FileSystemKind::NineP
        | FileSystemKind::FuseFar
        | FileSystemKind::Fuse
        | FileSystemKind::Virtiofs
        | FileSystemKind::Btrfs => match bdi_of(sys, mounts, entry) {
            Ok(bdi) => Governor::Bdi { name: bdi.name },
            Err(why) => unknown(&why),
        },
    }
}

fn unknown(why: &str) -> Governor {
    Governor::Unknown { why: why.to_owned() }
}

/// Returns the whole block device of a mount, which has the window.
fn on_device(devices: &[BlockDevice], entry: &MountEntry) -> Option<Governor> {
    let is_it = |device: &&BlockDevice| device.number == entry.number;
    let found = devices.iter().find(is_it);
    let found = found.or_else(|| devices.iter().find(|it| it.is_named(&entry.source)))?;
    let name = match &found.kind {
        BlockDeviceKind::Partition { of, .. } => of.clone(),
        BlockDeviceKind::Disk
        | BlockDeviceKind::Loop { .. }
        | BlockDeviceKind::Mapped { .. }
        | BlockDeviceKind::Raid { .. } => found.name.clone(),
    };
    Some(Governor::Device { name })
}

/// Returns the mount points of an overlay's layers, each once: for `lowerdir=/a:/b,upperdir=/c` the
/// mounts around `/a`, `/b` and `/c`.
fn layers(mounts: &[MountEntry], entry: &MountEntry) -> Vec<String> {
    let mut points: Vec<String> = Vec::new();
    let upper = entry.option("upperdir").into_iter();
    let lower = entry.option("lowerdir").unwrap_or_default().split(':');
    // Newer tools pass them one by one as `lowerdir+=`.
    let added = entry.options.split(',').filter_map(|option| option.strip_prefix("lowerdir+="));
    for folder in upper.chain(lower).chain(added).filter(|folder| folder.starts_with('/')) {
        // In a container the path belongs to the host, and would resolve to the overlay itself.
        if let Some(around) = MountEntry::around(mounts, folder)
            && around.number != entry.number
            && !points.contains(&around.point)
        {
            points.push(around.point.clone());
        }
    }
    points
}

/// Folder of all backing devices.
const CLASS: &str = "/sys/class/bdi";
const BTRFS: &str = "/sys/fs/btrfs";
