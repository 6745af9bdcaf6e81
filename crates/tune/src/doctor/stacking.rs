//! Checks stacked devices, whose own window overrides those below.
//!
//! A finding: the window below was changed, and the kernel's default is in force above. A note: the
//! two differ, and both or neither were set. A partition has no window but its disk's.
//!
//! ```text
//!   a read of a file on dm-0  -->  dm-0: read_ahead_kb 128       decides
//!                                    |
//!                                  sda: read_ahead_kb 4096       is ignored
//! ```
//!
//! A rule that names disks (`sd*`) misses devices stacked on them, in both directions: neither a
//! large nor a small window set on a disk takes effect above it.

use super::snapshot::{SystemSnapshot, kib, quoted, set_window, window_attribute};
use super::{Confidence, Finding};
use crate::sysfs::{BlockDevice, BlockDeviceKind};

pub(super) fn check(
    snapshot: &SystemSnapshot<'_>,
    device: &BlockDevice,
    notes: &mut Vec<String>,
) -> Option<Finding> {
    let window_kib = device.queue.read_ahead_kib?;
    // Search all layers, not just the next: a tuned disk may lie below untuned layers.
    let (other, other_kib) = snapshot
        .all_below(device)
        .into_iter()
        .filter_map(|other| Some((other, other.queue.read_ahead_kib?)))
        .find(|(_, other_kib)| *other_kib != window_kib)?;

    // A window set on the upper device is taken as tuned on purpose. Read-only images, such as
    // packages, come by the dozen.
    let is_image = matches!(device.kind, BlockDeviceKind::Loop { .. }) && device.is_read_only;
    let is_chosen = snapshot.facts.remembered.iter().any(|one| one.device == device.name)
        || snapshot.is_window_set(device);
    // It affects no reader: the finding belongs to the layer above, through which all reads pass.
    let is_passed_over = snapshot.read_through(device).is_some();
    if is_chosen || is_image || is_passed_over || !snapshot.is_window_set(other) {
        notes.push(format!(
            "{} below has {}; reads through {} use its own {}",
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
            "read_ahead_kb is {}, but {} below it was set to {}.",
            kib(window_kib),
            other.name,
            kib(other_kib)
        ),
        why: format!(
            "Each device has its own window, and reads through {} use that device's{loop_note}: \
             the setting of {} has no effect on them.",
            device.name, other.name
        ),
        evidence: vec![
            window_attribute(snapshot, device),
            window_attribute(snapshot, other),
            format!(
                "the kernel's default for {} is {}",
                other.name,
                kib(snapshot.kernel(other).window_kib)
            ),
        ],
        mend: mend(device, other_kib),
        confidence: Confidence::Computed,
    }
}

/// Returns the commands that set the window. LVM stores it with the volume, in sectors.
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

/// Returns the node of a map: `/dev/mapper/vg-root`.
pub(super) fn node_of_map(name: &str) -> String {
    format!("/dev/mapper/{name}")
}
