//! A device that lies on others has a window of its own, and that one counts.
//!
//! In:    a dm, md or loop device, and what it lies on.
//! Out:   a finding where the window of what lies below was changed, and the kernel's default is in
//!        force above; a note where they differ and both were set, or neither.
//! Never: a finding for a partition: it has no window but its disk's.
//!
//! ```text
//!   a read of a file on dm-0  -->  dm-0: read_ahead_kb 128       decides
//!                                    |
//!                                  sda: read_ahead_kb 4096       is not asked
//! ```
//!
//! A rule that names disks (`sd*`) misses what lies on them, in both directions: the large window
//! that was set for a disk is not in force above it, and neither is the small one.

use super::snapshot::{SystemSnapshot, kib, quoted, set_window, window_attribute};
use super::{Confidence, Finding};
use crate::sysfs::{BlockDevice, BlockDeviceKind};

pub(super) fn check(
    snapshot: &SystemSnapshot<'_>,
    device: &BlockDevice,
    notes: &mut Vec<String>,
) -> Option<Finding> {
    let window_kib = device.queue.read_ahead_kib?;
    // Of all layers, not of the next alone: a disk that was set lies below those that were not.
    let (other, other_kib) = snapshot
        .all_below(device)
        .into_iter()
        .filter_map(|other| Some((other, other.queue.read_ahead_kib?)))
        .find(|(_, other_kib)| *other_kib != window_kib)?;

    // A window that was set for the upper device is taken as tuned on purpose. Read-only images,
    // such as packages, come by the dozen.
    let is_image = matches!(device.kind, BlockDeviceKind::Loop { .. }) && device.is_read_only;
    let is_chosen = snapshot.facts.remembered.iter().any(|one| one.device == device.name)
        || snapshot.is_window_set(device);
    // Without effect on any reader: the finding is that of the layer above, through which all read.
    let is_passed_over = snapshot.read_through(device).is_some();
    if is_chosen || is_image || is_passed_over || !snapshot.is_window_set(other) {
        notes.push(format!(
            "{} lies below with {}: for reads through {} its own {} count",
            other.name,
            kib(other_kib),
            device.name,
            kib(window_kib)
        ));
        return None;
    }
    Some(does_not_reach(snapshot, device, other, window_kib, other_kib))
}

fn does_not_reach(
    snapshot: &SystemSnapshot<'_>,
    device: &BlockDevice,
    other: &BlockDevice,
    window_kib: u64,
    other_kib: u64,
) -> Finding {
    let loop_note = match &device.kind {
        BlockDeviceKind::Loop { .. } => {
            " (the file below is read with the other one, unless with O_DIRECT)"
        }
        BlockDeviceKind::Mapped { .. }
        | BlockDeviceKind::Raid { .. }
        | BlockDeviceKind::Disk
        | BlockDeviceKind::Partition { .. } => "",
    };
    Finding {
        device: device.name.clone(),
        check: "window-does-not-reach",
        what: format!(
            "read_ahead_kb is {}; that of {} below it was set to {}.",
            kib(window_kib),
            other.name,
            kib(other_kib)
        ),
        why: format!(
            "Each of them has a window of its own, and reads through {} use its own{loop_note}: \
             what was set for {} is not in force here.",
            device.name, other.name
        ),
        evidence: vec![
            window_attribute(snapshot, device),
            window_attribute(snapshot, other),
            format!(
                "the kernel itself would give {} {}",
                other.name,
                kib(snapshot.kernel(other).window_kib)
            ),
        ],
        mend: mend(device, other_kib),
        confidence: Confidence::Computed,
    }
}

/// LVM keeps a window with the volume, in sectors.
fn mend(device: &BlockDevice, window_kib: u64) -> Vec<String> {
    let mut mend = vec![set_window(device, window_kib)];
    if let BlockDeviceKind::Mapped { name, uuid } = &device.kind
        && uuid.starts_with("LVM-")
    {
        let sectors = window_kib.saturating_mul(2);
        mend.insert(0, format!("lvchange --readahead {sectors} {}", quoted(&node_of_map(name))));
    }
    mend
}

/// Where a map is found: `/dev/mapper/vg-root`.
pub(super) fn node_of_map(name: &str) -> String {
    format!("/dev/mapper/{name}")
}
