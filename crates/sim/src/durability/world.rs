//! The state of a run: one path, its disks and files, the commands and calls in flight.
//!
//! In:    a seed.
//! Out: its parts; operations, driver, effects and ending change them.
//! Never: a call of the path, except to open files and to tell the time.

use std::collections::BTreeMap;
use std::ops::Range;

use foreread_core::geometry::Geometry;
use foreread_core::path::{
    Config, DeviceId, Fault, FileId, IoPath, ReadId, StreamId, Tag, WriteId, WriteMode,
};
use foreread_core::prefetch::{Policy, Rules};
use foreread_core::sched::SchedulerKind;
use foreread_core::units::{ByteCount, Nanos, Pages};

use super::cached_disk::{CachedDisk, Stamp};
use super::history::{FlushPromise, History, SectorView};
use super::outcome::DurabilityOutcome;
use super::program::Sabotage;
use crate::rng::Rng;

pub(super) const SECTOR: u64 = 512;
/// Sectors of a page.
pub(super) const PAGE: usize = 8;

/// An open file: a device of its own, on a disk that it may share.
pub(super) struct HistoryFile {
    pub(super) id: FileId,
    pub(super) stream: StreamId,
    pub(super) disk: usize,
    /// First sector on its disk. The file has room to grow there.
    pub(super) base: usize,
    pub(super) history: History,
    /// Writes that do not begin and end at multiples of this have to be durable.
    pub(super) write_block: u64,
    /// True if the file system acknowledges durable writes that it has only cached, as FUSE does.
    pub(super) ignores_fua: bool,
}

/// A command that a device has been given.
pub(super) struct IssuedCommand {
    pub(super) what: CommandKind,
    pub(super) file: usize,
    /// Result at the device; None before the command took effect.
    pub(super) result: Option<Result<u64, i32>>,
    /// The write is done, and the flush is next.
    pub(super) is_written: bool,
}

impl IssuedCommand {
    pub(super) const fn new(file: usize, what: CommandKind) -> Self {
        Self { what, file, result: None, is_written: false }
    }
}

pub(super) enum CommandKind {
    Write { tag: Tag, at: usize, stamps: Vec<Stamp>, len: u64, fua: bool },
    Read { tag: Tag, at: usize, frames: Vec<usize>, len: u64 },
    Flush { id: WriteId },
    Zero { id: WriteId, sectors: Range<usize>, is_discard: bool },
    SetLen { id: WriteId, len: usize },
}

/// A write, a flush or a zero of a caller, until the path says that it is over.
pub(super) struct Call {
    pub(super) file: usize,
    pub(super) kind: CallKind,
}

pub(super) enum CallKind {
    Write {
        sectors: Range<usize>,
        stamps: WrittenStamps,
        mode: WriteMode,
        filled: Option<Vec<(usize, usize)>>,
        /// Whose piece it is.
        append: Option<WriteId>,
    },
    Flush {
        promise: FlushPromise,
    },
    ChangeLen {
        /// How long the file was before the driver changed that.
        before: Option<usize>,
        /// The append that has left sectors unwritten, which this takes back.
        cut_of: Option<WriteId>,
    },
    /// The change of length of an append.
    Grow {
        /// Offset of the first byte; None for the end of the file.
        at: Option<usize>,
        before: Option<usize>,
    },
    Zero {
        sectors: Range<usize>,
        is_discard: bool,
        /// What the device has zeroed it with.
        stamp: Option<Stamp>,
    },
}

/// A write that makes its file longer, until its caller hears the end or leaves.
pub(super) struct Append {
    pub(super) file: usize,
    /// The change of length that precedes the write.
    pub(super) id: WriteId,
    /// Offset of the next piece; for an append, None until the file has grown.
    pub(super) at: Option<usize>,
    /// Sectors that are not written yet.
    pub(super) left: usize,
    pub(super) mode: WriteMode,
    pub(super) stage: AppendStage,
}

#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum AppendStage {
    Growing,
    /// Between two pieces.
    Idle,
    Writing(WriteId),
}

/// What a write puts into its sectors.
pub(super) enum WrittenStamps {
    Same(Stamp),
    Each(Vec<Stamp>),
}

impl WrittenStamps {
    /// Returns the stamp of the sector with this number in the write.
    pub(super) fn at(&self, number: usize) -> Stamp {
        match self {
            Self::Same(stamp) => *stamp,
            Self::Each(stamps) => stamps[number],
        }
    }
}

/// The ends of calls, for a caller that asks for them.
#[derive(Default)]
pub(super) struct CallEnds {
    pub(super) writes: BTreeMap<WriteId, (ByteCount, Option<Fault>)>,
    pub(super) reads: BTreeMap<ReadId, (Vec<Stamp>, Option<Fault>)>,
}

pub(super) struct DurabilityWorld {
    pub(super) path: IoPath,
    pub(super) now: u64,
    pub(super) rng: Rng,
    pub(super) sabotage: Sabotage,
    pub(super) disks: Vec<CachedDisk>,
    pub(super) files: Vec<HistoryFile>,
    devices: BTreeMap<DeviceId, usize>,
    pub(super) memory: Vec<[Stamp; PAGE]>,
    pub(super) commands: Vec<IssuedCommand>,
    pub(super) calls: BTreeMap<WriteId, Call>,
    /// Writes that the driver was told to fill.
    pub(super) to_fill: Vec<WriteId>,
    pub(super) appends: Vec<Append>,
    pub(super) reads: BTreeMap<ReadId, (usize, usize, Vec<SectorView>)>,
    pub(super) next_stamp: Stamp,
    pub(super) ends: Option<CallEnds>,
    /// Number of times a disk dropped its cached sectors.
    pub(super) drops: u64,
    pub(super) tally: DurabilityOutcome,
}

impl DurabilityWorld {
    /// Creates a world with two files on one disk and one on another: larger than memory, with
    /// lengths that are not whole pages.
    pub(super) fn new(seed: u64, sabotage: Sabotage, rng: &mut Rng) -> Self {
        let mut world = Self::empty(seed, sabotage);
        let shape: [&[u64]; 2] = [&[200_000, 40_000 + rng.below(600)], &[1_500_000]];
        for lens in shape {
            let files: Vec<_> = lens.iter().map(|len| (*len, space_of(*len))).collect();
            let disk = CachedDisk::new(files.iter().map(|(_, space)| space).sum(), rng);
            world.add_disk(disk, &files, rng);
        }
        world
    }

    /// Creates a world without files.
    pub(super) fn empty(seed: u64, sabotage: Sabotage) -> Self {
        let memory = ByteCount(1 << 20);
        let (policy, max_window, rules) = (Policy::Linux6, Pages(8), Rules::default());
        let path = IoPath::new(Config { memory, policy, max_window, rules });
        let frames = path.frame_count() as usize;
        Self {
            path,
            now: 1,
            rng: Rng::named(seed, "world"),
            sabotage,
            disks: Vec::new(),
            files: Vec::new(),
            devices: BTreeMap::new(),
            memory: vec![[0; PAGE]; frames],
            commands: Vec::new(),
            calls: BTreeMap::new(),
            to_fill: Vec::new(),
            appends: Vec::new(),
            reads: BTreeMap::new(),
            next_stamp: 1 << 20,
            ends: None,
            drops: 0,
            tally: DurabilityOutcome::default(),
        }
    }

    /// Adds a disk with new files; each has a length in bytes and a largest number of sectors.
    pub(super) fn add_disk(&mut self, mut disk: CachedDisk, files: &[(u64, usize)], rng: &mut Rng) {
        disk.forgets_lengths = self.sabotage == Sabotage::NoLength;
        let number = self.disks.len();
        self.disks.push(disk);
        let mut base = 0;
        for &(len, space) in files {
            self.disks[number].set_file(base..base + space, sectors_of(len));
            self.open(number, base, (len, space), rng);
            base += space;
        }
    }

    fn open(&mut self, disk: usize, base: usize, (len, space): (u64, usize), rng: &mut Rng) {
        let write_block = ByteCount(
            [1, SECTOR, 4096][usize::try_from(rng.below(3)).expect("a number below a small bound")],
        );
        let geometry =
            Geometry { max_io: Pages(16), depth: 4, write_block, ..Geometry::new(ByteCount(0)) };
        let name = if rng.below(2) == 0 { "noop" } else { "deadline" };
        let scheduler = SchedulerKind::from_name(name).expect("both names are of schedulers");
        let device = self.path.add_device_on(Some(disk as u64), geometry, &scheduler);
        let id = self.path.open(device, ByteCount(len)).expect("the path has room for three files");
        let stream = self.path.stream(id);
        let stamps = (0..sectors_of(len)).map(|at| self.disks[disk].durable(base + at));
        let history = History::new(stamps, space);
        self.devices.insert(device, self.files.len());
        let (write_block, ignores_fua) = (write_block.0, rng.below(2) == 0);
        let file = HistoryFile { id, stream, disk, base, history, write_block, ignores_fua };
        self.files.push(file);
    }

    pub(super) fn tick(&mut self) -> Nanos {
        self.now += 1;
        Nanos(self.now)
    }

    pub(super) fn outcome(&self) -> DurabilityOutcome {
        let stats = self.path.stats();
        let (flush_failures, pages_rewritten) = (stats.flush_failures, stats.pages_rewritten);
        DurabilityOutcome { flush_failures, pages_rewritten, ..self.tally }
    }

    /// Advances the time and calls the path's timeout.
    pub(super) fn pass(&mut self, ns: u64) {
        self.now += ns;
        let now = self.tick();
        self.path.timeout(now);
    }

    pub(super) fn file_of(&self, device: DeviceId) -> usize {
        self.devices[&device]
    }
}

/// Maps a random number to an index below `of`.
pub(super) fn index(random: u64, of: usize) -> usize {
    usize::try_from(random % of as u64).expect("a number below a length is an index")
}

pub(super) fn sectors_of(len: u64) -> usize {
    usize::try_from(len.div_ceil(SECTOR)).expect("the files of the model are small")
}

/// Returns the largest number of sectors of a file with this initial length: it may grow.
fn space_of(len: u64) -> usize {
    sectors_of(len) + 300
}
