//! Checks the scheduler against the depth of the device queue below it.
//!
//! Flash gets no finding: the measured devices serve one request at a time. Loop devices and stacks
//! get none either, because the disk below decides.
//!
//! ```text
//!   reads --.                                    queue of the device: 128
//!            +--> mq-deadline: reads first --> [ w w w w w w w w w w w w ... r ]
//!   writes -'                                    they are in there already: first is last
//! ```

use super::snapshot::{DeviceUse, SystemSnapshot, attribute, node_of, set};
use super::{Confidence, Finding};
use crate::setting::DeviceSetting;
use crate::sysfs::{BlockDevice, BlockDeviceKind, SchedulerAttribute};

pub(super) fn check(snapshot: &SystemSnapshot<'_>, device: &BlockDevice) -> Option<Finding> {
    if device.kind != BlockDeviceKind::Disk || device.queue.is_rotational != Some(true) {
        return None;
    }
    let scheduler = device.queue.scheduler.as_ref()?;
    match scheduler.chosen.as_str() {
        "mq-deadline" | "deadline" => {
            let depth = depth_of(device, true)?;
            if depth >= DEEP {
                deep(snapshot, device, depth)
            } else {
                large_batch(snapshot, device, scheduler)
            }
        }
        "none" => unsorted(snapshot, device, scheduler),
        _ => None,
    }
}

/// Returns the number of requests that the device accepts at once. If the device does not report
/// it, the queue implies it: a scheduler gets twice as many, up to 256.
fn depth_of(device: &BlockDevice, has_scheduler: bool) -> Option<u64> {
    let requests = device.queue.nr_requests;
    let by_queue = requests.map(|requests| if has_scheduler { requests / 2 } else { requests });
    device.queue.queue_depth.or(by_queue)
}

/// Returns the limit on writes in the device. It is a scheduler tunable, or since Linux 7.0 an
/// attribute of the queue.
fn async_depth(snapshot: &SystemSnapshot<'_>, device: &BlockDevice) -> Option<(&'static str, u64)> {
    ["queue/iosched/async_depth", "queue/async_depth"].into_iter().find_map(|attribute| {
        Some((attribute, snapshot.sys.number(device.folder.join(attribute))?))
    })
}

fn deep(snapshot: &SystemSnapshot<'_>, device: &BlockDevice, depth: u64) -> Option<Finding> {
    let (name, limit) = async_depth(snapshot, device)?;
    // A virtual disk may serve many requests at once; the hardware below it is unknown.
    if limit < DEEP || snapshot.virtual_because(device).is_some() {
        return None;
    }
    let depth_file = match device.queue.queue_depth {
        Some(_) => "device/queue_depth",
        None => "queue/nr_requests",
    };
    let limited = DeviceSetting {
        device: device.name.clone(),
        attribute: name.to_owned(),
        value: LIMITED_DEPTH.to_string(),
    };
    let point = match snapshot.user(device) {
        DeviceUse::Mounted(point) => Some(point),
        DeviceUse::Partitioned => snapshot.partitions(&device.name).find_map(|part| {
            let mut mounts = snapshot.mounts_of(part);
            mounts.next().map(|mount| mount.point.clone())
        }),
        DeviceUse::Held(_) | DeviceUse::Swap | DeviceUse::NoneKnown => None,
    };
    let measure = point.map(|point| {
        let scratch = super::snapshot::quoted(&point);
        format!("foreread tune {} --scratch {scratch} --remember", node_of(device))
    });
    Some(Finding {
        device: device.name.clone(),
        check: "deep-queue-under-deadline",
        what: format!(
            "mq-deadline schedules for a device that accepts {depth} requests at once, and allows \
             {limit} writes in flight."
        ),
        why: "A flood of writes fills the device before a read arrives, and there the scheduler's \
             order no longer matters: a read waits for all of them, if the device serves few at a \
             time. async_depth limits the writes in flight."
            .to_owned(),
        evidence: vec![
            attribute(snapshot, device, "queue/scheduler"),
            attribute(snapshot, device, depth_file),
            attribute(snapshot, device, name),
            "20 small files read under a flood, device of 4 ms and one head, 128 deep: 6.89 s, \
             with async_depth 4 0.55 s"
                .to_owned(),
        ],
        mend: measure.into_iter().chain([set(&limited)]).collect(),
        confidence: Confidence::Cited,
    })
}

fn large_batch(
    snapshot: &SystemSnapshot<'_>,
    device: &BlockDevice,
    scheduler: &SchedulerAttribute,
) -> Option<Finding> {
    let batch: u64 = scheduler.tunables.get("fifo_batch")?.parse().ok()?;
    if batch <= USUAL_BATCH {
        return None;
    }
    let usual = DeviceSetting {
        device: device.name.clone(),
        attribute: FIFO_BATCH.to_owned(),
        value: USUAL_BATCH.to_string(),
    };
    Some(Finding {
        device: device.name.clone(),
        check: "fifo-batch-large",
        what: format!("fifo_batch is {batch}; the default of mq-deadline is {USUAL_BATCH}."),
        why: "That many writes are dispatched in a row before a late read.".to_owned(),
        evidence: vec![
            attribute(snapshot, device, FIFO_BATCH),
            "40 small files read under dd, device of 4 ms and one head, 4 deep: fifo_batch 64 \
             1.20 s (to 3.76), 16 0.79 s, 1 0.66 s"
                .to_owned(),
        ],
        mend: vec![set(&usual)],
        confidence: Confidence::Cited,
    })
}

/// Finds unsorted requests on a disk with a seek arm. A disk with a queue of 32 sorts them itself;
/// behind an old USB bridge it has no queue.
fn unsorted(
    snapshot: &SystemSnapshot<'_>,
    device: &BlockDevice,
    scheduler: &SchedulerAttribute,
) -> Option<Finding> {
    let is_there = scheduler.choices.iter().any(|choice| choice == "mq-deadline");
    let takes_one = device.queue.queue_depth == Some(1);
    if !is_there || !takes_one || snapshot.virtual_because(device).is_some() {
        return None;
    }
    let sorted = DeviceSetting {
        device: device.name.clone(),
        attribute: "queue/scheduler".to_owned(),
        value: "mq-deadline".to_owned(),
    };
    Some(Finding {
        device: device.name.clone(),
        check: "no-scheduler-on-rotating",
        what: "No scheduler, on a disk that rotates and takes one request at a time.".to_owned(),
        why:
            "Its requests are not sorted: the disk has only one at a time and cannot sort them, so \
              its head seeks for each."
                .to_owned(),
        evidence: vec![
            attribute(snapshot, device, "queue/scheduler"),
            attribute(snapshot, device, "queue/rotational"),
            attribute(snapshot, device, "device/queue_depth"),
        ],
        mend: vec![set(&sorted)],
        confidence: Confidence::Likely,
    })
}

/// Depth from which a device can hold a flood of writes: 128 was measured; a SATA disk has 32.
const DEEP: u64 = 64;

/// Recommended depth, with which reads under a flood took 0.55 s instead of 6.89
/// (docs/guide/doctor.md).
const LIMITED_DEPTH: u64 = 4;

/// Default of mq-deadline.
const USUAL_BATCH: u64 = 16;

const FIFO_BATCH: &str = "queue/iosched/fifo_batch";
