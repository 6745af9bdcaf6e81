//! One block device, as sysfs describes it.
//!
//! In:    its folder.
//! Out:   [`BlockDevice`].
//! Never: a value that sysfs does not have: None instead.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use foreread_core::units::ByteCount;

use super::{SystemRoot, names_in};

/// A block device.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockDevice {
    /// As the kernel calls it: `sda`, `nvme0n1p2`.
    pub name: String,
    /// Major and minor number.
    pub number: (u32, u32),
    /// Its folder, an absolute path of its system: `/sys/block/sda/sda2`.
    pub folder: PathBuf,
    /// Its capacity; 0 if it has no medium.
    pub size: ByteCount,
    /// What it is.
    pub kind: BlockDeviceKind,
    /// The devices that it lies on.
    pub slaves: Vec<String>,
    /// The devices that lie on it.
    pub holders: Vec<String>,
    /// Whether it is removable.
    pub is_removable: bool,
    /// Whether it cannot be written.
    pub is_read_only: bool,
    /// Bytes by which its start misses the physical block, as the kernel computed it.
    pub alignment_offset: Option<u64>,
    /// Its limits and settings; a partition has its disk's.
    pub queue: Queue,
}

/// What a device is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum BlockDeviceKind {
    /// A device of its own.
    Disk,
    /// A part of one.
    Partition {
        /// Its disk.
        of: String,
        /// Where it starts, in sectors of 512 bytes, whatever the device's blocks are.
        start_sector: u64,
    },
    /// A file as a device.
    Loop {
        /// The file, if one is bound.
        backing: Option<String>,
    },
    /// A device-mapper target.
    Mapped {
        /// Its name under /dev/mapper.
        name: String,
        /// What stays when its name changes.
        uuid: String,
    },
    /// An md array.
    Raid {
        /// `raid5`, ..
        level: String,
    },
}

/// The limits that a device states, and the settings that the kernel has for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Queue {
    /// The largest window, in KiB.
    pub read_ahead_kib: Option<u64>,
    /// Whether it says that it rotates.
    pub is_rotational: Option<bool>,
    /// Its unit of addressing.
    pub logical_block: Option<ByteCount>,
    /// Its unit of writing.
    pub physical_block: Option<ByteCount>,
    /// The smallest request that it likes.
    pub io_min: Option<ByteCount>,
    /// The request size that it likes best; 0 if it does not say.
    pub io_opt: Option<ByteCount>,
    /// The largest request that the kernel makes, in KiB.
    pub max_sectors_kib: Option<u64>,
    /// The largest that the device takes, in KiB.
    pub max_hw_sectors_kib: Option<u64>,
    /// How many requests are queued.
    pub nr_requests: Option<u64>,
    /// How many of them may be writes; newer kernels only, others have it in the scheduler.
    pub async_depth: Option<u64>,
    /// What the device itself queues at once, where it says so (SCSI, ATA).
    pub queue_depth: Option<u64>,
    /// The scheduler; None for devices that make no requests.
    pub scheduler: Option<SchedulerAttribute>,
}

/// A device's scheduler.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SchedulerAttribute {
    /// The one in force.
    pub chosen: String,
    /// All that it could be.
    pub choices: Vec<String>,
    /// Its settings (`queue/iosched`).
    pub tunables: BTreeMap<String, String>,
}

impl BlockDevice {
    /// Reads the folder; a partition's disk is given. None if it has no number: no device.
    pub(super) fn read(
        sys: &SystemRoot,
        name: &str,
        folder: &Path,
        disk: Option<&Self>,
    ) -> Option<Self> {
        let (major, minor) = sys
            .text(folder.join("dev"))?
            .split_once(':')
            .and_then(|pair| Some((pair.0.trim().parse().ok()?, pair.1.trim().parse().ok()?)))?;
        let number = |name: &str| sys.number(folder.join(name));
        let kind = match disk {
            Some(disk) => BlockDeviceKind::Partition {
                of: disk.name.clone(),
                start_sector: number("start").unwrap_or(0),
            },
            None => kind(sys, name, folder),
        };
        Some(Self {
            name: name.to_owned(),
            number: (major, minor),
            folder: folder.to_owned(),
            size: ByteCount(number("size").unwrap_or(0).saturating_mul(512)),
            kind,
            slaves: names_in(&sys.path(folder.join("slaves"))),
            holders: names_in(&sys.path(folder.join("holders"))),
            is_removable: number("removable") == Some(1),
            is_read_only: number("ro") == Some(1),
            alignment_offset: number("alignment_offset"),
            queue: disk.map_or_else(|| Queue::read(sys, folder), |disk| disk.queue.clone()),
        })
    }

    /// Whether this path is its node, or what the device mapper calls it.
    #[must_use]
    pub fn is_named(&self, path: &str) -> bool {
        let is_map = match &self.kind {
            BlockDeviceKind::Mapped { name, .. } => path.strip_prefix("/dev/mapper/") == Some(name),
            BlockDeviceKind::Disk
            | BlockDeviceKind::Partition { .. }
            | BlockDeviceKind::Loop { .. }
            | BlockDeviceKind::Raid { .. } => false,
        };
        is_map || self.node() == Path::new(path)
    }

    /// Its node: `/dev/sda2`. (sysfs writes a slash in a name as `!`.)
    #[must_use]
    pub fn node(&self) -> PathBuf {
        Path::new("/dev").join(self.name.replace('!', "/"))
    }
}

fn kind(sys: &SystemRoot, name: &str, folder: &Path) -> BlockDeviceKind {
    if let Some(mapped) = sys.text(folder.join("dm/name")) {
        let uuid = sys.text(folder.join("dm/uuid")).unwrap_or_default();
        return BlockDeviceKind::Mapped { name: mapped, uuid };
    }
    if let Some(level) = sys.text(folder.join("md/level")) {
        return BlockDeviceKind::Raid { level };
    }
    if name.strip_prefix("loop").is_some_and(|number| number.parse::<u32>().is_ok()) {
        return BlockDeviceKind::Loop { backing: sys.text(folder.join("loop/backing_file")) };
    }
    BlockDeviceKind::Disk
}

impl Queue {
    fn read(sys: &SystemRoot, folder: &Path) -> Self {
        let queue = folder.join("queue");
        let number = |name: &str| sys.number(queue.join(name));
        // nvme and others without a queue of requests still have a bdi.
        let window = number("read_ahead_kb");
        Self {
            read_ahead_kib: window.or_else(|| sys.number(folder.join("bdi/read_ahead_kb"))),
            is_rotational: number("rotational").map(|number| number != 0),
            logical_block: number("logical_block_size").map(ByteCount),
            physical_block: number("physical_block_size").map(ByteCount),
            io_min: number("minimum_io_size").map(ByteCount),
            io_opt: number("optimal_io_size").map(ByteCount),
            max_sectors_kib: number("max_sectors_kb"),
            max_hw_sectors_kib: number("max_hw_sectors_kb"),
            nr_requests: number("nr_requests"),
            async_depth: number("async_depth"),
            queue_depth: sys.number(folder.join("device/queue_depth")),
            scheduler: SchedulerAttribute::read(sys, &queue),
        }
    }
}

impl SchedulerAttribute {
    /// `none [mq-deadline] kyber`: the one in brackets is in force. A device that makes no requests
    /// says `none` without brackets.
    fn read(sys: &SystemRoot, queue: &Path) -> Option<Self> {
        let text = sys.text(queue.join("scheduler"))?;
        let bare = |word: &str| word.trim_matches(['[', ']']).to_owned();
        let chosen = text.split_whitespace().find(|word| word.starts_with('['))?;
        let iosched = queue.join("iosched");
        let tunable = |name: String| Some((name.clone(), sys.text(iosched.join(name))?));
        Some(Self {
            chosen: bare(chosen),
            choices: text.split_whitespace().map(bare).collect(),
            tunables: names_in(&sys.path(&iosched)).into_iter().filter_map(tunable).collect(),
        })
    }
}
