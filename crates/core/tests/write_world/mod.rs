//! The world around a path that writes: disks, drivers that copy and act, readers, a power switch.
//! It checks for forbidden behaviour, but does not predict decisions.
//!
//! Checked at all times: each hit and each read has bytes that were the page's while it ran; old
//! bytes to be kept are the newest; a page is in one device write at a time, and in none while a
//! zero acts on it; a pinned page does not change; dirty pages stay within their limit.

#![allow(clippy::cast_possible_truncation, reason = "the world is small")]

mod check;
mod disk;
mod drive;
mod history;
mod lengths;

use std::collections::{BTreeMap, BTreeSet};

pub(crate) use crate::random::Random;
pub(crate) use disk::{Disk, SECTOR};
use foreread_core::geometry::Geometry;
use foreread_core::path::{
    Config, DeviceId, FileId, IoPath, ReadId, StreamId, Tag, WriteId, WriteMode,
};
use foreread_core::prefetch::{Policy, Rules};
use foreread_core::replay::LogStep;
use foreread_core::sched::{self, SchedulerKind};
use foreread_core::table::{Frame, Generation};
use foreread_core::units::{ByteCount, Nanos, Pages, Sector};
use history::History;

/// A step. Numbers are taken modulo the number of candidates.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Write {
        file: usize,
        pos: u64,
        len: u64,
        mode: WriteMode,
    },
    /// A driver carries out its step: it copies, or acts.
    Drive {
        which: usize,
        fails: bool,
    },
    Read {
        file: usize,
        pos: u64,
        len: u64,
    },
    Release {
        which: usize,
    },
    Complete {
        which: usize,
        answer: Answer,
    },
    Flush {
        file: usize,
        back: bool,
    },
    Zero {
        file: usize,
        start: u64,
        pages: u64,
    },
    /// The length of a file changes.
    ChangeLen {
        file: usize,
        how: u64,
        len: u64,
    },
    /// The caller of a change of length leaves.
    Cancel {
        which: usize,
    },
    Invalidate {
        file: usize,
        start: u64,
        pages: u64,
    },
    Reopen {
        file: usize,
    },
    Set {
        name: &'static str,
        value: u64,
    },
    Policy(Policy),
    Scheduler {
        device: usize,
        name: &'static str,
    },
    Pin {
        file: usize,
        page: u64,
    },
    Unpin {
        which: usize,
    },
    /// A page of the disk goes bad, or all are good again.
    Break {
        file: usize,
        page: u64,
    },
    Repair,
    Wait {
        ms: u64,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    Good,
    /// This part, in 64ths.
    Short(u64),
    Failed,
}

/// A fault of a driver or a disk, to prove that it is detected.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Sabotage {
    Nothing,
    /// A flush is acknowledged without flushing the disk.
    NoFlush,
    /// The disk treats a FUA write like any other.
    NoFua,
    /// A driver overwrites a page's old bytes in place.
    InPlace,
}

pub(crate) struct OpenFile {
    id: FileId,
    stream: StreamId,
    device: usize,
    /// Offset on its disk, in bytes.
    start: usize,
    /// Space for it there.
    room: usize,
    history: History,
}

pub(crate) struct Device {
    id: DeviceId,
    pub(crate) disk: Disk,
}

struct Io {
    device: usize,
    op: sched::Op,
    fua: bool,
    offset: usize,
    len: usize,
    frames: Vec<Frame>,
    /// The bytes when it began; for a read, those of the file.
    early: Vec<u8>,
}

struct Reading {
    file: usize,
    id: FileId,
    pos: usize,
    len: usize,
    since: u64,
    /// True if its device returned fewer bytes than it had: the read may fail then.
    was_short: bool,
}

struct Writing {
    file: usize,
    id: FileId,
    what: What,
    /// The step that it was told and has not done.
    told: Option<Told>,
}

enum What {
    Write { pos: usize, data: Vec<u8>, mode: WriteMode, promise: Option<Vec<usize>> },
    Zero { pages: std::ops::Range<u64> },
    ChangeLen,
    Flush { back: bool, snapshot: Vec<usize> },
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Told {
    Fill(u64),
    Act,
    SetLen(usize),
}

struct Pin {
    frame: Frame,
    generation: Generation,
    bytes: Vec<u8>,
}

pub(crate) struct World {
    pub(crate) path: IoPath,
    now: u64,
    pub(crate) random: Random,
    sabotage: Sabotage,
    geometry: Geometry,
    pub(crate) devices: Vec<Device>,
    pub(crate) files: Vec<OpenFile>,
    memory: Vec<Vec<u8>>,
    in_flight: BTreeMap<Tag, Io>,
    reads: BTreeMap<ReadId, Reading>,
    ready: Vec<ReadId>,
    writes: BTreeMap<WriteId, Writing>,
    pins: Vec<Pin>,
    unpinned: Vec<Frame>,
    bad: BTreeSet<(usize, usize)>,
    faults: usize,
    /// True if the limit was set below the number of dirty pages.
    has_lowered_limit: bool,
    pub(crate) log: Vec<LogStep>,
}

/// Space for a file to grow.
const GROWTH: usize = 150_000;

/// Returns the space of a file on its disk: its last page may be read as a whole.
fn space(room: usize) -> usize {
    room.next_multiple_of(4096) + 4096
}

/// The files of each device, by their length.
pub(crate) type Lens<'a> = &'a [&'a [usize]];

impl World {
    pub(crate) fn new(seed: u64, scheduler: &SchedulerKind, lens: Lens<'_>) -> Self {
        let (policy, max_window, rules) = (Policy::Linux6, Pages(16), Rules::default());
        let memory = ByteCount(1 << 20);
        let mut path = IoPath::new(Config { memory, policy, max_window, rules });
        path.record(usize::MAX);
        let frames = path.frame_count() as usize;
        let geometry = Geometry { max_io: Pages(16), depth: 4, ..Geometry::new(ByteCount(0)) };
        let mut world = Self {
            path,
            now: 1,
            random: Random(seed),
            sabotage: Sabotage::Nothing,
            geometry,
            devices: Vec::new(),
            files: Vec::new(),
            memory: vec![vec![0xee; 4096]; frames],
            in_flight: BTreeMap::new(),
            reads: BTreeMap::new(),
            ready: Vec::new(),
            writes: BTreeMap::new(),
            pins: Vec::new(),
            unpinned: Vec::new(),
            bad: BTreeSet::new(),
            faults: 0,
            has_lowered_limit: false,
            log: Vec::new(),
        };
        for (device, lens) in lens.iter().enumerate() {
            let id = world.path.add_device(geometry, scheduler);
            // Behind each file there is room to grow, and a gap.
            let room = |len: usize| len + GROWTH;
            let disk = Disk::new(lens.iter().map(|&len| space(room(len))).sum());
            world.devices.push(Device { id, disk });
            let mut start = 0;
            for &len in *lens {
                let file = world.open(device, start, len, room(len));
                world.files.push(file);
                start += space(room(len));
            }
        }
        world
    }

    pub(crate) fn sabotaged(mut self, sabotage: Sabotage) -> Self {
        self.sabotage = sabotage;
        self
    }

    fn open(&mut self, device: usize, start: usize, len: usize, room: usize) -> OpenFile {
        let sector = Sector((start / SECTOR) as u64);
        let id = self.path.open_at(self.devices[device].id, sector, ByteCount(len as u64)).unwrap();
        let stream = self.path.stream(id);
        let content = self.devices[device].disk.read(start, len);
        let history = History::new(self.now, &content, room);
        OpenFile { id, stream, device, start, room, history }
    }

    fn tick(&mut self) -> Nanos {
        self.now += 1;
        Nanos(self.now)
    }

    pub(crate) fn apply(&mut self, op: &Op) {
        self.act(op);
        self.pump();
        self.check();
    }

    fn act(&mut self, op: &Op) {
        let files = self.files.len();
        match *op {
            Op::Write { file, pos, len, mode } => self.write(file % files, pos, len, mode),
            Op::Drive { which, fails } => {
                let told: Vec<_> = self
                    .writes
                    .iter()
                    .filter(|(_, it)| it.told.is_some())
                    .map(|it| *it.0)
                    .collect();
                if !told.is_empty() {
                    self.drive(told[which % told.len()], fails);
                }
            }
            Op::Read { file, pos, len } => self.read(file % files, pos, len),
            Op::Release { which } => {
                if !self.ready.is_empty() {
                    self.release(which % self.ready.len());
                }
            }
            Op::Complete { which, answer } => {
                if let Some(tag) = self.in_flight.keys().nth(which % self.in_flight.len().max(1)) {
                    self.complete(*tag, answer);
                }
            }
            Op::Flush { file, back } => self.flush(file % files, back),
            Op::Zero { file, start, pages } => self.zero(file % files, start, pages),
            Op::ChangeLen { file, how, len } => self.change_len(file % files, how, len),
            Op::Cancel { which } => self.cancel(which),
            Op::Invalidate { file, start, pages } => self.invalidate(file % files, start, pages),
            Op::Reopen { file } => self.reopen(file % files),
            Op::Set { name, value } => {
                self.path.set(name, &value.to_string()).unwrap();
                self.has_lowered_limit |= name == "dirty_limit";
                let now = self.tick();
                self.path.timeout(now);
            }
            Op::Policy(policy) => self.path.set("policy", policy.name()).unwrap(),
            Op::Scheduler { device, name } => {
                let device = self.devices[device % self.devices.len()].id;
                self.path.set_scheduler(device, "scheduler", name).unwrap();
                if name == "deadline" {
                    // Held-back requests would look as if they waited for nothing.
                    self.path.set_scheduler(device, "read_hold", "0").unwrap();
                }
            }
            Op::Pin { file, page } => self.pin(file % files, page),
            Op::Unpin { which } => {
                if !self.pins.is_empty() {
                    self.unpin(which % self.pins.len());
                }
            }
            Op::Break { file, page } => {
                let OpenFile { device, start, history, .. } = &self.files[file % files];
                let page = page as usize % history.len.div_ceil(4096).max(1);
                self.bad.insert((*device, start + page * 4096));
            }
            Op::Repair => self.bad.clear(),
            Op::Wait { ms } => self.pass(ms * 1_000_000),
        }
    }

    /// Lets time pass; the driver acts when it is told to.
    fn pass(&mut self, ns: u64) {
        self.now += ns;
        let now = self.tick();
        if self.path.poll_timeout().is_some_and(|at| at <= now) {
            self.path.timeout(now);
            let next = self.path.poll_timeout();
            assert!(next.is_none_or(|at| at > now), "a time-out that is not heeded: {next:?}");
        }
    }
}
