//! The kernel's default window for a device, and its reason. Kernels with unknown rules get none.
//!
//! ```text
//!   optimal_io_size > 0 (Linux 5.10, md always) --> 2 x optimal_io_size  --.
//!   else rotational, Linux 6.17 and later --------> 2 x max_sectors_kb   --+-> at least 128 KiB
//!   else -----------------------------------------> 128 KiB              --'
//! ```
//!
//! The factor 2 keeps one request in flight while the last one is used. Since 6.17 the rule also
//! tests whether the device rotates, and virtual disks often report that they do. That is how a
//! cloud disk gets 8 MiB (docs/guide/doctor.md has the sources).

use foreread_core::units::{ByteCount, PAGE_SIZE};

use crate::sysfs::{BlockDevice, BlockDeviceKind, Queue};

/// Source of a default window.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reason {
    /// Twice the device's optimal request size.
    OptimalIo(ByteCount),
    /// Twice the largest request, because the device rotates and has no optimal size.
    Rotates {
        /// Largest request, in KiB.
        max_sectors_kib: u64,
    },
    /// The kernel's constant.
    Constant,
}

/// The kernel's default for a device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct KernelDefault {
    /// Window in KiB.
    pub window_kib: u64,
    /// Reason for it.
    pub reason: Reason,
}

/// Returns the kernel's default for a device, by the rule of its `release` (`6.18.1`).
///
/// The kernel creates a loop device before it has a file: at that time the device is rotational and
/// gets a window, which it keeps once the file is bound (seen on Linux 6.18).
#[must_use]
pub fn kernel_default(device: &BlockDevice, release: &str) -> KernelDefault {
    let mut queue = device.queue.clone();
    if matches!(device.kind, BlockDeviceKind::Loop { .. }) {
        queue.is_rotational = Some(true);
        queue.max_sectors_kib = queue.max_hw_sectors_kib.or(queue.max_sectors_kib);
    }
    let is_array = matches!(device.kind, BlockDeviceKind::Raid { .. });
    if !is_array && version(release).is_some_and(|version| version < ASKS_IO_OPT) {
        queue.io_opt = None;
    }
    by_limits(&queue, release)
}

fn by_limits(queue: &Queue, release: &str) -> KernelDefault {
    let asks_rotation = version(release).is_none_or(|version| version >= (6, 17));
    let io_opt = queue.io_opt.filter(|size| *size > ByteCount(0));
    let (twice, reason) = match (io_opt, queue.is_rotational, queue.max_sectors_kib) {
        (Some(size), _, _) => (size, Reason::OptimalIo(size)),
        (None, Some(true), Some(max_sectors_kib)) if asks_rotation => {
            (ByteCount(max_sectors_kib.saturating_mul(1024)), Reason::Rotates { max_sectors_kib })
        }
        _ => (ByteCount(0), Reason::Constant),
    };
    // The kernel counts in pages: a size of 65535 sectors gives 65532 KiB.
    let window_kib = twice.0.saturating_mul(2) / PAGE_SIZE * (PAGE_SIZE / 1024);
    if window_kib <= CONSTANT_KIB {
        return KernelDefault { window_kib: CONSTANT_KIB, reason: Reason::Constant };
    }
    KernelDefault { window_kib, reason }
}

/// First release in which every device, not only arrays, derives its window from io_opt ("block:
/// lift setting the readahead size into the block layer").
const ASKS_IO_OPT: (u32, u32) = (5, 10);

/// Parses a release: `6.18.44-fc` is (6, 18).
pub(crate) fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// The kernel's default window for lack of any other reason, in KiB.
pub const CONSTANT_KIB: u64 = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kernels_choose() {
        let queue = |io_opt, is_rotational, max_sectors_kib| Queue {
            io_opt: Some(ByteCount(io_opt)),
            is_rotational: Some(is_rotational),
            max_sectors_kib: Some(max_sectors_kib),
            ..Queue::default()
        };
        let of = |queue: &Queue, release| by_limits(queue, release).window_kib;
        let cloud_disk = queue(0, true, 4096);
        assert_eq!(of(&cloud_disk, "6.18.44-fc"), 8192);
        assert_eq!(of(&cloud_disk, "6.16.0"), 128);
        let nvme_that_lies = queue(32 << 20, false, 512);
        assert_eq!(of(&nvme_that_lies, "6.1.0-56-amd64"), 65536);
        let usb_bridge = queue(65_535 * 512, false, 120);
        assert_eq!(of(&usb_bridge, "6.1.0"), 65_532, "whole pages");
        assert_eq!(of(&queue(4096, false, 1280), "6.18.0"), 128);
        let reason = by_limits(&queue(4096, true, 1280), "6.18.0").reason;
        assert_eq!(reason, Reason::Constant, "io_opt decides alone");
    }
}
