//! Checks the block size implied by a device's size, and the cost of a small one.
//!
//! It is a finding if programs may write to the device directly. It is a note if a file system or
//! another device on top brings its own block size. Reads cost nothing extra today.
//!
//! ```text
//!   size: a multiple of 4096      blocks of 4096     one piece a page
//!         an odd number of 512    blocks of 512      eight pieces a page, each a segment
//!
//!   a write request of 128 segments:   4096 each: 512 KiB     512 each: 64 KiB
//! ```
//!
//! Rule and history: docs/design/geometry.md. Cost and measurement: docs/guide/doctor.md.

use foreread_core::geometry::{block_size, nearest_whole};
use foreread_core::units::{ByteCount, PAGE_SIZE, SECTOR_SIZE};

use super::resize::commands;
use super::snapshot::{DeviceUse, SystemSnapshot, attribute};
use super::write_cost::WriteCost;
use super::{Confidence, Finding};
use crate::sysfs::{BlockDevice, BlockDeviceKind};

pub(super) fn check(
    snapshot: &SystemSnapshot<'_>,
    device: &BlockDevice,
    notes: &mut Vec<String>,
) -> Option<Finding> {
    // A logical block that is no power of two comes from a broken driver or a broken copy.
    let logical = device.queue.logical_block.filter(|block| block.0.is_power_of_two());
    let logical = logical.map_or(SECTOR_SIZE, |block| block.0.max(SECTOR_SIZE));
    let block = block_size(device.size, ByteCount(logical), ByteCount(PAGE_SIZE));
    if block.0 >= PAGE_SIZE || device.size.0 < PAGE_SIZE {
        return None;
    }
    if let Some(why) = has_its_own_blocks(snapshot, device) {
        notes.push(format!(
            "its size of {} sectors results in blocks of {}; {why}",
            device.size.0 / SECTOR_SIZE,
            block.0
        ));
        return None;
    }
    Some(odd(snapshot, device, block))
}

/// Returns the reason why the device's own block size does not matter, if there is one.
fn has_its_own_blocks(snapshot: &SystemSnapshot<'_>, device: &BlockDevice) -> Option<String> {
    if device.is_read_only {
        return Some("this costs nothing: the device is read-only".to_owned());
    }
    match snapshot.user(device) {
        DeviceUse::Mounted(point) => Some(format!(
            "the file system on {point} uses its own block size, so this costs \
                          nothing"
        )),
        DeviceUse::Held(names) => Some(format!(
            "{} above it uses its own block size, so this costs nothing",
            names.join(", ")
        )),
        DeviceUse::Swap => Some("swap writes whole pages, so this costs nothing".to_owned()),
        DeviceUse::Partitioned => {
            Some("its partitions use their own block sizes, so this costs nothing".to_owned())
        }
        DeviceUse::NoneKnown => None,
    }
}

fn odd(snapshot: &SystemSnapshot<'_>, device: &BlockDevice, block: ByteCount) -> Finding {
    let sectors = device.size.0 / SECTOR_SIZE;
    let whole = nearest_whole(device.size, ByteCount(PAGE_SIZE));
    let above = whole.above.map_or(String::new(), |size| format!(" or {}", size.0 / SECTOR_SIZE));
    let pieces = PAGE_SIZE / block.0;
    let mut evidence = vec![
        attribute(snapshot, device, "size"),
        format!("block size: {} (blockdev --getbsz)", block.0),
        format!("sizes that give whole pages: {}{above} sectors", whole.below.0 / SECTOR_SIZE),
    ];
    let confidence = match snapshot.facts.measured {
        Some(cost) => {
            evidence.push(measured(cost));
            Confidence::Measured
        }
        None => {
            evidence.push(PUBLISHED.to_owned());
            Confidence::Cited
        }
    };
    Finding {
        device: device.name.clone(),
        check: "size-not-whole-pages",
        what: format!(
            "Its {sectors} sectors are not a multiple of 4096 bytes, so the kernel uses blocks of \
             {}.",
            block.0
        ),
        why: format!(
            "Buffered writes to the device itself are split into {pieces} pieces a page, and so \
             into up to {pieces} times as many requests: dd, copied images, databases on a raw \
             device, a loop device above it. Reads are not affected, and a file system uses its \
             own block size.{}",
            caution(&device.kind)
        ),
        evidence,
        mend: commands(snapshot, device, whole),
        confidence,
    }
}

/// Returns a warning about risks that the commands cannot detect.
fn caution(kind: &BlockDeviceKind) -> &'static str {
    match kind {
        BlockDeviceKind::Disk => {
            " A disk cannot be resized; a partition of whole pages on it uses large blocks."
        }
        BlockDeviceKind::Partition { .. }
        | BlockDeviceKind::Loop { .. }
        | BlockDeviceKind::Mapped { .. }
        | BlockDeviceKind::Raid { .. } => {
            " Growing is safe; before you shrink it, make sure that its last sectors are unused."
        }
    }
}

fn measured(cost: &WriteCost) -> String {
    format!(
        "measured here, {} written to a scratch loop device: {} requests with blocks of 4096, {} \
         with blocks of {} ({:.1} times), {:.0} and {:.0} MB/s",
        foreread_core::sizes::Exact(ByteCount(cost.bytes)),
        cost.whole.requests,
        cost.odd.requests,
        cost.odd.block_bytes,
        cost.times_as_many(),
        cost.whole.mb_per_s,
        cost.odd.mb_per_s
    )
}

const PUBLISHED: &str = "64M written to a loop device (Linux 6.18): 129 requests with blocks of \
                         4096, 1025 with blocks of 512; 946 and 494 MB/s. --measure does it here";
