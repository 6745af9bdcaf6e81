//! The path against a world that is simple enough to be obviously right.
//!
//! The world keeps for each frame which page of which file a device last wrote into it. Whatever
//! the order of completions, whatever fails, however little memory there is:
//!
//!   - a read ends exactly once, and its frames hold its pages;
//!   - a page found up to date in the table is in the frame that the table names;
//!   - no page is asked of a device twice at a time; no request is too large, one too many, or past
//!     the end;
//!   - when all is done, every frame is free or on a list.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::{PlainPages, PlainStream};
use foreread_core::geometry::Geometry;
use foreread_core::path::{Config, DeviceId, Fault, FileId, IoPath, ReadId, StreamId, Tag};
use foreread_core::readahead::{Decided, Policy, Rules};
use foreread_core::table::Frame;
use foreread_core::trace::What;
use foreread_core::units::{Bytes, Instant, PageIndex, Pages};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

/// What is done to the path.
#[derive(Clone, Debug)]
enum Op {
    /// A reader reads: hits as they are, the rest through the path. Numbers are taken modulo what
    /// there is.
    Read { stream: usize, pos: u64, len: u64 },
    /// A reader reads on where it stopped.
    ReadOn { stream: usize, len: u64 },
    /// A device answers one of its requests.
    Complete { which: usize, answer: Answer },
    /// A reader is done with a read that is ready.
    Release { which: usize },
    /// A file is closed, if nobody reads it, and opened again.
    Reopen { file: usize },
}

#[derive(Clone, Copy, Debug)]
enum Answer {
    Good,
    /// This part, in 64ths.
    Short(u64),
    Failed,
}

/// A reader: the stream, its file, where it stopped.
struct Reader {
    id: StreamId,
    file: usize,
    prev_pos: Option<u64>,
}

struct OpenFile {
    id: FileId,
    device: DeviceId,
    len: u64,
}

struct Expected {
    file: usize,
    first: u64,
    len: u64,
    stream: usize,
}

struct World {
    path: IoPath,
    now: u64,
    geometry: Geometry,
    files: Vec<OpenFile>,
    readers: Vec<Reader>,
    /// Of each frame, what a device last wrote there: (file's id, page).
    written: BTreeMap<Frame, (FileId, u64)>,
    in_flight: BTreeMap<Tag, (DeviceId, u64, u64)>,
    pending: BTreeMap<ReadId, Expected>,
    ready: Vec<(ReadId, Expected, u64)>,
    ended: usize,
    started: usize,
    faults: usize,
    failures: usize,
    decisions: Vec<(StreamId, Decided)>,
}

impl World {
    fn new(policy: Policy, memory: u64, max: u64, lens: &[u64]) -> Self {
        let rules = Rules::default();
        let mut path =
            IoPath::new(Config { memory: Bytes(memory), policy, max_window: Pages(max), rules });
        path.set_trace(1_000_000);
        let geometry = Geometry { max_io: Pages(16), depth: 4, ..Geometry::new(Bytes(0)) };
        let mut world = Self {
            path,
            now: 0,
            geometry,
            files: Vec::new(),
            readers: Vec::new(),
            written: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            pending: BTreeMap::new(),
            ready: Vec::new(),
            ended: 0,
            started: 0,
            faults: 0,
            failures: 0,
            decisions: Vec::new(),
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

    fn open(&mut self, len: u64) -> OpenFile {
        let device = self.path.add_device(self.geometry);
        let id = self.path.open(device, Bytes(len)).unwrap();
        OpenFile { id, device, len }
    }

    fn reader(&mut self, file: usize) -> Reader {
        Reader { id: self.path.stream(self.files[file].id), file, prev_pos: None }
    }

    fn tick(&mut self) -> Instant {
        self.now += 1;
        Instant(self.now)
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Read { stream, pos, len } => {
                let stream = stream % self.readers.len();
                let end = self.files[self.readers[stream].file].len;
                self.read(stream, pos % end, len);
            }
            Op::ReadOn { stream, len } => {
                let stream = stream % self.readers.len();
                let end = self.files[self.readers[stream].file].len;
                let pos = self.readers[stream].prev_pos.unwrap_or(0);
                if pos < end {
                    self.read(stream, pos, len);
                }
            }
            Op::Complete { which, answer } => {
                if let Some(tag) = self.in_flight.keys().nth(which % self.in_flight.len().max(1)) {
                    self.complete(*tag, answer);
                }
            }
            Op::Release { which } => {
                if !self.ready.is_empty() {
                    self.release(which % self.ready.len());
                }
            }
            Op::Reopen { file } => self.reopen(file % self.files.len()),
        }
        self.pump();
        self.check();
    }

    /// One reader at a time: a reader whose last read is not released yet does not read.
    fn read(&mut self, stream: usize, pos: u64, len: u64) {
        let is_reading = self.pending.values().any(|read| read.stream == stream)
            || self.ready.iter().any(|(_, read, _)| read.stream == stream);
        if is_reading {
            return;
        }
        let Reader { id, file, prev_pos } = self.readers[stream];
        let (slot, file_len) = (IoPath::slot(self.files[file].id), self.files[file].len);
        let asked_end = (pos + len).div_ceil(4096);
        // What hits do: page by page, up to the first that is not there.
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
                self.path.marker(now, id, page, count, prev_pos.map(Bytes));
            }
            at = ((page.0 + 1) * 4096).min(end);
        }
        if at < end {
            let now = self.tick();
            let rest = pos + len - at;
            let read = self.path.read(now, id, Bytes(at), Bytes(rest), prev_pos.map(Bytes));
            self.started += 1;
            let expected = Expected { file, first: at / 4096, len: rest, stream };
            assert!(self.pending.insert(read, expected).is_none(), "an id is used once");
        }
        self.readers[stream].prev_pos = Some(end);
    }

    fn complete(&mut self, tag: Tag, answer: Answer) {
        let (device, first, count) = self.in_flight.remove(&tag).unwrap();
        let file = self.files.iter().find(|file| file.device == device);
        // What the file has of it.
        let whole = file.map_or(count * 4096, |file| (file.len - first * 4096).min(count * 4096));
        let bytes = match answer {
            Answer::Good => Ok(Bytes(whole)),
            Answer::Short(part) => Ok(Bytes(whole * (part % 64) / 64)),
            Answer::Failed => Err(5),
        };
        self.failures += usize::from(bytes != Ok(Bytes(whole)));
        let good = bytes.unwrap_or(Bytes(0)).0;
        if let Some(file) = file {
            for (i, page) in self.path.pages(tag).iter().enumerate() {
                if good > i as u64 * 4096 {
                    self.written.insert(page.filling.frame(), (file.id, first + i as u64));
                }
            }
        } else {
            // The file is closed: the device writes all the same.
            for page in self.path.pages(tag) {
                self.written.remove(&page.filling.frame());
            }
        }
        let now = self.tick();
        self.path.complete(now, tag, bytes);
    }

    fn release(&mut self, which: usize) {
        let (id, ..) = self.ready.swap_remove(which);
        let now = self.tick();
        self.path.release(now, id);
    }

    fn reopen(&mut self, file: usize) {
        let is_read = self.pending.values().any(|read| read.file == file)
            || self.ready.iter().any(|(_, read, _)| read.file == file);
        if is_read {
            return;
        }
        let now = self.tick();
        let OpenFile { id, device, len } = self.files[file];
        self.path.close(now, id);
        self.path.remove_device(now, device);
        self.files[file] = self.open(len);
        for stream in 0..self.readers.len() {
            if self.readers[stream].file == file {
                // Half of them end before their file does, half after.
                self.path.close_stream(self.readers[stream].id);
                self.readers[stream] = self.reader(file);
            }
        }
    }

    /// Takes all that the path has to say.
    fn pump(&mut self) {
        let now = self.tick();
        while let Some(io) = self.path.poll_dispatch(now) {
            let (first, count) = (io.offset.0 / 4096, io.len.0 / 4096);
            assert_eq!(io.offset.0 % 4096, 0);
            assert!(count >= 1 && count <= self.geometry.max_io.0);
            let file = self.files.iter().find(|file| file.device == io.device).unwrap();
            assert!(first + count <= file.len.div_ceil(4096), "past the end");
            self.in_flight.insert(io.tag, (io.device, first, count));
            let mine = self.in_flight.values().filter(|(device, ..)| *device == io.device);
            assert!(mine.clone().count() <= self.geometry.depth as usize, "too many at a time");
            let pages: Vec<u64> =
                mine.flat_map(|(_, first, count)| *first..first + count).collect();
            let distinct: BTreeSet<_> = pages.iter().collect();
            assert_eq!(distinct.len(), pages.len(), "a page is asked for twice at a time");
        }
        while let Some(ready) = self.path.poll_ready() {
            let expected = self.pending.remove(&ready.id).expect("a read ends once");
            self.ended += 1;
            assert!(ready.len.0 > 0 && ready.len.0 <= expected.len);
            let file = &self.files[expected.file];
            if ready.fault.is_none() {
                for (i, frame) in self.path.frames(ready.id).iter().enumerate() {
                    let page = expected.first + i as u64;
                    assert_eq!(self.written.get(frame), Some(&(file.id, page)), "wrong bytes");
                }
            } else {
                self.faults += 1;
                assert!(matches!(ready.fault, Some(Fault::Io(5) | Fault::Short)));
            }
            self.ready.push((ready.id, expected, ready.len.0));
        }
        while let Some(event) = self.path.poll_trace() {
            if let What::Decided { stream, decided } = event.what {
                self.decisions.push((stream, decided));
            }
        }
        assert_eq!(self.path.trace_lost(), 0);
    }

    fn check(&self) {
        assert_eq!(self.started, self.ended + self.pending.len());
        assert!(self.faults == 0 || self.failures > 0, "an error that no device reported");
        for file in &self.files {
            let slot = IoPath::slot(file.id);
            for page in 0..file.len.div_ceil(4096) {
                let table = self.path.table();
                let Some(found) = table.look_up(slot, PageIndex(page)) else { continue };
                if found.entry().is_up_to_date() {
                    assert_eq!(self.written[&found.entry().frame()], (file.id, page));
                }
            }
        }
    }

    /// Lets everything end well: no read may be left waiting, no frame lost.
    fn finish(&mut self) {
        // Each turn ends a request or a read, so this ends, or a read hangs.
        while let Some(tag) = self.in_flight.keys().next().copied() {
            self.complete(tag, Answer::Good);
            self.pump();
            while !self.ready.is_empty() {
                self.release(0);
                self.pump();
            }
        }
        while !self.ready.is_empty() {
            self.release(0);
            self.pump();
        }
        if !self.in_flight.is_empty() {
            return self.finish();
        }
        assert!(self.pending.is_empty(), "{} reads hang", self.pending.len());
        assert_eq!(self.path.idle_frames(), u64::from(self.path.frame_count()), "a frame is lost");
        self.check();
    }
}

fn op() -> impl Strategy<Value = Op> {
    let answer = prop_oneof![
        8 => Just(Answer::Good),
        1 => (0..64_u64).prop_map(Answer::Short),
        1 => Just(Answer::Failed),
    ];
    let len = prop_oneof![Just(4096), 1..20_000_u64, 1..600_000_u64];
    prop_oneof![
        2 => (0..8_usize, any::<u64>(), len.clone())
            .prop_map(|(stream, pos, len)| Op::Read { stream, pos, len }),
        4 => (0..8_usize, len).prop_map(|(stream, len)| Op::ReadOn { stream, len }),
        6 => (any::<usize>(), answer).prop_map(|(which, answer)| Op::Complete { which, answer }),
        4 => any::<usize>().prop_map(|which| Op::Release { which }),
        1 => (0..4_usize).prop_map(|file| Op::Reopen { file }),
    ]
}

fn policy() -> impl Strategy<Value = Policy> {
    proptest::sample::select(Policy::ALL.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 128,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("proptest-regressions"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn whatever_happens_reads_end_once_with_their_own_pages(
        policy in policy(),
        max in 0..64_u64,
        ops in proptest::collection::vec(op(), 1..150),
    ) {
        let mut world =
            World::new(policy, 1 << 20, max, &[1, 4096, 700_001, 3_000_000]);
        for op in &ops {
            world.apply(op);
        }
        world.finish();
    }

    /// With room for everything, the order in which devices answer changes no decision: they are
    /// those of the plain walk over a plain set.
    #[test]
    fn with_enough_memory_decisions_are_those_of_the_plain_walk(
        policy in policy(),
        max in 1..40_u64,
        reads in proptest::collection::vec((0..2_usize, 0..900_u64, 1..40_u64, any::<bool>()), 1..80),
    ) {
        let mut world = World::new(policy, 64 << 20, max, &[1000 * 4096 - 5]);
        let mut pages = PlainPages::default();
        let mut plain = [PlainStream::new(policy, max), PlainStream::new(policy, max)];
        for stream in &mut plain {
            stream.limits.io_pages = world.geometry.max_io;
            stream.file = Bytes(1000 * 4096 - 5);
        }
        let mut want = Vec::new();
        for (stream, page, count, goes_on) in reads {
            let reader = &world.readers[stream];
            let page = if goes_on { reader.prev_pos.unwrap_or(0) / 4096 } else { page };
            let id = reader.id;
            if page >= 1000 {
                continue;
            }
            world.read(stream, page * 4096, count * 4096);
            world.pump();
            // Its own pages must come before it reads on; anything else may still be on its way.
            while world.pending.values().any(|read| read.stream == stream) {
                let tag = *world.in_flight.keys().next_back().unwrap();
                world.complete(tag, Answer::Good);
                world.pump();
            }
            while !world.ready.is_empty() {
                world.release(0);
            }
            world.pump();
            want.extend(plain[stream].read(&mut pages, page, count).into_iter().map(|(l, _)| (id, l)));
            prop_assert_eq!(&world.decisions, &want);
        }
        world.finish();
    }
}

/// Two readers of one page: one request, and both get it.
#[test]
fn a_page_on_its_way_is_joined_and_not_asked_for_again() {
    let mut world = World::new(Policy::None, 1 << 20, 0, &[40_960]);
    world.read(0, 0, 4096);
    world.pump();
    world.read(1, 0, 4096);
    world.pump();
    assert_eq!(world.in_flight.len(), 1);
    assert_eq!(world.path.stats().pages_joined, 1);
    let tag = *world.in_flight.keys().next().unwrap();
    world.complete(tag, Answer::Good);
    world.pump();
    assert_eq!(world.ready.len(), 2);
    world.finish();
}

/// One bad page in a request of many: who waits for the others gets them, at the price of one more
/// request each; who waits for the bad one gets the error.
#[test]
fn a_bad_page_is_the_error_of_those_who_wait_for_it_only() {
    let mut world = World::new(Policy::Linux6, 1 << 20, 16, &[409_600]);
    // One page is wanted, three are read ahead.
    world.read(0, 0, 4096);
    world.pump();
    let tag = *world.in_flight.keys().next().unwrap();
    world.complete(tag, Answer::Failed);
    world.pump();
    assert_eq!(world.path.stats().retries, 1, "the wanted page, once more");
    let tag = *world.in_flight.keys().next().unwrap();
    assert_eq!(world.in_flight[&tag].2, 1, "alone");
    world.complete(tag, Answer::Good);
    world.pump();
    assert_eq!(world.faults, 0);
    world.release(0);
    // The three others were dropped: page 1 is a miss again, and now it is really bad.
    world.read(0, 4096, 4096);
    world.pump();
    while let Some(tag) = world.in_flight.keys().next().copied() {
        world.complete(tag, Answer::Failed);
        world.pump();
    }
    assert_eq!(world.faults, 1);
    world.finish();
}

/// Reads that together want more than all frames: they wait in line, and all are served.
#[test]
fn reads_wait_for_frames_in_the_order_of_their_arrival() {
    let mut world = World::new(Policy::None, 1 << 20, 0, &[4_000_000; 8]);
    for stream in 0..16 {
        world.read(stream, stream as u64 * 40 * 4096, 2_000_000);
        world.pump();
    }
    assert!(world.path.stats().waited_for_frames > 0, "more was asked for than there is");
    world.finish();
    assert_eq!(world.ended, 16);
}

/// A path that counted the read that missed a page as a second use of it promoted every page: a
/// scan pushed out what was used again and again.
#[test]
fn pages_that_are_read_once_never_become_active() {
    for policy in [Policy::None, Policy::Linux6] {
        let mut world = World::new(policy, 1 << 20, 32, &[40_960_000]);
        for page in 0..10_000 {
            world.read(0, page * 4096, 4096);
            world.pump();
            while let Some(tag) = world.in_flight.keys().next().copied() {
                world.complete(tag, Answer::Good);
                world.pump();
            }
            while !world.ready.is_empty() {
                world.release(0);
            }
        }
        let stats = world.path.cache_stats();
        assert!(stats.evictions > 9000, "{stats:?}");
        assert_eq!((stats.activations, stats.evicted_before_use), (0, 0), "{stats:?}");
    }
}

/// Read-ahead takes what is left over: a window is cut when frames are short, a read never is.
#[test]
fn windows_are_cut_when_frames_are_short() {
    let mut world = World::new(Policy::Linux6, 1 << 20, 64, &[4_000_000; 20]);
    for file in 0..20 {
        // Nothing is completed: every frame that is taken stays taken.
        let count = if file < 8 { 8 } else { 1 };
        world.read(2 * file, 0, count * 4096);
        world.pump();
    }
    assert!(world.path.stats().windows_shortened > 0);
    world.finish();
    assert_eq!(world.ended, 20);
}
