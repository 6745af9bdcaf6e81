//! The order of a device's reads under `adaptive`: demand reads before read-ahead. Also the
//! handling of resident pages inside a window. The windows themselves are checked in adaptive.rs.

use std::collections::VecDeque;

use foreread_core::geometry::Geometry;
use foreread_core::path::{Config, DeviceId, DeviceIo, FileId, IoPath, StreamId};
use foreread_core::prefetch::{AdaptivePart, Policy, Rules, Without};
use foreread_core::sched::SchedulerKind;
use foreread_core::units::{ByteCount, Nanos, PageIndex, Pages};

const PAGE: u64 = 4096;

/// A path whose device has one request in flight.
struct World {
    path: IoPath,
    device: DeviceId,
    file: FileId,
    stream: StreamId,
    now: Nanos,
    in_flight: Option<DeviceIo>,
    /// Requests so far, by their first page.
    asked: Vec<u64>,
}

impl World {
    fn new(policy: Policy, without: Without) -> Self {
        let rules = Rules { without, ..Rules::default() };
        let (memory, max_window) = (ByteCount(16 << 20), Pages(32));
        let mut path = IoPath::new(Config { memory, policy, max_window, rules });
        let geometry =
            Geometry { max_io: Pages(64), depth: 1, ..Geometry::new(ByteCount(1 << 32)) };
        let device = path.add_device(geometry, &SchedulerKind::Noop);
        let file = path.open(device, ByteCount(1 << 30)).unwrap();
        let stream = path.stream(file);
        let (now, in_flight, asked) = (Nanos(0), None, Vec::new());
        let mut world = Self { path, device, file, stream, now, in_flight, asked };
        world.read(100_000);
        world.pump();
        assert_eq!(world.asked, [100_000], "the device is at work");
        world
    }

    fn adaptive() -> Self {
        Self::new(Policy::Adaptive, Without::default())
    }

    fn hint(&mut self, page: u64, pages: u64) {
        let asked = self.path.will_need(self.now, self.file, PageIndex(page), Pages(pages));
        assert_eq!(asked, Pages(pages));
    }

    fn read(&mut self, page: u64) {
        self.read_pages(page, 1);
    }

    fn read_pages(&mut self, page: u64, count: u64) {
        let (pos, len) = (ByteCount(page * PAGE), ByteCount(count * PAGE));
        self.path.read(self.now, self.stream, pos, len, None);
    }

    fn pump(&mut self) {
        if let Some(io) = self.path.poll_dispatch(self.now) {
            self.asked.push(io.offset.0 / PAGE);
            self.in_flight = Some(io);
        }
    }

    /// Completes the request in flight; returns false if there was none.
    fn answer(&mut self) -> bool {
        let Some(DeviceIo { tag, len, .. }) = self.in_flight.take() else { return false };
        self.now.0 += 1_000_000 + 10_000 * len.0 / PAGE;
        self.path.complete(self.now, tag, Ok(len));
        while let Some(ready) = self.path.poll_ready() {
            self.path.release(self.now, ready.id);
        }
        self.path.assert_consistent();
        self.pump();
        true
    }

    /// Returns the remaining requests in order.
    fn rest(mut self) -> Vec<u64> {
        while self.answer() {}
        assert!(!self.path.is_dispatch_pending(), "all was sent");
        self.asked.split_off(1)
    }
}

#[test]
fn a_demand_read_goes_before_read_ahead_that_was_queued_earlier() {
    let order = |mut world: World| {
        world.hint(500, 8);
        world.read(9_000);
        world.rest()
    };
    assert_eq!(order(World::adaptive()), [9_000, 500]);
    let without = Without::from_iter([AdaptivePart::Order]);
    assert_eq!(order(World::new(Policy::Adaptive, without)), [500, 9_000]);
    assert_eq!(order(World::new(Policy::Linux6, Without::default())), [500, 9_000]);
}

#[test]
fn read_ahead_that_a_reader_comes_to_is_a_demand_read_from_then_on() {
    let mut world = World::adaptive();
    world.hint(500, 8);
    world.hint(700, 8);
    world.read(9_000);
    world.read(705);
    world.read(9_500);
    assert_eq!(world.rest(), [9_000, 700, 9_500, 500]);
}

#[test]
fn read_ahead_is_not_starved_by_demand_reads() {
    let mut world = World::adaptive();
    world.hint(500, 8);
    world.hint(700, 8);
    for number in 0..100 {
        world.read(9_000 + 100 * number);
        world.read(9_050 + 100 * number);
        world.answer();
    }
    let place = |page| world.asked.iter().position(|asked| *asked == page);
    assert_eq!((place(500), place(700)), (Some(17), Some(34)), "{:?}", world.asked);
}

#[test]
fn a_sequential_request_is_dispatched_with_its_predecessor() {
    let mut world = World::adaptive();
    world.hint(100_001, 8);
    world.hint(500, 8);
    world.read(9_000);
    assert_eq!(world.rest(), [100_001, 9_000, 500]);
}

#[test]
fn a_demand_read_is_not_starved_by_a_stream_that_goes_on() {
    let mut world = World::adaptive();
    world.read(9_000);
    for number in 0..100 {
        world.hint(100_001 + 8 * number, 8);
        world.answer();
    }
    let place = world.asked.iter().position(|asked| *asked == 9_000);
    assert_eq!(place, Some(17), "{:?}", world.asked);
}

#[test]
fn queued_read_ahead_merges_with_its_neighbours() {
    let mut world = World::adaptive();
    for page in [508, 500, 516, 504, 512] {
        world.hint(page, 4);
    }
    world.hint(700, 8);
    assert_eq!(world.rest(), [500, 700]);
}

#[test]
fn queued_read_ahead_is_dropped_with_its_device() {
    let mut world = World::adaptive();
    world.hint(500, 8);
    world.read(503);
    let file = world.file;
    world.path.close(world.now, file);
    world.path.remove_device(world.now, world.device);
    while world.path.poll_ready().is_some() {}
    world.path.assert_consistent();
    assert!(!world.path.is_dispatch_pending());
}

#[test]
fn read_ahead_begins_where_another_policy_left_the_order() {
    let mut world = World::adaptive();
    world.hint(500, 8);
    world.path.set("policy", "linux-6").unwrap();
    world.hint(700, 8);
    world.read(9_000);
    // Queued read-ahead goes when no demand read waits, or when its turn comes.
    assert_eq!(world.rest(), [700, 9_000, 500]);
}

/// Reads pages so that they are resident, and drains the device.
fn fill(world: &mut World, page: u64, count: u64) {
    world.read_pages(page, count);
    world.pump();
    while world.answer() {}
}

#[test]
fn a_window_reads_through_a_few_resident_pages_where_that_saves_a_request() {
    let asks = |without: Without| {
        let mut world = World::new(Policy::Adaptive, without);
        while world.answer() {}
        // Learns the cost of a request, which equals a hundred pages.
        (1..40).for_each(|number| fill(&mut world, 20_000 + 1_000 * number, 1 + number % 16));
        [5_003, 5_010, 5_006].into_iter().for_each(|page| fill(&mut world, page, 1));
        world.asked.clear();
        world.read_pages(5_000, 16);
        world.pump();
        let sizes = world.in_flight.map(|io| io.len.0 / PAGE);
        while world.answer() {}
        (sizes, world.asked.len())
    };
    let (first, requests) = asks(Without::default());
    assert!(first >= Some(16), "one request for all of the read: {first:?}");
    assert_eq!(requests, 1);
    let (first, requests) = asks(Without::from_iter([AdaptivePart::Gaps]));
    assert_eq!((first, requests), (Some(3), 4));
}

/// Returns the number of windows, of twenty, in flight on a device of depth 16 that serves two
/// requests at once, shortly after demand reads.
fn ahead_at_the_device(scheduler: &SchedulerKind) -> usize {
    let rules = Rules::default();
    let (memory, max_window) = (ByteCount(16 << 20), Pages(32));
    let mut path = IoPath::new(Config { memory, policy: Policy::Adaptive, max_window, rules });
    let geometry = Geometry { max_io: Pages(64), depth: 16, ..Geometry::new(ByteCount(1 << 32)) };
    let device = path.add_device(geometry, scheduler);
    let file = path.open(device, ByteCount(1 << 30)).unwrap();
    let mut now = Nanos(0);
    for round in 0..200 {
        for reader in 0..1 << (round % 4) {
            let stream = path.stream(file);
            let page = 100 + 500 * round + 31 * reader;
            path.read(now, stream, ByteCount(page * PAGE), ByteCount(PAGE), None);
        }
        serve(&mut path, &mut now);
    }
    for window in 0..20 {
        path.will_need(now, file, PageIndex(200_000 + 1_000 * window), Pages(4));
    }
    let (most, windows) = serve(&mut path, &mut now);
    assert_eq!(windows, 20, "all of them were read");
    most
}

/// Serves all requests, two at once; returns the largest number in flight, and their total.
fn serve(path: &mut IoPath, now: &mut Nanos) -> (usize, usize) {
    let (mut there, mut most, mut all) = (VecDeque::new(), 0, 0);
    loop {
        let before = there.len();
        there.extend(std::iter::from_fn(|| path.poll_dispatch(*now)));
        path.assert_consistent();
        (most, all) = (most.max(there.len()), all + there.len() - before);
        if there.is_empty() {
            return (most, all);
        }
        now.0 += 1_000_000;
        for DeviceIo { tag, len, .. } in there.drain(..there.len().min(2)) {
            path.complete(*now, tag, Ok(len));
        }
        while let Some(ready) = path.poll_ready() {
            path.release(*now, ready.id);
        }
    }
}

#[test]
fn while_demand_reads_come_a_device_has_no_more_windows_than_it_serves() {
    assert_eq!(ahead_at_the_device(&SchedulerKind::Noop), 3);
    assert_eq!(ahead_at_the_device(&SchedulerKind::learning()), 3);
}

/// Late read-ahead was never hedged for a reader that had come to wait for it.
#[test]
fn read_ahead_in_flight_that_a_reader_comes_to_is_told_to_the_driver_once() {
    let mut world = World::adaptive();
    world.hint(500, 8);
    world.answer();
    let io = world.in_flight.as_ref().expect("the hint").tag;
    assert!(world.path.is_ahead(io));
    assert_eq!(world.path.poll_joined(), None, "no reader waits");
    world.read_pages(502, 3);
    world.read(505);
    assert_eq!(world.path.poll_joined(), Some((world.device, io)));
    world.read(506);
    assert_eq!(world.path.poll_joined(), None, "it is known");
    assert_eq!(world.rest(), [500]);
}

#[test]
fn a_joined_request_that_has_ended_is_forgotten() {
    let mut world = World::adaptive();
    world.read(100_000);
    world.read(9_000);
    world.answer();
    world.read(700);
    assert_eq!(world.path.poll_joined(), None, "what was joined has ended");
    world.read(9_000);
    assert!(world.path.poll_joined().is_some(), "a demand read can be joined, too");
}
