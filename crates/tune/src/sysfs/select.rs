//! The devices that a name or a path on the command line selects.
//!
//! In:    a name (`sda`), a node (`/dev/sda2`, `/dev/mapper/vg-root`), or a path on a device.
//! Out:   the names of the devices to look at: a disk with its partitions, a partition with its
//!        disk, which has its settings.
//! Never: a guess: what is on no block device is refused.

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use super::SystemRoot;
use super::device::{BlockDevice, BlockDeviceKind};
use super::mount::MountEntry;

/// The devices that `text` means.
///
/// # Errors
///
/// One line: that there is none, and what can be written.
pub fn devices_named(sys: &SystemRoot, text: &str) -> Result<Vec<String>, String> {
    let devices = sys.devices();
    let found = by_name(&devices, text).or_else(|| by_path(sys, &devices, text));
    let Some(found) = found else {
        return Err(format!(
            "{text}: no block device, and on none; give a name (sda), a node (/dev/sda) or a path \
             on one"
        ));
    };
    let mut names = vec![found.name.clone()];
    match &found.kind {
        BlockDeviceKind::Partition { of, .. } => names.push(of.clone()),
        BlockDeviceKind::Disk
        | BlockDeviceKind::Loop { .. }
        | BlockDeviceKind::Mapped { .. }
        | BlockDeviceKind::Raid { .. } => {
            let is_part = |kind: &BlockDeviceKind| matches!(kind, BlockDeviceKind::Partition { of, .. } if *of == found.name);
            let parts = devices.iter().filter(|device| is_part(&device.kind));
            names.extend(parts.map(|part| part.name.clone()));
        }
    }
    Ok(names)
}

/// The device of this name, as the kernel or a map calls it, with `/dev/` or without.
pub(crate) fn by_name<'d>(devices: &'d [BlockDevice], text: &str) -> Option<&'d BlockDevice> {
    let name = text.strip_prefix("/dev/").unwrap_or(text);
    let is_it = |device: &&BlockDevice| match &device.kind {
        BlockDeviceKind::Mapped { name: map, .. } => {
            device.name == name || name.strip_prefix("mapper/") == Some(map)
        }
        BlockDeviceKind::Disk
        | BlockDeviceKind::Partition { .. }
        | BlockDeviceKind::Loop { .. }
        | BlockDeviceKind::Raid { .. } => device.name.replace('!', "/") == name,
    };
    devices.iter().find(is_it)
}

/// A path of the system that this runs on is asked for its device. Of any other only the mounts are
/// known.
fn by_path<'d>(
    sys: &SystemRoot,
    devices: &'d [BlockDevice],
    text: &str,
) -> Option<&'d BlockDevice> {
    let numbered = |number| devices.iter().find(|device| device.number == number);
    let is_here = sys.path("/") == Path::new("/");
    if !is_here && text.starts_with("/dev/") {
        return None;
    }
    let path = if is_here { std::fs::canonicalize(text).ok()? } else { text.into() };
    if is_here {
        let stat = path.metadata().ok()?;
        let is_node = stat.file_type().is_block_device();
        let number = if is_node { stat.rdev() } else { stat.dev() };
        let found = numbered((rustix::fs::major(number), rustix::fs::minor(number)));
        if found.is_some() || is_node {
            return found;
        }
    }
    let mounts = mounts_on(sys, devices);
    numbered(MountEntry::around(&mounts, path.to_str()?)?.number)
}

/// What is mounted, by the devices it lies on. btrfs has a number of its own in place of its
/// device's, names one of its devices as the source, and lists all of them in sysfs.
pub(crate) fn mounts_on(sys: &SystemRoot, devices: &[BlockDevice]) -> Vec<MountEntry> {
    let mut mounts = sys.mounts();
    let folders = std::fs::read_dir(sys.path("/sys/fs/btrfs")).into_iter().flatten().flatten();
    let groups: Vec<Vec<&BlockDevice>> = folders
        .map(|folder| {
            let members = std::fs::read_dir(folder.path().join("devices"));
            let names = members.into_iter().flatten().flatten().map(|member| member.file_name());
            names.filter_map(|name| devices.iter().find(|it| *it.name == *name)).collect()
        })
        .collect();
    let nameless = mounts.extract_if(.., |mount| mount.number.0 == 0).collect::<Vec<_>>();
    for mount in nameless {
        let source = devices.iter().find(|device| device.is_named(&mount.source));
        let Some(source) = source else {
            mounts.push(mount);
            continue;
        };
        let group = groups.iter().find(|group| group.iter().any(|it| it.name == source.name));
        let others = group.into_iter().flatten().filter(|other| other.name != source.name);
        let on = |device: &BlockDevice| MountEntry { number: device.number, ..mount.clone() };
        mounts.extend(others.copied().chain([source]).map(on));
    }
    mounts
}
