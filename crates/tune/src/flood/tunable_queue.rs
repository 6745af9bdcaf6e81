//! The tunable settings of the device under a folder.
//!
//! Settings shared with other devices are excluded. The disk below a mapped device is offered only
//! if it is the only one.

use crate::sysfs::{BlockDevice, BlockDeviceKind, SystemRoot};

/// Tunable settings.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TunableQueue {
    /// Kernel name of the whole device whose queue is tuned.
    pub device: String,
    /// Scheduler in force; None if the device has no request queue.
    pub scheduler: Option<String>,
    /// Available schedulers.
    pub choices: Vec<String>,
    /// Limit of queued requests.
    pub nr_requests: Option<u64>,
    /// True if `async_depth` belongs to the queue, not to the scheduler.
    pub is_async_depth_of_queue: bool,
    /// True if `nr_requests` without a scheduler, which sets the number of device tags, is known
    /// and affects this device only.
    pub has_own_tags: bool,
    /// True if settings may be changed.
    pub may_set: bool,
    /// Notes for readers of the report.
    pub notes: Vec<String>,
}

impl TunableQueue {
    /// Returns the settings of the device with this number. None if there is no such block device:
    /// tmpfs, btrfs and nfs use none, or several.
    #[must_use]
    pub fn of(sys: &SystemRoot, number: (u32, u32), may_set: bool) -> Option<Self> {
        let device = sys.device_numbered(number.0, number.1)?;
        let device = lowest(sys, device);
        let queue = &device.queue;
        let scheduler = queue.scheduler.as_ref();
        let mut notes = Vec::new();
        if !may_set {
            notes.push(
                "only the current settings were measured: changing them requires root".to_owned(),
            );
        } else if scheduler.is_none() {
            let many = if device.slaves.len() > 1 { "; the devices below it do" } else { "" };
            notes.push(format!("{} has no scheduler{many}", device.name));
        }
        let chosen = scheduler.map(|scheduler| scheduler.chosen.clone());
        let is_bare = chosen.as_deref() == Some("none");
        Some(Self {
            has_own_tags: is_bare && has_own_tags(sys, &device),
            scheduler: chosen,
            choices: scheduler.map(|scheduler| scheduler.choices.clone()).unwrap_or_default(),
            is_async_depth_of_queue: queue.async_depth.is_some(),
            nr_requests: queue.nr_requests,
            may_set: may_set && scheduler.is_some(),
            notes,
            device: device.name,
        })
    }
}

/// Returns the device whose scheduler sees the requests: below partitions, and below mapped devices
/// with only one device each.
fn lowest(sys: &SystemRoot, device: BlockDevice) -> BlockDevice {
    let mut device = sys.whole(&device).unwrap_or(device);
    for _ in 0..MOST_LAYERS {
        let [below] = &device.slaves[..] else { break };
        let Some(below) = sys.device(below) else { break };
        device = sys.whole(&below).unwrap_or(below);
    }
    device
}

/// Returns whether the device has its own tags. Without a scheduler `nr_requests` is the number of
/// tags, and tags belong to a host: all disks of a SCSI host and all namespaces of an NVMe
/// controller share them. Loop and virtio disks have their own.
fn has_own_tags(sys: &SystemRoot, device: &BlockDevice) -> bool {
    if matches!(device.kind, BlockDeviceKind::Loop { .. }) || device.name.starts_with("vd") {
        return true;
    }
    let Some(controller) = controller_of(&device.name) else { return false };
    let devices = sys.devices();
    let mut namespaces = devices.iter().filter(|other| !is_part(other));
    namespaces.all(|it| it.name == device.name || controller_of(&it.name) != Some(controller))
}

/// Returns the controller: `nvme0` for `nvme0n1`.
fn controller_of(name: &str) -> Option<&str> {
    let digits = name.strip_prefix("nvme")?;
    let (number, _) = digits.split_once('n')?;
    Some(&name[.."nvme".len() + number.len()])
}

fn is_part(device: &BlockDevice) -> bool {
    matches!(device.kind, BlockDeviceKind::Partition { .. })
}

/// LUKS on LVM on RAID has three layers.
const MOST_LAYERS: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::fixture;

    /// A system with these files below its block devices.
    fn system(files: &[(&str, &str)]) -> (tempfile::TempDir, SystemRoot) {
        let below = files.iter().map(|(path, text)| (format!("/sys/block/{path}"), *text));
        fixture::system(&below.collect::<Vec<_>>())
    }

    const DISK: &str = "none [mq-deadline] kyber\n";

    #[test]
    fn a_partition_has_its_disk_and_a_volume_the_only_disk_below_it() {
        let (_root, sys) = system(&[
            ("sda/dev", "8:0"),
            ("sda/queue/scheduler", DISK),
            ("sda/queue/nr_requests", "64"),
            ("sda/sda2/dev", "8:2"),
            ("sda/sda2/partition", "2"),
            ("dm-0/dev", "253:0"),
            ("dm-0/dm/name", "vg-root"),
            ("dm-0/queue/scheduler", "none"),
            ("dm-0/slaves/dm-1/dev", "253:1"),
            ("dm-1/dev", "253:1"),
            ("dm-1/dm/name", "luks"),
            ("dm-1/slaves/sda2/dev", "8:2"),
        ]);
        for number in [(8, 2), (253, 0)] {
            let offer = TunableQueue::of(&sys, number, true).expect("a device");
            assert_eq!((offer.device.as_str(), offer.may_set), ("sda", true));
            assert_eq!(offer.choices, ["none", "mq-deadline", "kyber"]);
            assert_eq!(offer.nr_requests, Some(64));
            assert!(!offer.has_own_tags, "its host's other disks share them");
            assert!(offer.notes.is_empty());
        }
        assert_eq!(TunableQueue::of(&sys, (0, 42), true), None, "tmpfs lies on no device");
    }

    #[test]
    fn a_volume_over_two_disks_has_nothing_to_set() {
        let (_root, sys) = system(&[
            ("dm-0/dev", "253:0"),
            ("dm-0/dm/name", "striped"),
            ("dm-0/slaves/sda/dev", "8:0"),
            ("dm-0/slaves/sdb/dev", "8:16"),
        ]);
        let offer = TunableQueue::of(&sys, (253, 0), true).expect("a device");
        assert_eq!((offer.device.as_str(), offer.may_set), ("dm-0", false));
        assert_eq!(offer.notes, ["dm-0 has no scheduler; the devices below it do"]);
        assert_eq!(crate::flood::trials(&offer).len(), 1);
    }

    #[test]
    fn tags_are_tried_only_where_they_are_its_own_and_known() {
        let own = |files: &[(&str, &str)], number| {
            let (_root, sys) = system(files);
            TunableQueue::of(&sys, number, true).expect("a device").has_own_tags
        };
        let nvme = ("nvme0n1/dev", "259:0");
        let bare = ("nvme0n1/queue/scheduler", "[none] mq-deadline");
        assert!(own(&[nvme, bare, ("nvme1n1/dev", "259:1")], (259, 0)));
        assert!(!own(&[nvme, bare, ("nvme0n2/dev", "259:1")], (259, 0)), "two namespaces");
        assert!(own(&[("loop0/dev", "7:0"), ("loop0/queue/scheduler", "[none]")], (7, 0)));
        let hidden = [("loop0/dev", "7:0"), ("loop0/queue/scheduler", DISK)];
        assert!(!own(&hidden, (7, 0)), "a scheduler hides how many there are");
        assert!(!own(&[("sda/dev", "8:0"), ("sda/queue/scheduler", "[none]")], (8, 0)));
    }

    #[test]
    fn without_the_right_to_set_it_says_so() {
        let (_root, sys) = system(&[("sda/dev", "8:0"), ("sda/queue/scheduler", DISK)]);
        let offer = TunableQueue::of(&sys, (8, 0), false).expect("a device");
        assert!(!offer.may_set);
        assert_eq!(
            offer.notes,
            ["only the current settings were measured: changing them requires root"]
        );
    }
}
