//! Builds commands that give a device a size of whole pages.
//!
//! They are complete commands for a root shell, the lossless one first. There is none if the system
//! does not reveal enough to write one without gaps, or if there is no space for the new size.

use foreread_core::geometry::WholePages;
use foreread_core::units::SECTOR_SIZE;

use super::snapshot::{SystemSnapshot, node_of, quoted};
use super::stacking::node_of_map;
use crate::sysfs::{BlockDevice, BlockDeviceKind};

pub(super) fn commands(
    snapshot: &SystemSnapshot<'_>,
    device: &BlockDevice,
    whole: WholePages,
) -> Vec<String> {
    // The device would shrink to nothing.
    if whole.below.0 == 0 {
        return Vec::new();
    }
    let below = whole.below.0 / SECTOR_SIZE;
    let above = whole.above.map(|size| size.0 / SECTOR_SIZE);
    match &device.kind {
        // The size of a disk cannot be changed.
        BlockDeviceKind::Disk => Vec::new(),
        BlockDeviceKind::Partition { of, start_sector } => {
            of_partition(snapshot, device, of, *start_sector, below, above)
        }
        BlockDeviceKind::Loop { backing } => {
            backing.as_deref().map_or_else(Vec::new, |file| of_loop(snapshot, device, file, whole))
        }
        BlockDeviceKind::Mapped { name, uuid } => of_map(device, name, uuid, below, above),
        BlockDeviceKind::Raid { level } => of_array(device, level, below),
    }
}

/// Returns the command for a partition: `sfdisk -N` keeps the start if only a size is given.
fn of_partition(
    snapshot: &SystemSnapshot<'_>,
    device: &BlockDevice,
    disk: &str,
    start: u64,
    below: u64,
    above: Option<u64>,
) -> Vec<String> {
    let number = snapshot.sys.number(device.folder.join("partition"));
    let (Some(number), Some(disk)) = (number, snapshot.device(disk)) else { return Vec::new() };
    let resize = |sectors: u64| {
        let node = node_of(disk);
        format!(
            "echo ',{sectors}' | sfdisk --no-reread -N {number} {node} && partx --update {node}"
        )
    };
    let room = room_behind(snapshot, disk, start);
    let above = above.filter(|above| start.checked_add(*above).is_some_and(|end| end <= room));
    above.into_iter().chain([below]).map(resize).collect()
}

/// Returns the first occupied sector after a partition: the next partition's start, or the GPT copy
/// at the end of the disk.
pub(super) fn room_behind(snapshot: &SystemSnapshot<'_>, disk: &BlockDevice, start: u64) -> u64 {
    let next = snapshot.partitions(&disk.name).filter_map(|other| match other.kind {
        BlockDeviceKind::Partition { start_sector, .. } if start_sector > start => {
            Some(start_sector)
        }
        BlockDeviceKind::Partition { .. }
        | BlockDeviceKind::Disk
        | BlockDeviceKind::Loop { .. }
        | BlockDeviceKind::Mapped { .. }
        | BlockDeviceKind::Raid { .. } => None,
    });
    let end = (disk.size.0 / SECTOR_SIZE).saturating_sub(GPT_COPY_SECTORS);
    next.min().unwrap_or(end).min(end)
}

/// Grows the file, or excludes its tail from the loop device.
fn of_loop(
    snapshot: &SystemSnapshot<'_>,
    device: &BlockDevice,
    file: &str,
    whole: WholePages,
) -> Vec<String> {
    if file.ends_with(DELETED) {
        return Vec::new();
    }
    let number =
        |name: &str| snapshot.sys.number(device.folder.join("loop").join(name)).unwrap_or(0);
    let (offset, limit) = (number("offset"), number("sizelimit"));
    let (node, file) = (node_of(device), quoted(file));
    let mut commands = Vec::new();
    // With a size limit, the file's own size does not matter.
    let grown = whole.above.and_then(|above| above.0.checked_add(offset));
    if let (0, Some(grown)) = (limit, grown) {
        commands.push(format!("truncate --size {grown} {file} && losetup --set-capacity {node}"));
    }
    let at = if offset == 0 { String::new() } else { format!(" --offset {offset}") };
    let below = whole.below.0;
    commands
        .push(format!("losetup --detach {node} && losetup{at} --sizelimit {below} {node} {file}"));
    commands
}

/// Returns the commands for a device-mapper map. LVM and cryptsetup have their own. A manual map of
/// one linear segment can be reloaded with another length; in any other table the line does not
/// match, and nothing changes. Multipath and similar tools would only recreate their maps.
fn of_map(
    device: &BlockDevice,
    name: &str,
    uuid: &str,
    below: u64,
    above: Option<u64>,
) -> Vec<String> {
    let node = quoted(&node_of_map(name));
    let name = quoted(name);
    if uuid.starts_with("LVM-") {
        let grow = above.map(|above| format!("lvextend --size {above}s {node}"));
        return grow.into_iter().collect();
    }
    if uuid.starts_with("CRYPT-") {
        return vec![format!("cryptsetup resize --size {below} {name}")];
    }
    if !uuid.is_empty() {
        return Vec::new();
    }
    let sectors = device.size.0 / SECTOR_SIZE;
    vec![format!(
        "dmsetup table --target linear {name} | sed 's/^0 {sectors} /0 {below} /' | dmsetup reload \
         {name} && dmsetup resume {name}"
    )]
}

/// Limits the component size, in KiB; a page has four. The limit lasts until the array is stopped.
fn of_array(device: &BlockDevice, level: &str, below: u64) -> Vec<String> {
    if level.is_empty() {
        return Vec::new();
    }
    vec![format!("mdadm --grow {} --array-size={}", node_of(device), below / 2)]
}

/// Suffix that the kernel adds to the name of a deleted file.
const DELETED: &str = " (deleted)";

/// Sectors of the GPT copy at the end of a disk.
const GPT_COPY_SECTORS: u64 = 33;
