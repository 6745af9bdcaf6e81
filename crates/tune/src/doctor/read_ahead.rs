//! Checks a device's largest window: its origin, and whether the value is reasonable.
//!
//! Only the first failed question below becomes a finding. Measured windows are never a finding,
//! nor are windows that no read uses. A smaller window is suggested only with its cost to streams.
//!
//! ```text
//!   as remembered? ------ yes: fine, it was measured         no: not-as-remembered
//!   0?                                                       off
//!   4 MiB or more, and the kernel's own value, because of
//!     optimal_io_size that is no array's                     from-io-opt
//!     rotational                                             from-rotational
//!   far above what devices of this size need?                above-size-rule
//!   128 KiB or less, and each read takes long?               small-for-streams
//! ```

use super::snapshot::{
    DeviceUse, SystemSnapshot, attribute, kib, node_of, set_window, window_attribute,
};
use super::{Confidence, Finding, small_window};
use crate::kernel_default::{CONSTANT_KIB, KernelDefault, Reason};
use crate::remember::conflict::{Conflict, conflicts};
use crate::setting::READ_AHEAD_KB;
use crate::sysfs::{BlockDevice, BlockDeviceKind};
use crate::temporary_settings::left_behind;

pub(super) fn check(
    snapshot: &SystemSnapshot<'_>,
    device: &BlockDevice,
    notes: &mut Vec<String>,
) -> Option<Finding> {
    if matches!(device.kind, BlockDeviceKind::Partition { .. }) {
        return None;
    }
    let window_kib = device.queue.read_ahead_kib?;
    let kernel = snapshot.kernel(device);
    let of_device = || snapshot.facts.remembered.iter().filter(|one| one.device == device.name);
    // A window set until the next boot may override the remembered one.
    if let Some(it) = of_device().find(|one| one.read_ahead_kb == window_kib) {
        let until = if it.is_until_boot { ", and set until the next boot" } else { "" };
        notes.push(format!("{} was measured on {}{until}", kib(window_kib), it.date));
        return None;
    }
    if let Some(remembered) = of_device().find(|one| !one.is_until_boot) {
        return Some(not_as_remembered(snapshot, device, remembered));
    }
    let left = left_behind(snapshot.sys).into_iter();
    let mut left = left.filter(|was| was.device == device.name && was.attribute == READ_AHEAD_KB);
    if let Some(was) = left.next() {
        notes.push(format!(
            "a killed foreread run has left {}; the original was {} KiB; the next `foreread tune` \
             as root restores it",
            kib(window_kib),
            was.value
        ));
    } else if snapshot.is_window_set(device) {
        notes.push(format!(
            "read_ahead_kb was set to {}; the kernel's default is {}",
            kib(window_kib),
            kib(kernel.window_kib)
        ));
        notes.extend(others(snapshot, device));
    }
    // Swap reads ahead by vm.page-cluster and ignores this window.
    if snapshot.user(device) == DeviceUse::Swap {
        return None;
    }
    let finding = judged(snapshot, device, window_kib, kernel)
        .or_else(|| small_window::check(snapshot, device, window_kib))?;
    if let Some(through) = snapshot.read_through(device) {
        notes.push(format!(
            "its window of {} has no effect: all reads go through {}",
            kib(window_kib),
            through.join(", ")
        ));
        return None;
    }
    Some(finding)
}

/// Lists the files on this machine that set the window, or may set it.
fn others(snapshot: &SystemSnapshot<'_>, device: &BlockDevice) -> Vec<String> {
    let conflicts = conflicts(snapshot.sys, &device.name, &[READ_AHEAD_KB]);
    let one = |other: &Conflict| {
        let Conflict { file, line, what, .. } = other;
        format!("set by {}:{line}: {what}", file.display())
    };
    conflicts.iter().map(one).collect()
}

fn judged(
    snapshot: &SystemSnapshot<'_>,
    device: &BlockDevice,
    window_kib: u64,
    kernel: KernelDefault,
) -> Option<Finding> {
    if window_kib == 0 {
        return Some(off(snapshot, device, kernel));
    }
    let is_kernels = window_kib == kernel.window_kib;
    if is_kernels && window_kib >= LARGE_KIB {
        match kernel.reason {
            Reason::OptimalIo(size) if !is_stripe(device, size.0) => {
                return Some(from_io_opt(snapshot, device, size.0));
            }
            // A loop device copies the flag of the disk below it, and that disk has the finding. On
            // a physical disk the flag is correct, and the default was designed for it.
            Reason::Rotates { max_sectors_kib }
                if !matches!(device.kind, BlockDeviceKind::Loop { .. }) =>
            {
                if let Some(because) = snapshot.virtual_because(device) {
                    return Some(from_rotational(snapshot, device, max_sectors_kib, &because));
                }
            }
            Reason::OptimalIo(_) | Reason::Rotates { .. } | Reason::Constant => {}
        }
    }
    // The size of a volume does not reveal the size of its disks.
    if matches!(device.kind, BlockDeviceKind::Mapped { .. } | BlockDeviceKind::Raid { .. }) {
        return None;
    }
    let limit_kib = snapshot.size_rule_kib(device)?;
    let far = if window_kib <= CONSTANT_KIB { FAR_FOR_THE_DEFAULT } else { FAR };
    let is_far = window_kib > limit_kib.saturating_mul(far);
    // Every loop device gets this default from the kernel, so a note would say nothing new.
    let is_usual_loop = is_kernels && matches!(device.kind, BlockDeviceKind::Loop { .. });
    (is_far && !is_usual_loop).then(|| above_size_rule(snapshot, device, window_kib, limit_kib))
}

/// Returns whether the optimal size is an array's stripe: several chunks, each larger than a block.
///
/// An array reports a meaningful size: a window of two stripes keeps all its disks busy. A disk has
/// no chunk, and repeats its physical block there.
fn is_stripe(device: &BlockDevice, io_opt_bytes: u64) -> bool {
    let queue = &device.queue;
    let chunk = queue.io_min.map_or(0, |size| size.0);
    let block = queue.physical_block.map_or(4096, |size| size.0);
    let is_whole = chunk > block && io_opt_bytes > chunk && io_opt_bytes.is_multiple_of(chunk);
    is_whole && io_opt_bytes / chunk <= CHUNKS_MAX
}

fn not_as_remembered(
    snapshot: &SystemSnapshot<'_>,
    device: &BlockDevice,
    remembered: &super::RememberedWindow,
) -> Finding {
    let mut evidence = vec![
        window_attribute(snapshot, device),
        format!("measured on {}: {}", remembered.date, kib(remembered.read_ahead_kb)),
    ];
    evidence.extend(others(snapshot, device));
    Finding {
        device: device.name.clone(),
        check: "read-ahead-not-as-remembered",
        what: format!(
            "read_ahead_kb differs from the {} measured and remembered for this device.",
            kib(remembered.read_ahead_kb)
        ),
        why: "Another program has changed it since, or the rule that sets it did not run."
            .to_owned(),
        evidence,
        mend: vec![measured_window(device, remembered), "foreread tune verify".to_owned()],
        confidence: Confidence::Measured,
    }
}

fn off(snapshot: &SystemSnapshot<'_>, device: &BlockDevice, kernel: KernelDefault) -> Finding {
    Finding {
        device: device.name.clone(),
        check: "read-ahead-off",
        what: "read_ahead_kb is 0: read-ahead is off.".to_owned(),
        why: "A sequential reader waits for the device at each read. 0 is right only if every \
              program on this device does its own read-ahead."
            .to_owned(),
        evidence: vec![
            window_attribute(snapshot, device),
            format!("the kernel's default is {}", kib(kernel.window_kib)),
            "a device of 4 ms a request, read in order: 1.0 MB/s with 4 KiB, 30.4 MB/s with 128 KiB"
                .to_owned(),
        ],
        mend: mend(device, kernel.window_kib.min(LARGE_KIB / 2)),
        confidence: Confidence::Cited,
    }
}

/// Explains why its optimal size is no stripe.
fn chunk_text(device: &BlockDevice, io_opt_bytes: u64) -> String {
    let chunk = device.queue.io_min.map_or(0, |size| size.0);
    match io_opt_bytes.checked_div(chunk) {
        Some(chunks)
            if chunks > CHUNKS_MAX && io_opt_bytes.is_multiple_of(chunk) && chunk > 4096 =>
        {
            format!("a chunk of which it would have {chunks}")
        }
        _ => "no chunk".to_owned(),
    }
}

fn from_io_opt(snapshot: &SystemSnapshot<'_>, device: &BlockDevice, io_opt_bytes: u64) -> Finding {
    let window_kib = device.queue.read_ahead_kib.unwrap_or_default();
    let mut evidence = vec![
        window_attribute(snapshot, device),
        attribute(snapshot, device, "queue/optimal_io_size"),
        attribute(snapshot, device, "queue/minimum_io_size"),
    ];
    evidence.extend(snapshot.maker(device).map(|maker| format!("the device: {maker}")));
    let sectors = io_opt_bytes / 512;
    if sectors == 65_535 {
        evidence.push(
            "USB bridges that do not know the value report 65535 sectors; fdisk ignores it, too \
             (util-linux 1221)"
                .to_owned(),
        );
    } else {
        evidence.push(
            "reported of a cloud disk with 64 MiB for the same reason: loads of random reads 50 to \
             500 times slower (azure-vm-utils 99)"
                .to_owned(),
        );
    }
    Finding {
        device: device.name.clone(),
        check: "read-ahead-from-io-opt",
        what: format!(
            "read_ahead_kb is {}: the kernel took twice the optimal_io_size of {}.",
            kib(window_kib),
            kib(io_opt_bytes / 1024)
        ),
        why: format!(
            "That size suits requests of a long transfer; it is not the stripe of an array, since \
             the device reports {}. As a window it makes readers that stop early, and many \
             concurrent streams, fetch far more than they use.",
            chunk_text(device, io_opt_bytes)
        ),
        evidence,
        mend: mend(device, CONSTANT_KIB),
        confidence: Confidence::Cited,
    }
}

fn from_rotational(
    snapshot: &SystemSnapshot<'_>,
    device: &BlockDevice,
    max_sectors_kib: u64,
    because: &str,
) -> Finding {
    let window_kib = device.queue.read_ahead_kib.unwrap_or_default();
    let evidence = vec![
        window_attribute(snapshot, device),
        attribute(snapshot, device, "queue/rotational"),
        attribute(snapshot, device, "queue/max_sectors_kb"),
        format!("/proc/sys/kernel/osrelease: {}", snapshot.release()),
        "reported of cloud machines with 4096 KiB for the same reason: page cache flooded, memory \
         exhausted; set back to 128 (runner-images 13938)"
            .to_owned(),
        "200 streams in 64 MiB of memory: 583 MB/s with 128 KiB, 50 MB/s with 1024 KiB".to_owned(),
    ];
    Finding {
        device: device.name.clone(),
        check: "read-ahead-from-rotational",
        what: format!(
            "read_ahead_kb is {}: since Linux 6.17 a device reported as rotating gets twice its \
             largest request, {}.",
            kib(window_kib),
            kib(max_sectors_kib)
        ),
        why: format!(
            "{because}: the flag does not imply an arm or a platter. Readers that stop early, and \
             many concurrent streams, fetch far more than they use."
        ),
        evidence,
        mend: mend(device, CONSTANT_KIB),
        confidence: Confidence::Cited,
    }
}

fn above_size_rule(
    snapshot: &SystemSnapshot<'_>,
    device: &BlockDevice,
    window_kib: u64,
    limit_kib: u64,
) -> Finding {
    Finding {
        device: device.name.clone(),
        check: "read-ahead-above-size-rule",
        what: format!(
            "read_ahead_kb is {}; the limit for a device of this size is {}.",
            kib(window_kib),
            kib(limit_kib)
        ),
        why: "Small devices are mostly slow, and on a slow device an unused page costs most. Each \
              device that the limit was fitted to keeps the throughput of its largest window, \
              within 6 % (docs/design/geometry.md)."
            .to_owned(),
        evidence: vec![
            window_attribute(snapshot, device),
            attribute(snapshot, device, "size"),
            format!("the kernel's default is {}", kib(snapshot.kernel(device).window_kib)),
        ],
        mend: mend(device, limit_kib),
        confidence: Confidence::Likely,
    }
}

/// Returns the command that restores the measured window; if that is the smaller one, with its
/// measured cost.
fn measured_window(device: &BlockDevice, remembered: &super::RememberedWindow) -> String {
    let row = |kib| remembered.rows.iter().find(|row| row.window_kib == kib);
    let now_kib = device.queue.read_ahead_kib.unwrap_or_default();
    let command = set_window(device, remembered.read_ahead_kb);
    let Some((command, _)) = command.split_once(" # ") else { return command };
    match (row(remembered.read_ahead_kb), row(now_kib)) {
        (Some(then), Some(now)) => format!(
            "{command} # measured here: {:.0} MB/s with it, {:.0} with {now_kib}",
            then.mb_per_s, now.mb_per_s
        ),
        _ => format!("{command} # {} was not measured in the same run", kib(now_kib)),
    }
}

/// Suggests a measurement, which is better than any rule, then a value that is harmless in most
/// cases, with its cost.
fn mend(device: &BlockDevice, window_kib: u64) -> Vec<String> {
    vec![format!("foreread tune {} --remember", node_of(device)), set_window(device, window_kib)]
}

/// A window derived from a flag is a finding from here on: the smallest that public reports found
/// harmful (docs/guide/doctor.md). A disk with usual limits gets 2560 and has none.
const LARGE_KIB: u64 = 4096;

/// Exceeds the disks of one array: an optimal size of more chunks is no stripe (volumes of an array
/// behind a network were reported with 16 MiB and 32 MiB ahead, hpe-storage/csi-driver 357).
const CHUNKS_MAX: u64 = 256;

/// Factor above the size rule that is far: two of its steps, since it is a rule of thumb.
const FAR: u64 = 4;

/// The same for windows up to 128 KiB, which every device gets: three steps, so that only devices
/// below 2 MiB are reported, where a window is a tenth of the device.
const FAR_FOR_THE_DEFAULT: u64 = 8;
