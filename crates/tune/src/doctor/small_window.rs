//! Finds windows of 128 KiB or less on devices that make streams wait.
//!
//! The finding suggests a measurement and no value, because none was measured. Flash that answers
//! at once gets no finding: a small window costs it little.
//!
//! ```text
//!   a stream on a device of 4 ms a request, one at a time:
//!     128 KiB   |--4 ms--|--4 ms--|--4 ms--|     30 MB/s
//!     1024 KiB  |--4 ms + transfer--|           221 MB/s
//! ```

use super::snapshot::{SystemSnapshot, attribute, node_of, window_attribute};
use super::{Confidence, Finding};
use crate::kernel_default::CONSTANT_KIB;
use crate::sysfs::{BlockDevice, BlockDeviceKind};

pub(super) fn check(
    snapshot: &SystemSnapshot<'_>,
    device: &BlockDevice,
    window_kib: u64,
) -> Option<Finding> {
    let is_small = (1..=CONSTANT_KIB).contains(&window_kib);
    // If the size rule allows no more, the device is a small one.
    let is_enough = snapshot.size_rule_kib(device).is_some_and(|limit| limit <= window_kib);
    if !is_small || is_enough {
        return None;
    }
    let slow = Slow::of(snapshot, device)?;
    Some(Finding {
        device: device.name.clone(),
        check: "read-ahead-small-for-streams",
        what: format!("read_ahead_kb is {window_kib}, and {}.", slow.what()),
        why: "A sequential reader of a large file waits for the device once for each window. \
              Measure whether a larger one helps."
            .to_owned(),
        evidence: vec![
            window_attribute(snapshot, device),
            slow.evidence(snapshot, device),
            PRICE.into(),
        ],
        mend: vec![format!("foreread tune {} --remember", node_of(device))],
        confidence: Confidence::Likely,
    })
}

/// Reason why streams wait on a device.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Slow {
    /// Read latency from the kernel's counters.
    Counted { reads: u64, ms: f64 },
    /// The device has a seek arm.
    Rotates,
    /// A window fits on one disk of several.
    Stripe { kib: u64 },
}

impl Slow {
    fn of(snapshot: &SystemSnapshot<'_>, device: &BlockDevice) -> Option<Self> {
        let stripe = device.queue.io_opt.map_or(0, |size| size.0 / 1024);
        let is_array = matches!(device.kind, BlockDeviceKind::Raid { .. });
        if is_array && stripe > device.queue.read_ahead_kib? {
            return Some(Self::Stripe { kib: stripe });
        }
        // Counters are better evidence than a flag.
        if let Some((reads, ms)) = counted(snapshot, device) {
            return (ms >= SLOW_MS).then_some(Self::Counted { reads, ms });
        }
        let is_disk =
            device.kind == BlockDeviceKind::Disk && device.queue.is_rotational == Some(true);
        // USB sticks report that they rotate, too.
        let has_arm = is_disk && !device.is_removable && snapshot.virtual_because(device).is_none();
        has_arm.then_some(Self::Rotates)
    }

    fn what(self) -> String {
        match self {
            Self::Counted { ms, .. } => {
                format!("a read of this device takes {ms:.1} ms on average")
            }
            Self::Rotates => "this disk rotates".to_owned(),
            Self::Stripe { kib } => format!("a stripe of this array is {kib} KiB"),
        }
    }

    fn evidence(self, snapshot: &SystemSnapshot<'_>, device: &BlockDevice) -> String {
        match self {
            Self::Counted { reads, ms } => {
                let stat = device.folder.join("stat");
                format!("{}: {reads} reads, {ms:.1} ms each", stat.display())
            }
            Self::Rotates => attribute(snapshot, device, "queue/rotational"),
            Self::Stripe { .. } => attribute(snapshot, device, "queue/optimal_io_size"),
        }
    }
}

/// Returns the reads since the device appeared and their mean latency; None if they were larger
/// than a window, because then the transfer took the time.
fn counted(snapshot: &SystemSnapshot<'_>, device: &BlockDevice) -> Option<(u64, f64)> {
    let text = snapshot.sys.text(device.folder.join("stat"))?;
    let number = |at: usize| text.split_whitespace().nth(at)?.parse::<u64>().ok();
    let (reads, sectors, ms) = (number(0)?, number(2)?, number(3)?);
    let is_small = sectors / 2 <= reads.saturating_mul(CONSTANT_KIB);
    (reads >= READS_MIN && is_small).then(|| (reads, ms as f64 / reads as f64))
}

/// Fewer reads are just the partition table and a superblock.
const READS_MIN: u64 = 100;

/// Latency from which 128 KiB requests give at most 131 MB/s.
const SLOW_MS: f64 = 1.0;

/// Cost of a small window, from figure 1 of docs/guide/doctor.md.
const PRICE: &str = "a device of 4 ms a request, read in order: 30 MB/s with 128 KiB, 221 MB/s \
                     with 1024 KiB";
