//! Checks the alignment of partition starts to the blocks and stripes below them.
//!
//! A partition gets at most one finding. A start at sector 63 is fine on a rotating disk whose
//! physical blocks are 512 bytes: it costs nothing there. Partitions too small to matter get none.
//!
//! ```text
//!   blocks of the device   |4096   |4096   |4096   |4096   |
//!   blocks of the file system  |4096   |4096   |4096   |        each spans two
//! ```

use foreread_core::units::SECTOR_SIZE;

use super::snapshot::{DeviceUse, SystemSnapshot, attribute, node_of, quoted};
use super::{Confidence, Finding};
use crate::sysfs::{BlockDevice, BlockDeviceKind};

pub(super) fn check(snapshot: &SystemSnapshot<'_>, device: &BlockDevice) -> Option<Finding> {
    let BlockDeviceKind::Partition { start_sector, .. } = device.kind else { return None };
    if device.size.0 <= TOO_SMALL_BYTES || snapshot.user(device) == DeviceUse::Partitioned {
        return None;
    }
    let disk = snapshot.whole(device);
    // In 128 bits, because sysfs may report any start.
    let start_bytes = u128::from(start_sector) * u128::from(SECTOR_SIZE);
    let is_off = |unit: u64| unit > 0 && !start_bytes.is_multiple_of(u128::from(unit));
    let is_off_by = |bytes: u64, unit: u64| unit > 0 && !bytes.is_multiple_of(unit);
    let physical = disk.queue.physical_block.map_or(SECTOR_SIZE, |size| size.0);

    // Some drives report a first block that does not begin at 0; the kernel shows the offset here,
    // or -1 for a stack in which nothing aligns.
    let offset = snapshot.sys.text(device.folder.join("alignment_offset")).unwrap_or_default();
    // The offset is relative to the chunk if there is one: a remainder of whole blocks is the
    // chunk's.
    let is_in_block = |offset: i64| offset < 0 || is_off_by(offset.unsigned_abs(), physical);
    let has_offset = offset.parse().is_ok_and(is_in_block);
    if has_offset || (offset.is_empty() && is_off(physical)) {
        return Some(off_block(snapshot, device, disk, physical, Confidence::Cited));
    }
    let rotates = disk.queue.is_rotational == Some(true);
    let hides_its_blocks = !rotates || snapshot.virtual_because(disk).is_some();
    if physical < USUAL_BLOCK && hides_its_blocks && is_off(USUAL_BLOCK) {
        return Some(off_block(snapshot, device, disk, USUAL_BLOCK, Confidence::Likely));
    }
    let chunk = disk.queue.io_min.map_or(0, |size| size.0);
    let stripe = disk.queue.io_opt.map_or(0, |size| size.0);
    if chunk > physical.max(USUAL_BLOCK) && stripe > chunk && is_off(chunk) {
        return Some(off_chunk(snapshot, device, disk, chunk));
    }
    None
}

fn off_block(
    snapshot: &SystemSnapshot<'_>,
    device: &BlockDevice,
    disk: &BlockDevice,
    block_bytes: u64,
    confidence: Confidence,
) -> Finding {
    let of_which = match confidence {
        Confidence::Likely => "which most flash and virtual disks use even if they report 512",
        Confidence::Measured | Confidence::Computed | Confidence::Cited => {
            "and so does each block of its file system"
        }
    };
    Finding {
        device: device.name.clone(),
        check: "partition-misaligned",
        what: format!("{} starts inside a block of {block_bytes} bytes, {of_which}.", device.name),
        why: "A small write touches two blocks of the device, and each must be read, modified and \
              written back."
            .to_owned(),
        evidence: vec![
            attribute(snapshot, device, "start"),
            attribute(snapshot, device, "alignment_offset"),
            attribute(snapshot, disk, "queue/physical_block_size"),
            "1000 synchronous writes of 4 KiB to a disk of 4096-byte blocks: 7 to 8 s aligned, 22 \
             to 24 s one sector off (osnews 22872)"
                .to_owned(),
        ],
        mend: move_to(snapshot, device, disk, ONE_MIB),
        confidence,
    }
}

fn off_chunk(
    snapshot: &SystemSnapshot<'_>,
    device: &BlockDevice,
    disk: &BlockDevice,
    chunk_bytes: u64,
) -> Finding {
    Finding {
        device: device.name.clone(),
        check: "partition-off-stripe",
        what: format!(
            "{} starts inside a {} KiB chunk of its array.",
            device.name,
            chunk_bytes / 1024
        ),
        why: "Some requests that would fit on one disk of the array need two, and no write covers \
             exactly a whole stripe."
            .to_owned(),
        evidence: vec![
            attribute(snapshot, device, "start"),
            attribute(snapshot, disk, "queue/minimum_io_size"),
            attribute(snapshot, disk, "queue/optimal_io_size"),
        ],
        mend: move_to(snapshot, device, disk, ONE_MIB.max(chunk_bytes)),
        confidence: Confidence::Likely,
    }
}

/// Returns commands that move the partition with its contents to the next multiple of `unit_bytes`;
/// none if there is no space, or if it is in use and cannot be unmounted.
fn move_to(
    snapshot: &SystemSnapshot<'_>,
    device: &BlockDevice,
    disk: &BlockDevice,
    unit_bytes: u64,
) -> Vec<String> {
    let BlockDeviceKind::Partition { start_sector, .. } = device.kind else { return Vec::new() };
    let before = match snapshot.user(device) {
        DeviceUse::NoneKnown => String::new(),
        DeviceUse::Mounted(point) if point != "/" => format!("umount {} && ", quoted(&point)),
        DeviceUse::Mounted(_) | DeviceUse::Held(_) | DeviceUse::Swap | DeviceUse::Partitioned => {
            return Vec::new();
        }
    };
    let unit = unit_bytes / SECTOR_SIZE;
    let number = snapshot.sys.number(device.folder.join("partition"));
    let (Some(number), Some(start)) = (number, start_sector.checked_next_multiple_of(unit)) else {
        return Vec::new();
    };
    let end = start.saturating_add(device.size.0 / SECTOR_SIZE);
    if end > super::resize::room_behind(snapshot, disk, start_sector) {
        return Vec::new();
    }
    let node = node_of(disk);
    // The partition is deleted from the kernel first. The kernel refuses while it is open, even by
    // users that are invisible here (ZFS, another mount namespace).
    vec![format!(
        "{before}partx --delete --nr {number} {node} && {{ echo '{start},' | sfdisk --move-data \
         --no-reread -N {number} {node}; partx --add --nr {number} {node}; }}"
    )]
}

/// Partitions of 1 MiB hold boot loaders, which are read once at boot.
const TOO_SMALL_BYTES: u64 = 2 << 20;

/// Physical block of nearly all devices that report 512.
const USUAL_BLOCK: u64 = 4096;

/// Default start of partitions in all current tools.
const ONE_MIB: u64 = 1 << 20;
