//! The world around a path: devices, drivers and readers that do one step at a time.
//!
//! In:    one operation after the other.
//! Out:   stamps moved between frames and devices as the path says.
//! Never: two things in one step that a real driver does at two moments.

use std::collections::BTreeMap;
use std::ops::Range;

use foreread_core::geometry::Geometry;
use foreread_core::path::{
    Config, DeviceId, FileId, IoPath, ReadId, StreamId, Tag, WriteId, WriteMode,
};
use foreread_core::prefetch::{Policy, Rules};
use foreread_core::sched::{Choice, Submitter};
use foreread_core::units::{ByteCount, Nanos, PageIndex, Pages};

use super::DurabilityOutcome;
use super::device::{CachedDisk, Stamp};
use super::history::{History, SectorView};
use super::program::{EIO, Effect, ProgramOp, Sabotage};
use crate::rng::Rng;

pub(super) const SECTOR: u64 = 512;
/// Sectors of a page.
pub(super) const PAGE: usize = 8;

/// An open file: a device of its own, on a disk that it may share.
pub(super) struct HistoryFile {
    pub(super) id: FileId,
    stream: StreamId,
    pub(super) disk: usize,
    /// Where it begins on its disk, in sectors.
    pub(super) base: usize,
    pub(super) history: History,
    /// Writes that do not begin and end at multiples of this have to be durable.
    pub(super) write_block: u64,
}

/// A command that a device has been given.
pub(super) struct IssuedCommand {
    pub(super) what: CommandKind,
    pub(super) file: usize,
    /// What it came to at the device; None before it took effect.
    pub(super) result: Option<Result<u64, i32>>,
}

pub(super) enum CommandKind {
    Write { tag: Tag, at: usize, stamps: Vec<Stamp>, len: u64, fua: bool },
    Read { tag: Tag, at: usize, frames: Vec<usize>, len: u64 },
    Flush { id: WriteId },
    Zero { id: WriteId, sectors: Range<usize>, is_discard: bool },
}

/// A write, a flush or a zero of a caller, until the path says that it is over.
pub(super) struct Call {
    pub(super) file: usize,
    pub(super) kind: CallKind,
}

pub(super) enum CallKind {
    Write {
        sectors: Range<usize>,
        stamp: Stamp,
        mode: WriteMode,
        filled: Option<Vec<(usize, usize)>>,
    },
    Flush {
        promise: Vec<usize>,
    },
    Zero {
        sectors: Range<usize>,
        is_discard: bool,
        /// What the device has zeroed it with.
        stamp: Option<Stamp>,
    },
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
    pub(super) reads: BTreeMap<ReadId, (usize, usize, Vec<SectorView>)>,
    pub(super) next_stamp: Stamp,
    pub(super) tally: DurabilityOutcome,
}

impl DurabilityWorld {
    pub(super) fn new(seed: u64, sabotage: Sabotage, rng: &mut Rng) -> Self {
        let memory = ByteCount(1 << 20);
        let (policy, max_window, rules) = (Policy::Linux6, Pages(8), Rules::default());
        let path = IoPath::new(Config { memory, policy, max_window, rules });
        let frames = path.frame_count() as usize;
        let mut world = Self {
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
            reads: BTreeMap::new(),
            next_stamp: 1 << 20,
            tally: DurabilityOutcome::default(),
        };
        // Two files on one disk, one on a disk of its own: larger than memory, and not whole pages.
        let shape: [&[u64]; 2] = [&[200_000, 40_000 + rng.below(600)], &[1_500_000]];
        for (number, lens) in shape.iter().enumerate() {
            let sectors: usize = lens.iter().map(|len| sectors_of(*len)).sum();
            world.disks.push(CachedDisk::new(sectors, rng));
            let mut base = 0;
            for &len in *lens {
                world.open(number, base, len, rng);
                base += sectors_of(len);
            }
        }
        world
    }

    fn open(&mut self, disk: usize, base: usize, len: u64, rng: &mut Rng) {
        let write_block =
            ByteCount([1, SECTOR, 4096][usize::try_from(rng.below(3)).expect("a few")]);
        let geometry =
            Geometry { max_io: Pages(16), depth: 4, write_block, ..Geometry::new(ByteCount(0)) };
        let name = if rng.below(2) == 0 { "noop" } else { "deadline" };
        let scheduler = Choice::from_name(name).expect("there is one");
        let device = self.path.add_device_on(Some(disk as u64), geometry, &scheduler);
        let id = self.path.open(device, ByteCount(len)).expect("three files");
        let stream = self.path.stream(id);
        let stamps = (0..sectors_of(len)).map(|at| self.disks[disk].durable(base + at));
        let history = History::new(stamps);
        self.devices.insert(device, self.files.len());
        let write_block = write_block.0;
        self.files.push(HistoryFile { id, stream, disk, base, history, write_block });
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

    pub(super) fn apply(&mut self, op: &ProgramOp) -> Result<(), String> {
        match *op {
            ProgramOp::Write { file, sector, sectors, mode } => {
                self.write(file, sector, sectors, mode)
            }
            ProgramOp::Read { file, sector, sectors } => self.read(file, sector, sectors)?,
            ProgramOp::Flush { file } => self.flush(index(file, self.files.len())),
            ProgramOp::Zero { file, page, pages, is_discard } => {
                self.zero(file, page, pages, is_discard)
            }
            ProgramOp::Fill { which } => {
                if !self.to_fill.is_empty() {
                    let id = self.to_fill.swap_remove(index(which, self.to_fill.len()));
                    self.fill(id);
                }
            }
            ProgramOp::Effect { which, how } => {
                if let Some(at) = self.pick(which, |command| command.result.is_none()) {
                    self.take_effect(at, how);
                }
            }
            ProgramOp::Report { which } => {
                if let Some(at) = self.pick(which, |command| command.result.is_some()) {
                    self.report(at);
                }
            }
            ProgramOp::Skip { which } => self.skip(which),
            ProgramOp::Destage => {
                let Self { disks, rng, .. } = self;
                disks.iter_mut().for_each(|disk| disk.destage(rng));
            }
            ProgramOp::Invalidate { file } => {
                let file = self.files[index(file, self.files.len())].id;
                let now = self.tick();
                self.path.invalidate(now, file, PageIndex(0)..PageIndex(1 << 20));
            }
            ProgramOp::Refuse { requests, errno } => self.refuse(requests, errno)?,
            ProgramOp::Scan => self.scan()?,
            ProgramOp::AcceptLost { file } => self.accept_lost(index(file, self.files.len())),
            ProgramOp::Set { name, value } => {
                self.path.set(name, &value.to_string()).expect("a setting with its value");
                self.pass(0);
            }
            ProgramOp::Wait { ms } => self.pass(ms * 1_000_000),
        }
        self.pump()
    }

    fn write(&mut self, file: u64, sector: u64, sectors: u64, mode: WriteMode) {
        let file = index(file, self.files.len());
        let HistoryFile { id, ref history, .. } = self.files[file];
        let first = index(sector, history.len());
        let stamp = self.next_stamp;
        self.next_stamp += 1;
        let now = self.tick();
        let (pos, len) = (ByteCount(first as u64 * SECTOR), ByteCount(sectors * SECTOR));
        let write = self.path.write(now, id, pos, len, mode, Submitter::default());
        let kind = CallKind::Write { sectors: first..first, stamp, mode, filled: None };
        self.calls.insert(write, Call { file, kind });
    }

    pub(super) fn flush(&mut self, file: usize) {
        let promise = self.files[file].history.snapshot();
        let now = self.tick();
        let id = self.path.flush(now, self.files[file].id);
        self.calls.insert(id, Call { file, kind: CallKind::Flush { promise } });
    }

    fn zero(&mut self, file: u64, page: u64, pages: u64, is_discard: bool) {
        let file = index(file, self.files.len());
        let end = self.files[file].history.len();
        let first = index(page, end.div_ceil(PAGE));
        let range = PageIndex(first as u64)..PageIndex(first as u64 + pages);
        let after = (range.end.0 as usize * PAGE).min(end);
        let (now, id) = (self.tick(), self.files[file].id);
        let id = if is_discard {
            self.path.discard(now, id, range)
        } else {
            self.path.zero(now, id, range)
        };
        let kind = CallKind::Zero { sectors: first * PAGE..after, is_discard, stamp: None };
        self.calls.insert(id, Call { file, kind });
    }

    /// The driver copies: from here on readers see the new bytes.
    pub(super) fn fill(&mut self, id: WriteId) {
        let Call { file, kind } = self.calls.get_mut(&id).expect("it is not over");
        let CallKind::Write { sectors, stamp, filled, .. } = kind else {
            panic!("only a write is filled")
        };
        let (file, sectors, stamp) = (*file, sectors.clone(), *stamp);
        for fill in self.path.fills(id).to_vec() {
            let mut page = fill.old.map_or([0; PAGE], |old| self.memory[old.0 as usize]);
            for (at, word) in (fill.page.0 as usize * PAGE..).zip(&mut page) {
                if sectors.contains(&at) {
                    *word = stamp;
                }
            }
            self.memory[fill.new.0 as usize] = page;
        }
        let history = &mut self.files[file].history;
        sectors.clone().for_each(|at| history.write(at, stamp));
        let versions = history.snapshot();
        *filled = Some(sectors.map(|at| (at, versions[at])).collect());
        let now = self.tick();
        self.path.filled(now, id);
    }

    /// What is cached is used as it is, the rest goes through the path.
    fn read(&mut self, file: u64, sector: u64, sectors: u64) -> Result<(), String> {
        let file = index(file, self.files.len());
        let HistoryFile { id, stream, ref history, .. } = self.files[file];
        let first = index(sector, history.len());
        let end = (first + index(sectors, history.len())).min(history.len());
        let table = self.path.table();
        for at in first..end {
            let found = table.look_up(IoPath::slot(id), PageIndex((at / PAGE) as u64));
            let Some(found) = found.filter(|found| found.entry().is_up_to_date()) else {
                let view = self.files[file].history.view();
                let (pos, len) =
                    (ByteCount(at as u64 * SECTOR), ByteCount((end - at) as u64 * SECTOR));
                let now = self.tick();
                let read = self.path.read(now, stream, pos, len, None);
                self.reads.insert(read, (file, at, view));
                return Ok(());
            };
            let stamp = self.memory[found.entry().frame().0 as usize][at % PAGE];
            let history = &self.files[file].history;
            history.check_read(at, stamp, history.view_of(at))?;
        }
        Ok(())
    }

    /// A command takes effect at its device.
    pub(super) fn take_effect(&mut self, at: usize, how: Effect) {
        let Self { commands, calls, disks, files, memory, rng, sabotage, next_stamp, .. } = self;
        let IssuedCommand { what, file, result } = &mut commands[at];
        let HistoryFile { disk, base, ref mut history, .. } = files[*file];
        let (disk, len_of_file) = (&mut disks[disk], history.len());
        let mut dropped = Vec::new();
        *result = Some(match what {
            CommandKind::Write { at, stamps, len, fua, .. } => {
                let part = |part: u64| *len * part / 64 / SECTOR * SECTOR;
                let (done, mut result) = match how {
                    Effect::Short(of) => (part(of), Ok(part(of))),
                    Effect::Error(of) => (part(of), Err(EIO)),
                    Effect::FlushError if *fua => (*len, Err(EIO)),
                    Effect::Good | Effect::FlushError => (*len, Ok(*len)),
                };
                let is_good = result == Ok(*len);
                let is_durable = *fua && is_good && *sabotage != Sabotage::NoFua;
                for (at, stamp) in (*at..).zip(stamps.iter()).take(done.div_ceil(SECTOR) as usize) {
                    if is_durable {
                        disk.write_durably(base + at, *stamp);
                    } else {
                        disk.write(base + at, *stamp);
                    }
                    history.landed(at, *stamp);
                }
                if *fua && disk.fua_flushes && is_good {
                    disk.flush(base..base + len_of_file);
                }
                if *fua && how == Effect::FlushError {
                    dropped = disk.fail_flush(rng);
                    if *sabotage == Sabotage::RepairedFua {
                        (*at..).zip(stamps.iter()).for_each(|(at, it)| disk.write(base + at, *it));
                        disk.flush(base..base + len_of_file);
                        result = Ok(*len);
                    }
                }
                result
            }
            CommandKind::Read { at, frames, len, .. } => {
                let last = (*at + len.div_ceil(SECTOR) as usize).min(len_of_file);
                for sector in *at..last {
                    let frame = frames[(sector - *at) / PAGE];
                    memory[frame][sector % PAGE] = disk.sector(base + sector);
                }
                if matches!(how, Effect::Error(_)) { Err(EIO) } else { Ok(*len) }
            }
            CommandKind::Flush { .. } => match how {
                _ if *sabotage == Sabotage::NoFlush => Ok(0),
                Effect::FlushError => {
                    dropped = disk.fail_flush(rng);
                    if *sabotage == Sabotage::HiddenFailure { Ok(0) } else { Err(EIO) }
                }
                // It fails before the device has heard of it.
                Effect::Error(_) => Err(EIO),
                Effect::Good | Effect::Short(_) => {
                    disk.flush(base..base + len_of_file);
                    Ok(0)
                }
            },
            CommandKind::Zero { id, sectors, is_discard } => {
                // From here on readers may find either, until the caller knows how it ended.
                history.set_undefined(sectors.clone());
                let does = !matches!(how, Effect::Error(of) if of < 32);
                if does && !(*is_discard && rng.below(2) == 0) {
                    let zeroed = *next_stamp;
                    sectors.clone().for_each(|at| disk.write(base + at, zeroed));
                    *next_stamp += 1;
                    let call = calls.get_mut(id).expect("it is not over");
                    let CallKind::Zero { stamp, .. } = &mut call.kind else { panic!("a zero") };
                    *stamp = Some(zeroed);
                }
                if matches!(how, Effect::Error(_)) { Err(EIO) } else { Ok(0) }
            }
        });
        let number = files[commands[at].file].disk;
        self.note_dropped(number, &dropped);
    }

    /// What the device has dropped, readers may find as it was before.
    fn note_dropped(&mut self, disk: usize, dropped: &[usize]) {
        for file in self.files.iter_mut().filter(|file| file.disk == disk) {
            let here = file.base..file.base + file.history.len();
            for at in dropped.iter().filter(|at| here.contains(at)) {
                file.history.revert(at - file.base);
            }
        }
    }

    /// Refuses so many writes, each before it does anything.
    fn refuse(&mut self, requests: u64, errno: i32) -> Result<(), String> {
        for _ in 0..requests {
            let is_new = |it: &IssuedCommand| {
                it.result.is_none() && matches!(it.what, CommandKind::Write { .. })
            };
            let Some(at) = self.commands.iter().position(is_new) else { return Ok(()) };
            self.commands[at].result = Some(Err(errno));
            self.report(at);
            self.pass(0);
            self.pump()?;
        }
        Ok(())
    }

    /// Reads the largest file once through, while nothing else happens.
    fn scan(&mut self) -> Result<(), String> {
        let file = self.files.len() - 1;
        let sectors = self.files[file].history.len() as u64;
        for first in (0..sectors).step_by(SCAN_SECTORS as usize) {
            self.read(file as u64, first, SCAN_SECTORS)?;
            self.pump()?;
            let is_read = |it: &IssuedCommand| matches!(it.what, CommandKind::Read { .. });
            while let Some(at) = self.commands.iter().position(is_read) {
                if self.commands[at].result.is_none() {
                    self.take_effect(at, Effect::Good);
                }
                self.report(at);
                self.pump()?;
            }
        }
        Ok(())
    }

    fn accept_lost(&mut self, file: usize) {
        if self.path.lost(self.files[file].id).is_some() {
            self.files[file].history.accept_lost();
        }
        self.path.accept_lost(self.files[file].id);
    }

    /// Time passes; the driver tells the path when it wants to be told.
    pub(super) fn pass(&mut self, ns: u64) {
        self.now += ns;
        let now = self.tick();
        self.path.timeout(now);
    }

    pub(super) fn file_of(&self, device: DeviceId) -> usize {
        self.devices[&device]
    }

    fn pick(&self, which: u64, fits: impl Fn(&IssuedCommand) -> bool) -> Option<usize> {
        let count = self.commands.iter().filter(|it| fits(it)).count();
        let mut fitting = (0..self.commands.len()).filter(|&at| fits(&self.commands[at]));
        fitting.nth(index(which, count.max(1)))
    }
}

/// A read of the scan.
const SCAN_SECTORS: u64 = 128;

/// One of so many, chosen by a random number.
pub(super) fn index(random: u64, of: usize) -> usize {
    usize::try_from(random % of as u64).expect("an index")
}

fn sectors_of(len: u64) -> usize {
    usize::try_from(len.div_ceil(SECTOR)).expect("a small file")
}
