//! One block device, as sysfs describes it. Missing values are None.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use foreread_core::units::ByteCount;

use super::{SystemRoot, names_in};

/// A block device.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockDevice {
    /// Kernel name: `sda`, `nvme0n1p2`.
    pub name: String,
    /// Major and minor number.
    pub number: (u32, u32),
    /// Folder, as an absolute path of its system: `/sys/block/sda/sda2`.
    pub folder: PathBuf,
    /// Capacity; 0 without a medium.
    pub size: ByteCount,
    /// Kind of device.
    pub kind: BlockDeviceKind,
    /// Devices below it.
    pub slaves: Vec<String>,
    /// Devices stacked on it.
    pub holders: Vec<String>,
    /// True if it is removable.
    pub is_removable: bool,
    /// True if it cannot be written.
    pub is_read_only: bool,
    /// Bytes by which its start misses a physical block, as computed by the kernel.
    pub alignment_offset: Option<u64>,
    /// Limits and settings; those of its disk for a partition.
    pub queue: Queue,
}

/// Kind of device.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum BlockDeviceKind {
    /// A whole device.
    Disk,
    /// A partition.
    Partition {
        /// Its disk.
        of: String,
        /// Start in sectors of 512 bytes, regardless of the device's block size.
        start_sector: u64,
    },
    /// A loop device.
    Loop {
        /// File bound to it, if any.
        backing: Option<String>,
    },
    /// A device-mapper target.
    Mapped {
        /// Name under /dev/mapper.
        name: String,
        /// UUID, which survives a change of its name.
        uuid: String,
    },
    /// An md array.
    Raid {
        /// RAID level: `raid5`, ..
        level: String,
    },
}

/// Limits reported by a device, and its kernel settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Queue {
    /// Largest window, in KiB.
    pub read_ahead_kib: Option<u64>,
    /// True if it reports that it rotates.
    pub is_rotational: Option<bool>,
    /// Unit of addressing.
    pub logical_block: Option<ByteCount>,
    /// Unit of writing.
    pub physical_block: Option<ByteCount>,
    /// Preferred minimum request.
    pub io_min: Option<ByteCount>,
    /// Optimal request size; 0 if not reported.
    pub io_opt: Option<ByteCount>,
    /// Largest request that the kernel sends, in KiB.
    pub max_sectors_kib: Option<u64>,
    /// Largest request that the device accepts, in KiB.
    pub max_hw_sectors_kib: Option<u64>,
    /// Limit of queued requests.
    pub nr_requests: Option<u64>,
    /// Limit of asynchronous requests, on kernels that have it in the queue rather than the
    /// scheduler.
    pub async_depth: Option<u64>,
    /// Queue depth of the device itself, if it reports one (SCSI, ATA).
    pub queue_depth: Option<u64>,
    /// Scheduler; None for devices without a request queue.
    pub scheduler: Option<SchedulerAttribute>,
}

/// A device's scheduler.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SchedulerAttribute {
    /// Scheduler in force.
    pub chosen: String,
    /// Available schedulers.
    pub choices: Vec<String>,
    /// Scheduler settings (`queue/iosched`).
    pub tunables: BTreeMap<String, String>,
}

impl BlockDevice {
    /// Reads the folder; the disk is given for a partition. None without a device number.
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

    /// Returns whether this path is its node or its device-mapper name.
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

    /// Returns its node: `/dev/sda2`. (sysfs writes a slash in a name as `!`.)
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
        // nvme and others without a request queue still have a bdi.
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
    /// Parses `none [mq-deadline] kyber`: the one in brackets is in force. A device without a
    /// request queue shows `none` without brackets.
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
