//! What can be set on the device under a folder.
//!
//! In:    sysfs, the number of the device that the scratch file lies on, whether we may set.
//! Out:   [`Offer`].
//! Never: a setting that other devices share: that of the disk below a mapped device is offered
//!        only if it is the only one.

use crate::sysfs::{Device, Kind, Sys};

/// What can be set.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Offer {
    /// The whole device whose queue counts, as the kernel calls it.
    pub device: String,
    /// The scheduler in force; None if it has no queue of requests.
    pub scheduler: Option<String>,
    /// What it could be.
    pub choices: Vec<String>,
    /// How many requests are queued.
    pub nr_requests: Option<u64>,
    /// Whether `async_depth` is the queue's and not the scheduler's.
    pub is_async_depth_of_queue: bool,
    /// Whether `nr_requests` without a scheduler, which sets how many requests the device itself
    /// gets, is this device's own affair and known.
    pub has_own_tags: bool,
    /// Whether anything may be set.
    pub may_set: bool,
    /// What a reader of the report has to know.
    pub notes: Vec<String>,
}

impl Offer {
    /// What the device of this number offers. None if there is no such block device: tmpfs, btrfs
    /// and nfs lie on none, or on several.
    #[must_use]
    pub fn of(sys: &Sys, number: (u32, u32), may_set: bool) -> Option<Self> {
        let device = sys.device_numbered(number.0, number.1)?;
        let device = lowest(sys, device);
        let queue = &device.queue;
        let scheduler = queue.scheduler.as_ref();
        let mut notes = Vec::new();
        if !may_set {
            notes.push("only what is in force was measured: setting takes root".to_owned());
        } else if scheduler.is_none() {
            let many = if device.slaves.len() > 1 { "; the devices below it do" } else { "" };
            notes.push(format!("{} has no scheduler of its own{many}", device.name));
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

/// The device whose scheduler sees the requests: below partitions, and below mapped devices as long
/// as there is one only.
fn lowest(sys: &Sys, device: Device) -> Device {
    let mut device = sys.whole(&device).unwrap_or(device);
    for _ in 0..MOST_LAYERS {
        let [below] = &device.slaves[..] else { break };
        let Some(below) = sys.device(below) else { break };
        device = sys.whole(&below).unwrap_or(below);
    }
    device
}

/// Without a scheduler `nr_requests` is the number of tags, and tags belong to a host: all disks of
/// a SCSI host share them, all namespaces of an NVMe controller do. Loop and virtio disks have
/// their own.
fn has_own_tags(sys: &Sys, device: &Device) -> bool {
    if matches!(device.kind, Kind::Loop { .. }) || device.name.starts_with("vd") {
        return true;
    }
    let Some(controller) = controller_of(&device.name) else { return false };
    let devices = sys.devices();
    let mut namespaces = devices.iter().filter(|other| !is_part(other));
    namespaces.all(|it| it.name == device.name || controller_of(&it.name) != Some(controller))
}

/// `nvme0` of `nvme0n1`.
fn controller_of(name: &str) -> Option<&str> {
    let digits = name.strip_prefix("nvme")?;
    let (number, _) = digits.split_once('n')?;
    Some(&name[.."nvme".len() + number.len()])
}

fn is_part(device: &Device) -> bool {
    matches!(device.kind, Kind::Partition { .. })
}

/// LUKS on LVM on RAID is three.
const MOST_LAYERS: u32 = 8;
