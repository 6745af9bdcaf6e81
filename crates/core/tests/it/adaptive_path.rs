//! `adaptive` over the path's own cache when frames are scarce: a window is read as a whole or not
//! at all, and streams continue once frames are available. Unit tests and the simulator check the
//! size of a stream's share.

use std::ops::Range;

use foreread_core::geometry::Geometry;
use foreread_core::path::{Config, DeviceIo, FileId, IoPath, ReadId, StreamId};
use foreread_core::prefetch::{Advice, Policy, Rules};
use foreread_core::sched::SchedulerKind;
use foreread_core::units::{ByteCount, Nanos, PageIndex, Pages};

const PAGE: u64 = 4096;

/// Start of reads that only fill the cache.
const ELSEWHERE: u64 = 1 << 20;

struct World {
    path: IoPath,
    file: FileId,
    stream: StreamId,
    prev_pos: Option<ByteCount>,
    now: u64,
}

impl World {
    fn new(policy: Policy, max: u64) -> Self {
        let (memory, max_window) = (ByteCount(1 << 20), Pages(max));
        let mut path = IoPath::new(Config { memory, policy, max_window, rules: Rules::default() });
        let geometry = Geometry { max_io: Pages(64), depth: 4, ..Geometry::new(ByteCount(0)) };
        let device = path.add_device(geometry, &SchedulerKind::Noop);
        let file = path.open(device, ByteCount((1 << 22) * PAGE)).unwrap();
        let stream = path.stream(file);
        Self { path, file, stream, prev_pos: None, now: 0 }
    }

    fn frames(&self) -> u64 {
        self.path.frame_count().into()
    }

    fn hint(&mut self, pages: Range<u64>) -> u64 {
        let count = Pages(pages.end - pages.start);
        let now = Nanos(self.now);
        let asked = self.path.will_need(now, self.file, PageIndex(pages.start), count).0;
        self.run();
        asked
    }

    /// Completes all requests. Returns the number of pages requested.
    fn run(&mut self) -> u64 {
        let mut pages = 0;
        let now = Nanos(self.now);
        while let Some(DeviceIo { tag, len, .. }) = self.path.poll_dispatch(now) {
            pages += len.0 / PAGE;
            self.path.complete(now, tag, Ok(len));
        }
        pages
    }

    /// Begins a read without releasing it.
    fn begin(&mut self, page: u64, count: u64) -> (ReadId, u64) {
        self.now += 1_000_000;
        let (pos, len) = (ByteCount(page * PAGE), ByteCount(count * PAGE));
        let id = self.path.read(Nanos(self.now), self.stream, pos, len, self.prev_pos);
        self.prev_pos = Some(pos + len);
        let pages = self.run();
        let ready = self.path.poll_ready().expect("the device has answered");
        assert_eq!((ready.id, ready.len), (id, len));
        (id, pages)
    }

    /// Returns the number of pages requested from the device.
    fn read(&mut self, page: u64, count: u64) -> u64 {
        let (id, pages) = self.begin(page, count);
        self.path.release(Nanos(self.now), id);
        pages
    }

    /// Reads page by page until one is missing; returns that page.
    fn read_what_is_there(&mut self, mut pages: impl Iterator<Item = u64>) -> u64 {
        let (table, slot) = (self.path.table(), IoPath::slot(self.file));
        let is_missing = |page: &u64| {
            let missing = table.look_up(slot, PageIndex(*page)).is_none();
            if !missing {
                self.read(*page, 1);
            }
            missing
        };
        pages.find(is_missing).expect("what is there ends")
    }

    /// Fills the cache until no frame is free and no resident page is read ahead.
    fn fill(&mut self, pages: u64) {
        self.path.advise(self.stream, Advice::Random);
        for number in 0..pages {
            self.read(ELSEWHERE + 3 * number, 1);
        }
        self.path.advise(self.stream, Advice::Normal);
    }

    /// Holds frames so that `left` remain for read-ahead; a quarter is reserved for pins.
    fn hold_all_but(&mut self, left: u64) -> Vec<ReadId> {
        self.path.advise(self.stream, Advice::Random);
        let all = self.frames() - self.frames() / 4 - left;
        let ids = (0..all).map(|number| self.begin(2 * ELSEWHERE + 3 * number, 1).0).collect();
        self.path.advise(self.stream, Advice::Normal);
        ids
    }

    fn let_go(&mut self, ids: Vec<ReadId>) {
        ids.into_iter().for_each(|id| self.path.release(Nanos(self.now), id));
    }
}

#[test]
fn a_stream_that_begins_behind_what_others_read_has_its_whole_window() {
    let mut world = World::new(Policy::Adaptive, 24);
    world.fill(2 * world.frames());
    assert_eq!(world.hint(100..120), 20);
    world.read(120, 1);
    world.fill(50);
    assert_eq!(world.read(121, 1), 21, "as many as lie before it, and no more");
    let shortened = world.path.stats().windows_shortened;
    assert_eq!(shortened, 0, "what is not there was known before");
    for page in 122..300 {
        world.read(page, 1);
    }
    assert_eq!(world.path.stats().windows_shortened, 0);
}

#[test]
fn reads_at_random_make_room_for_themselves_only() {
    let mut world = World::new(Policy::Adaptive, 24);
    let reads = 4 * world.frames();
    for number in 1..=reads {
        // No two pages are adjacent, and no two distances are equal.
        world.read((number * number * 7919) % (1 << 21) * 2, 1);
    }
    let stats = world.path.stats();
    assert_eq!((stats.pages_ahead, stats.pages_missed), (0, reads), "{stats:?}");
    let evicted = world.path.cache_stats().evictions;
    assert!(evicted <= reads - world.frames() + 1, "{evicted} of {reads}");
}

#[test]
fn a_window_is_as_large_as_can_be_had_when_a_quarter_is_kept_for_pins() {
    let mut world = World::new(Policy::Adaptive, 24);
    for page in 0..30 {
        world.read(page, 1);
    }
    // More frames are free, but at most five may be filled.
    let ids = world.hold_all_but(5);
    let missed = world.path.stats().pages_missed;
    for page in 30..200 {
        world.read(page, 1);
    }
    world.let_go(ids);
    for page in 200..400 {
        world.read(page, 1);
    }
    let stats = world.path.stats();
    assert_eq!((stats.windows_shortened, stats.pages_missed - missed), (0, 0));
}

#[test]
fn a_stream_that_goes_backwards_goes_on_when_its_window_could_not_be_had() {
    let mut world = World::new(Policy::Adaptive, 24);
    for page in (4000..4030).rev() {
        world.read(page, 1);
    }
    let ids = world.hold_all_but(5);
    // A read that waits for frames, so that nothing is read ahead.
    let (now, len) = (Nanos(world.now), ByteCount(20 * PAGE));
    let other = world.path.stream(world.file);
    let waits = world.path.read(now, other, ByteCount((1 << 21) * PAGE), len, None);
    let end = world.read_what_is_there((0..4000).rev());
    let evicted = world.path.cache_stats().evicted_before_use;
    world.let_go(ids);
    world.run();
    assert_eq!(world.path.poll_ready().map(|ready| ready.id), Some(waits));
    world.let_go(vec![waits]);
    assert_eq!((world.path.stats().windows_shortened, evicted), (1, 0));
    let missed = world.path.stats().pages_missed;
    for page in (end - 200..=end).rev() {
        world.read(page, 1);
    }
    let missed = world.path.stats().pages_missed - missed;
    assert!(missed <= 2, "{missed} of 200 reads waited");
}

/// With linux-6, hinted pages are evicted in their turn. With adaptive, a stream uses its own
/// frames, and the hinted pages' turn might never come.
#[test]
fn unused_hints_make_room_for_others_in_time() {
    for policy in [Policy::Linux6, Policy::Adaptive] {
        let mut world = World::new(policy, 24);
        let half = world.frames() / 2;
        assert_eq!(world.hint(ELSEWHERE..2 * ELSEWHERE), half);
        assert_eq!(world.hint(3 * ELSEWHERE..3 * ELSEWHERE + 1), 0);
        for page in 0..3 * world.frames() {
            world.read(page, 1);
        }
        let asked =
            (0..half).map(|page| world.hint(3 * ELSEWHERE + page..3 * ELSEWHERE + page + 1));
        let asked: u64 = asked.sum();
        assert!(asked >= half - half / 8, "{}: {asked} of {half}", policy.name());
    }
}
