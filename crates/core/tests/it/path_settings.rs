//! Settings that change while a path runs, with their effect on requests and evictions. The windows
//! of policies are checked in adaptive.rs, and in golden.rs of the simulator.

#![cfg(not(loom))]

use crate::random;

use std::collections::VecDeque;

use foreread_core::cache::{PageCache, Use};
use foreread_core::geometry::Geometry;
use foreread_core::path::{Config, DeviceId, DeviceIo, FileId, IoPath, StreamId, Tag};
use foreread_core::prefetch::{Advice, Policy, Rules};
use foreread_core::sched::{Op, Origin, SchedulerKind, Submitter};
use foreread_core::table::FileSlot;
use foreread_core::units::{ByteCount, Nanos, PageIndex, Pages, Sector, Sectors};
use random::Random;

const PAGE: u64 = 4096;

fn path(policy: Policy, max_window: Pages, memory: u64) -> IoPath {
    IoPath::new(Config { memory: ByteCount(memory), policy, max_window, rules: Rules::default() })
}

fn device(path: &mut IoPath, capacity: u64) -> DeviceId {
    let geometry = Geometry { max_io: Pages(16), depth: 8, ..Geometry::new(ByteCount(capacity)) };
    path.add_device(geometry, &SchedulerKind::Noop)
}

/// Queues eight requests far apart; returns the number that the device gets at once.
fn at_once(path: &mut IoPath, device: DeviceId, op: Op) -> usize {
    for number in 0..8 {
        let origin = Origin { op, ..Origin::default() };
        path.direct(Nanos(0), device, Sector(number << 20), Sectors(8), origin);
    }
    std::iter::from_fn(|| path.poll_dispatch(Nanos(0))).count()
}

fn run(path: &mut IoPath) {
    while let Some(io) = path.poll_dispatch(Nanos(0)) {
        path.complete(Nanos(0), io.tag, Ok(io.len));
    }
}

fn read(path: &mut IoPath, stream: StreamId, page: u64, count: u64) {
    let prev = (page > 0).then_some(ByteCount(page * PAGE));
    let id = path.read(Nanos(0), stream, ByteCount(page * PAGE), ByteCount(count * PAGE), prev);
    run(path);
    assert_eq!(path.poll_ready().expect("the device has answered").id, id);
    path.release(Nanos(0), id);
}

#[test]
fn the_policy_may_change_when_pages_are_there() {
    for (before, after) in [("linux-6", "adaptive"), ("adaptive", "linux-6")] {
        let mut path = path(Policy::from_name(before).unwrap(), Pages(32), 1 << 20);
        let device = device(&mut path, 0);
        let file = path.open(device, ByteCount(10_000 * PAGE)).unwrap();
        let stream = path.stream(file);
        (0..50).for_each(|page| read(&mut path, stream, page, 1));
        path.set("policy", after).unwrap();
        (50..1000).for_each(|page| read(&mut path, stream, page, 1));
        path.set("policy", before).unwrap();
        (1000..2000).for_each(|page| read(&mut path, stream, page, 1));
    }
}

#[test]
fn a_cache_that_keeps_unread_pages_no_more_has_them_among_the_others() {
    let mut cache = PageCache::with_frames(64);
    cache.set_keeps_unread(true);
    for page in 0..20 {
        let filling = cache.start_fill(FileSlot(0), PageIndex(page), Use::Ahead, false);
        cache.filled(filling);
    }
    let on_its_way = cache.start_fill(FileSlot(0), PageIndex(20), Use::Ahead, false);
    cache.set_keeps_unread(false);
    cache.filled(on_its_way);
    let dump = cache.dump();
    assert_eq!((dump.ahead.len(), dump.inactive.len()), (0, 21));
    assert_eq!(cache.page_of(dump.inactive[20]), Some((FileSlot(0), PageIndex(0))), "the oldest");
    // And again, with resident pages.
    cache.set_keeps_unread(true);
    let filling = cache.start_fill(FileSlot(0), PageIndex(21), Use::Ahead, false);
    cache.filled(filling);
    assert_eq!((cache.dump().ahead.len(), cache.room_for_ahead()), (1, Pages(64)));
}

/// Reads the first pages of a stream up to its marker from a device that has not completed anything
/// yet; returns its number of requests then.
fn in_flight_at_the_marker(path: &mut IoPath, device: DeviceId) -> usize {
    let file = path.open(device, ByteCount(10_000 * PAGE)).unwrap();
    let stream = path.stream(file);
    let ask = |path: &mut IoPath, page: u64| {
        let prev = (page > 0).then_some(ByteCount(page * PAGE));
        path.read(Nanos(0), stream, ByteCount(page * PAGE), ByteCount(PAGE), prev)
    };
    let mut requests = 0;
    for page in 0..4 {
        ask(path, page);
        requests += std::iter::from_fn(|| path.poll_dispatch(Nanos(0))).count();
    }
    requests
}

#[test]
fn while_a_size_is_learnt_a_marker_comes_to_nothing() {
    let auto = Config::AUTO_WINDOW;
    let set = [["max_window", "131072"], ["policy", "linux-6"]];
    let learn = [["max_window", "auto"], ["policy", "adaptive"]];
    let cases = [
        (Policy::Adaptive, auto, None, 1),
        (Policy::Adaptive, Pages(32), None, 2),
        (Policy::Linux6, auto, None, 2),
        (Policy::Adaptive, auto, Some(set[0]), 2),
        (Policy::Adaptive, auto, Some(set[1]), 2),
        (Policy::Adaptive, Pages(32), Some(learn[0]), 1),
        (Policy::Linux6, auto, Some(learn[1]), 1),
    ];
    for (policy, max, setting, wanted) in cases {
        let mut path = path(policy, max, 8 << 20);
        let device = path.add_device(Geometry::new(ByteCount(0)), &SchedulerKind::Noop);
        if let Some([name, value]) = setting {
            path.set(name, value).unwrap();
        }
        let got = in_flight_at_the_marker(&mut path, device);
        assert_eq!(got, wanted, "{} {max:?} {setting:?}", policy.name());
    }
}

#[test]
fn a_device_that_is_to_be_learnt_gets_all_that_is_asked_for_at_once() {
    for op in [Op::Read, Op::Write] {
        let mut path = path(Policy::Adaptive, Config::AUTO_WINDOW, 8 << 20);
        let device = device(&mut path, 0);
        assert_eq!(at_once(&mut path, device, op), 8);
    }
}

#[test]
fn a_sequential_stream_reads_ahead_however_small_the_window_is_that_is_of_use() {
    for advice in [Advice::Normal, Advice::Sequential] {
        // Its size implies a window of one page.
        let mut path = path(Policy::Adaptive, Config::AUTO_WINDOW, 8 << 20);
        let device = device(&mut path, 300 << 10);
        let file = path.open(device, ByteCount(75 * PAGE)).unwrap();
        let stream = path.stream(file);
        path.advise(stream, advice);
        (0..70).for_each(|page| read(&mut path, stream, page, 1));
        assert!(path.stats().pages_ahead > 0, "{advice:?}: {:?}", path.stats());
    }
}

#[test]
fn a_hint_takes_no_unread_page_of_a_live_stream() {
    let mut path = path(Policy::Adaptive, Pages(16), 1 << 20);
    let device = device(&mut path, 0);
    let files: Vec<FileId> =
        (0..40).map(|_| path.open(device, ByteCount(1000 * PAGE)).unwrap()).collect();
    let streams: Vec<StreamId> = files.iter().map(|file| path.stream(*file)).collect();
    for step in 0..4 {
        for stream in &streams {
            read(&mut path, *stream, 2 * step, 2);
        }
    }
    let before = path.cache_stats().evicted_before_use;
    path.will_need(Nanos(0), files[0], PageIndex(500), Pages(400));
    run(&mut path);
    assert_eq!(path.cache_stats().evicted_before_use, before);
}

impl Random {
    fn pick(&mut self, of: usize) -> usize {
        usize::try_from(self.below(of as u64)).unwrap()
    }

    fn submitter(&mut self) -> Submitter {
        Submitter(u32::try_from(self.below(20)).unwrap())
    }
}

struct Chaos {
    path: IoPath,
    device: DeviceId,
    numbers: Random,
    now: u64,
    flying: VecDeque<(Tag, ByteCount)>,
    waiting: usize,
    readers: Vec<(FileId, StreamId, u64)>,
}

const LENS: [u64; 4] = [1 << 60, i64::MAX as u64, 3_000_000, 40_000];

impl Chaos {
    fn reader(&mut self, at: usize) {
        let len = LENS[at % LENS.len()];
        let file = self.path.open(self.device, ByteCount(len)).unwrap();
        let stream = self.path.stream(file);
        let pos = [0, len - len.min(2_000_000), len / 2][self.numbers.pick(3)];
        self.readers.push((file, stream, pos));
    }

    fn dispatch(&mut self) {
        while let Some(io) = self.path.poll_dispatch(Nanos(self.now)) {
            self.flying.push_back((io.tag, io.len));
        }
    }

    fn answer(&mut self) {
        let Some((tag, len)) = self.flying.pop_front() else { return };
        self.path.complete(Nanos(self.now), tag, Ok(len));
        while let Some(ready) = self.path.poll_ready() {
            self.path.release(Nanos(self.now), ready.id);
            self.waiting -= 1;
        }
    }

    fn step(&mut self) {
        let at = self.numbers.pick(self.readers.len());
        let (file, stream, pos) = self.readers[at];
        match self.numbers.below(40) {
            0 => {
                let (name, value) = [
                    ("policy", "adaptive"),
                    ("policy", "linux-6"),
                    ("policy", "adaptive"),
                    ("max_window", "auto"),
                    ("max_window", "0"),
                    ("max_window", "4096"),
                    ("max_window", "9223372036854775807"),
                ][self.numbers.pick(7)];
                self.path.set(name, value).unwrap();
            }
            1 => {
                let weight = [0, 1, 7, u32::MAX][self.numbers.pick(4)];
                let submitter = self.numbers.submitter();
                _ = self.path.set_weight(submitter, weight);
            }
            2 => self.path.set_submitter(stream, self.numbers.submitter()),
            3 => {
                let advice = [Advice::Normal, Advice::Sequential, Advice::Random];
                self.path.advise(stream, advice[self.numbers.pick(3)]);
            }
            4 => {
                self.path.close(Nanos(self.now), file);
                self.reader(at);
                self.readers.swap_remove(at);
            }
            5 => self.now = self.numbers.below(1 << 62),
            6 => self.now = self.now.saturating_sub(self.numbers.below(1 << 34)),
            7..20 => {
                self.now += self.numbers.below(1 << 22);
                self.answer();
            }
            choice => {
                let count = [1, 1, 2, 5, 40, 300][self.numbers.pick(6)] * PAGE;
                let pos = match (choice, at % 3) {
                    (20, _) => self.numbers.below(LENS[at % 4]),
                    (_, 0) => pos.saturating_sub(2 * PAGE),
                    (_, 1) => pos.saturating_add(8 * PAGE),
                    _ => pos,
                };
                let pos = pos.min(LENS[at % 4]);
                let prev = Some(ByteCount(self.readers[at].2));
                let len = ByteCount(if at % 3 == 2 { count } else { 2 * PAGE });
                self.waiting += 1;
                self.path.read(Nanos(self.now), stream, ByteCount(pos), len, prev);
                let is_forwards = at % 3 == 2;
                self.readers[at].2 = if is_forwards { pos.saturating_add(len.0) } else { pos };
            }
        }
        self.dispatch();
        while self.flying.len() > 30 {
            self.answer();
            self.dispatch();
        }
        while let Some(ready) = self.path.poll_ready() {
            self.path.release(Nanos(self.now), ready.id);
            self.waiting -= 1;
        }
        self.dispatch();
    }
}

#[test]
fn whatever_is_set_meanwhile_all_reads_end_and_nothing_is_left_of_closed_files() {
    for seed in 0..30 {
        let mut path =
            path(Policy::Adaptive, Config::AUTO_WINDOW, [1, 3][usize::from(seed % 2 == 1)] << 20);
        let device = device(&mut path, 0);
        let (numbers, flying) = (Random(seed), VecDeque::new());
        let mut chaos =
            Chaos { path, device, numbers, now: 0, flying, waiting: 0, readers: Vec::new() };
        (0..24).for_each(|at| chaos.reader(at));
        for _ in 0..4000 {
            chaos.step();
        }
        while chaos.waiting > 0 {
            assert!(!chaos.flying.is_empty(), "{seed}: a read waits for nothing");
            chaos.answer();
            chaos.dispatch();
        }
        while !chaos.flying.is_empty() {
            chaos.answer();
            chaos.dispatch();
        }
        let text = format!("{:?}", chaos.path);
        assert!(text.contains("is_there: true"), "{seed}: streams have shares");
        for (file, _, _) in std::mem::take(&mut chaos.readers) {
            chaos.path.close(Nanos(chaos.now), file);
        }
        let text = format!("{:?}", chaos.path);
        assert!(!text.contains("is_there: true"), "{seed}: a share is left");
        assert_eq!(chaos.path.idle_frames(), u64::from(chaos.path.frame_count()), "{seed}");
    }
}

/// Returns the largest request for a stream that waits for its reads, from the start of a new file.
fn largest_request(path: &mut IoPath, disk: Option<u64>, pages: u64) -> u64 {
    let device = path.add_device_on(disk, Geometry::new(ByteCount(0)), &SchedulerKind::Noop);
    let file = path.open(device, ByteCount(4000 * PAGE)).unwrap();
    let stream = path.stream(file);
    let (mut now, mut largest) = (Nanos(0), 0);
    let mut sent = VecDeque::new();
    for page in 0..pages {
        let prev = (page > 0).then_some(ByteCount(page * PAGE));
        let id = path.read(now, stream, ByteCount(page * PAGE), ByteCount(PAGE), prev);
        let ready = loop {
            sent.extend(std::iter::from_fn(|| path.poll_dispatch(now)));
            if let Some(ready) = path.poll_ready() {
                break ready;
            }
            let io: DeviceIo = sent.pop_front().expect("a read waits for it");
            // Each request costs as much as 10 MB.
            now = Nanos(now.0 + 10_000_000 + io.len.0);
            largest = largest.max(io.len.0 / PAGE);
            path.complete(now, io.tag, Ok(io.len));
        };
        assert_eq!(ready.id, id);
        path.release(now, id);
    }
    for io in sent {
        path.complete(now, io.tag, Ok(io.len));
    }
    path.close(now, file);
    path.remove_device(now, device);
    largest
}

#[test]
fn files_on_one_disk_share_its_learnt_model() {
    let mut path = path(Policy::Adaptive, Config::AUTO_WINDOW, 16 << 20);
    let learnt = largest_request(&mut path, Some(7), 3000);
    assert!(learnt > 100, "{learnt}");
    // A window of 32 pages is the default for a disk of unknown size.
    assert_eq!(largest_request(&mut path, Some(8), 100), 32);
    assert_eq!(largest_request(&mut path, None, 100), 32);
    assert!(largest_request(&mut path, Some(7), 200) > 32);
}
