//! The world around a path: devices, readers, other threads, and the expected contents of frames.
//! It checks for forbidden behaviour, but does not predict decisions.

#[path = "answers.rs"]
mod answers;
#[path = "checks.rs"]
mod checks;
#[path = "planned.rs"]
mod planned;

use std::collections::{BTreeMap, BTreeSet};

use foreread_core::geometry::Geometry;
use foreread_core::path::{Config, DeviceId, Fault, FileId, IoPath, ReadId, StreamId, Tag};
use foreread_core::prefetch::{Decided, Policy, Rules};
use foreread_core::replay::{LogStep, replay};
use foreread_core::sched::SchedulerKind;
use foreread_core::table::{Frame, Generation};
use foreread_core::trace::EventKind;
use foreread_core::units::{ByteCount, Nanos, PageIndex, Pages};

/// A step in the world.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// A reader reads: hits from the table, the rest through the path. Numbers are taken modulo the
    /// number of candidates.
    Read { stream: usize, pos: u64, len: u64 },
    /// A reader continues where it stopped.
    ReadOn { stream: usize, len: u64 },
    /// Pages of a file are read as planned.
    ReadPlanned { file: usize, start: u64, pages: u64 },
    /// A read is cancelled if it has not started.
    Cancel { which: usize },
    /// A device completes one of its requests.
    Complete { which: usize, answer: Answer },
    /// A device delivers more bytes of one of its requests.
    Arrive { which: usize, bytes: u64 },
    /// A reader releases a ready read.
    Release { which: usize },
    /// A file is closed, even under its readers, and opened again.
    Reopen { file: usize },
    /// A file grows or shrinks.
    SetLen { file: usize, len: u64 },
    /// Pages of a file are out of date.
    Invalidate { file: usize, start: u64, pages: u64 },
    /// A thread pins a page, if it is found and the budget allows it.
    Pin { file: usize, page: u64 },
    /// A pin ends.
    Unpin { which: usize },
    /// The path is notified of an unpinned orphan.
    Report,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    Good,
    /// This part, in 64ths.
    Short(u64),
    Failed,
}

/// A reader: its stream, file and position.
pub(crate) struct Reader {
    pub(crate) id: StreamId,
    pub(crate) file: usize,
    pub(crate) prev_pos: Option<u64>,
}

pub(crate) struct OpenFile {
    pub(crate) id: FileId,
    pub(crate) device: DeviceId,
    pub(crate) len: u64,
    pub(crate) longest: u64,
}

pub(crate) struct Expected {
    pub(crate) file: FileId,
    /// The file was closed or cut in the meantime.
    pub(crate) is_cut: bool,
    pub(crate) first: u64,
    pub(crate) len: u64,
    pub(crate) stream: usize,
}

pub(crate) struct World {
    pub(crate) path: IoPath,
    pub(crate) now: u64,
    pub(crate) geometry: Geometry,
    pub(crate) files: Vec<OpenFile>,
    pub(crate) closed: Vec<OpenFile>,
    pub(crate) readers: Vec<Reader>,
    /// Pages that left the table while a device may still be reading them.
    pub(crate) forgotten: BTreeSet<(DeviceId, u64)>,
    /// Pinned frames, and the pages for which they are pinned.
    pub(crate) pins: Vec<(Frame, Generation, (FileId, u64))>,
    pub(crate) unpinned: Vec<Frame>,
    /// The page that a device last wrote into each frame: (file's id, page).
    pub(crate) written: BTreeMap<Frame, (FileId, u64)>,
    pub(crate) in_flight: BTreeMap<Tag, (DeviceId, u64, u64)>,
    /// Bytes of each request in flight that have arrived.
    pub(crate) arrived: BTreeMap<Tag, u64>,
    pub(crate) pending: BTreeMap<ReadId, Expected>,
    pub(crate) ready: Vec<(ReadId, Expected, u64)>,
    pub(crate) ended: usize,
    pub(crate) started: usize,
    pub(crate) faults: usize,
    pub(crate) failures: usize,
    /// Number of files closed or cut, even under readers.
    pub(crate) cuts: usize,
    pub(crate) decisions: Vec<(StreamId, Decided)>,
    pub(crate) log: Vec<LogStep>,
}

impl World {
    pub(crate) fn new(policy: Policy, memory: u64, max: u64, lens: &[u64]) -> Self {
        let rules = Rules::default();
        let mut path = IoPath::new(Config {
            memory: ByteCount(memory),
            policy,
            max_window: Pages(max),
            rules,
        });
        path.set_trace(1_000_000);
        path.record(usize::MAX);
        let geometry = Geometry { max_io: Pages(16), depth: 4, ..Geometry::new(ByteCount(0)) };
        let mut world = Self {
            path,
            now: 0,
            geometry,
            files: Vec::new(),
            closed: Vec::new(),
            readers: Vec::new(),
            forgotten: BTreeSet::new(),
            pins: Vec::new(),
            unpinned: Vec::new(),
            written: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            arrived: BTreeMap::new(),
            pending: BTreeMap::new(),
            ready: Vec::new(),
            ended: 0,
            started: 0,
            faults: 0,
            failures: 0,
            cuts: 0,
            decisions: Vec::new(),
            log: Vec::new(),
        };
        for len in lens {
            let file = world.open(*len);
            world.files.push(file);
            for _ in 0..2 {
                let reader = world.reader(world.files.len() - 1);
                world.readers.push(reader);
            }
        }
        world
    }

    pub(crate) fn open(&mut self, len: u64) -> OpenFile {
        let device = self.path.add_device(self.geometry, &SchedulerKind::Noop);
        let id = self.path.open(device, ByteCount(len)).unwrap();
        OpenFile { id, device, len, longest: len }
    }

    pub(crate) fn reader(&mut self, file: usize) -> Reader {
        Reader { id: self.path.stream(self.files[file].id), file, prev_pos: None }
    }

    pub(crate) fn tick(&mut self) -> Nanos {
        self.now += 1;
        Nanos(self.now)
    }

    pub(crate) fn apply(&mut self, op: &Op) {
        match *op {
            Op::Read { stream, pos, len } => {
                let stream = stream % self.readers.len();
                let end = self.files[self.readers[stream].file].len;
                if end > 0 {
                    self.read(stream, pos % end, len);
                }
            }
            Op::ReadOn { stream, len } => {
                let stream = stream % self.readers.len();
                let end = self.files[self.readers[stream].file].len;
                let pos = self.readers[stream].prev_pos.unwrap_or(0);
                if pos < end {
                    self.read(stream, pos, len);
                }
            }
            Op::ReadPlanned { file, start, pages } => {
                self.read_planned(file % self.files.len(), start, pages);
            }
            Op::Cancel { which } => self.cancel(which),
            Op::Complete { which, answer } => {
                if let Some(tag) = self.in_flight.keys().nth(which % self.in_flight.len().max(1)) {
                    self.complete(*tag, answer);
                }
            }
            Op::Arrive { which, bytes } => {
                if let Some(tag) = self.in_flight.keys().nth(which % self.in_flight.len().max(1)) {
                    self.arrive(*tag, bytes);
                }
            }
            Op::Release { which } => {
                if !self.ready.is_empty() {
                    self.release(which % self.ready.len());
                }
            }
            Op::Reopen { file } => self.reopen(file % self.files.len()),
            Op::SetLen { file, len } => self.set_len(file % self.files.len(), len),
            Op::Invalidate { file, start, pages } => {
                let OpenFile { id, device, longest, .. } = self.files[file % self.files.len()];
                let start = start % (longest / 4096 + 1);
                self.forgotten.extend((start..start + pages).map(|page| (device, page)));
                let now = self.tick();
                self.path.invalidate(now, id, PageIndex(start)..PageIndex(start + pages));
            }
            Op::Pin { file, page } => self.pin(file % self.files.len(), page),
            Op::Unpin { which } => {
                if !self.pins.is_empty() {
                    self.unpin(which % self.pins.len());
                }
            }
            Op::Report => self.report(),
        }
        self.pump();
        self.check();
    }

    /// One reader at a time: it does not read before its last read is released.
    pub(crate) fn read(&mut self, stream: usize, pos: u64, len: u64) {
        let is_reading = self.pending.values().any(|read| read.stream == stream)
            || self.ready.iter().any(|(_, read, _)| read.stream == stream);
        if is_reading {
            return;
        }
        let Reader { id, file, prev_pos } = self.readers[stream];
        let (slot, file_len) = (IoPath::slot(self.files[file].id), self.files[file].len);
        let asked_end = (pos + len).div_ceil(4096);
        // Hits: page by page, up to the first missing one.
        let mut at = pos;
        let end = (pos + len).min(file_len);
        while at < end {
            let page = PageIndex(at / 4096);
            let table = self.path.table();
            let Some(found) = table.look_up(slot, page) else { break };
            if !found.entry().is_up_to_date() {
                break;
            }
            assert_eq!(self.written[&found.entry().frame()], (self.files[file].id, page.0));
            found.touch(false);
            if found.take_marker() {
                let now = self.tick();
                let count = Pages(asked_end - page.0);
                self.path.marker(now, id, page, count, prev_pos.map(ByteCount));
            }
            at = ((page.0 + 1) * 4096).min(end);
        }
        if at < end {
            let now = self.tick();
            let rest = pos + len - at;
            let read =
                self.path.read(now, id, ByteCount(at), ByteCount(rest), prev_pos.map(ByteCount));
            self.started += 1;
            let file = self.files[file].id;
            let expected = Expected { file, is_cut: false, first: at / 4096, len: rest, stream };
            assert!(self.pending.insert(read, expected).is_none(), "an id is used once");
        }
        self.readers[stream].prev_pos = Some(end);
    }

    pub(crate) fn release(&mut self, which: usize) {
        let (id, ..) = self.ready.swap_remove(which);
        let now = self.tick();
        self.path.release(now, id);
    }

    pub(crate) fn reopen(&mut self, file: usize) {
        let now = self.tick();
        let OpenFile { id, device, len, .. } = self.files[file];
        self.cut(id);
        self.path.close(now, id);
        self.path.remove_device(now, device);
        let file_again = self.open(len);
        self.closed.push(std::mem::replace(&mut self.files[file], file_again));
        for stream in 0..self.readers.len() {
            if self.readers[stream].file == file {
                // Half of them end before their file does, half after.
                self.path.close_stream(self.readers[stream].id);
                self.readers[stream] = self.reader(file);
            }
        }
    }

    pub(crate) fn set_len(&mut self, file: usize, len: u64) {
        let now = self.tick();
        let OpenFile { id, device, len: before, .. } = self.files[file];
        if len < before {
            self.cut(id);
        }
        let pages = before.min(len) / 4096..before.div_ceil(4096);
        self.forgotten.extend(pages.map(|page| (device, page)));
        self.path.set_len(now, id, ByteCount(len));
        self.files[file].len = len;
        self.files[file].longest = len.max(self.files[file].longest);
    }

    /// Allows reads of this file to end early from now on.
    pub(crate) fn cut(&mut self, file: FileId) {
        self.cuts += 1;
        for read in self.pending.values_mut().filter(|read| read.file == file) {
            read.is_cut = true;
        }
    }

    pub(crate) fn pin(&mut self, file: usize, page: u64) {
        let OpenFile { id, longest, .. } = self.files[file];
        let page = page % (longest / 4096 + 1);
        let table = self.path.table();
        let Some(found) = table.look_up(IoPath::slot(id), PageIndex(page)) else { return };
        if table.pin_budget().try_take(1) == 1 {
            if table.pin(&found) {
                let entry = found.entry();
                self.pins.push((entry.frame(), entry.generation(), (id, page)));
            } else {
                table.pin_budget().give_back(1);
            }
        }
    }

    pub(crate) fn unpin(&mut self, which: usize) {
        let (frame, generation, _) = self.pins.swap_remove(which);
        let table = self.path.table();
        if table.unpin(frame, generation) {
            self.unpinned.push(frame);
        } else {
            table.pin_budget().give_back(1);
        }
    }

    pub(crate) fn report(&mut self) {
        if let Some(frame) = self.unpinned.pop() {
            let now = self.tick();
            self.path.unpinned(now, frame);
            self.path.table().pin_budget().give_back(1);
        }
    }

    /// Polls everything that the path returns.
    pub(crate) fn pump(&mut self) {
        let now = self.tick();
        while let Some(io) = self.path.poll_dispatch(now) {
            let (first, count) = (io.offset.0 / 4096, io.len.0 / 4096);
            assert_eq!(io.offset.0 % 4096, 0);
            assert!(count >= 1 && count <= self.geometry.max_io.0);
            let file = self.files.iter().find(|file| file.device == io.device).unwrap();
            assert!(first + count <= file.longest.div_ceil(4096), "past the end");
            self.in_flight.insert(io.tag, (io.device, first, count));
            self.check_asked(io.device);
        }
        while let Some(ready) = self.path.poll_ready() {
            let expected = self.pending.remove(&ready.id).expect("a read ends once");
            self.ended += 1;
            assert!(ready.len.0 > 0 || expected.is_cut);
            assert!(ready.len.0 <= expected.len);
            if ready.fault.is_none() {
                for (i, frame) in self.path.frames(ready.id).iter().enumerate() {
                    let page = expected.first + i as u64;
                    assert_eq!(
                        self.written.get(frame),
                        Some(&(expected.file, page)),
                        "wrong bytes"
                    );
                }
            } else {
                self.faults += 1;
                assert!(matches!(ready.fault, Some(Fault::Io(5) | Fault::Short)));
            }
            self.ready.push((ready.id, expected, ready.len.0));
        }
        while let Some(event) = self.path.poll_trace() {
            if let EventKind::Decided { stream, decided } = event.what {
                self.decisions.push((stream, decided));
            }
        }
        assert_eq!(self.path.trace_lost(), 0);
    }
}
