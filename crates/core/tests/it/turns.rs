//! Positions that one handle reads in turns from a device far away: the requests for several
//! positions made together during each read. Window sizes and the gain are in `store_streams` of
//! the simulator.

#![cfg(not(loom))]

use std::collections::BTreeSet;

use foreread_core::geometry::Geometry;
use foreread_core::path::{Config, FileId, IoPath, StreamId};
use foreread_core::prefetch::{LearntCost, LearntDevice, Policy, Rules};
use foreread_core::sched::SchedulerKind;
use foreread_core::units::{ByteCount, Nanos, PageIndex, Pages};

const PAGE: u64 = 4096;

/// Pages in a read.
const READ: u64 = 4;

/// Returns the first page of a position. No two distances are equal.
fn place(position: u64) -> u64 {
    1000 * position * position
}

/// A handle, and a device that takes 20 ms for each request.
struct World {
    path: IoPath,
    file: FileId,
    stream: StreamId,
    prev_pos: Option<ByteCount>,
    now: u64,
}

impl World {
    fn new() -> Self {
        let mut path = IoPath::new(Config {
            memory: ByteCount(64 << 20),
            policy: Policy::Adaptive,
            max_window: Config::AUTO_WINDOW,
            rules: Rules::default(),
        });
        let geometry =
            Geometry { max_io: Pages(64), depth: 64, ..Geometry::new(ByteCount(1 << 40)) };
        let device = path.add_device(geometry, &SchedulerKind::Noop);
        let cost = LearntCost {
            per_request_ns: 20e6,
            per_kib_ns: 100.0,
            parallel: None,
            min_parallel: 32,
        };
        path.restore_device(device, LearntDevice { window: Pages(1 << 11), cost: Some(cost) });
        let file = path.open(device, ByteCount((1 << 22) * PAGE)).expect("the first file");
        let stream = path.stream(file);
        Self { path, file, stream, prev_pos: None, now: 0 }
    }

    /// Completes all requests; returns their positions.
    fn run(&mut self) -> BTreeSet<u64> {
        let mut positions = BTreeSet::new();
        loop {
            let now = Nanos(self.now);
            let ios: Vec<_> = std::iter::from_fn(|| self.path.poll_dispatch(now)).collect();
            if ios.is_empty() {
                return positions;
            }
            self.now += 20_000_000;
            for io in ios {
                let page = io.offset.0 / PAGE;
                positions.extend((1..).take_while(|position| place(*position) <= page).last());
                self.path.complete(Nanos(self.now), io.tag, Ok(io.len));
            }
        }
    }

    /// Makes the read of a position that follows `after` others there.
    fn read(&mut self, position: u64, after: u64) -> Vec<u64> {
        let page = place(position) + after * READ;
        let (pos, len) = (ByteCount(page * PAGE), ByteCount(READ * PAGE));
        let id = self.path.read(Nanos(self.now), self.stream, pos, len, self.prev_pos);
        self.prev_pos = Some(pos + len);
        let positions = self.run();
        let ready = self.path.poll_ready().expect("the device has answered");
        assert_eq!((ready.id, ready.len), (id, len));
        self.path.release(Nanos(self.now), id);
        self.path.assert_consistent();
        positions.into_iter().collect()
    }
}

#[test]
fn all_positions_go_on_together_after_two_of_them_in_their_order() {
    let mut world = World::new();
    for position in 1..=6 {
        assert_eq!(world.read(position, 0), [position]);
    }
    assert_eq!(world.read(1, 1), [1]);
    assert_eq!(world.read(2, 1), [2, 3, 4, 5, 6]);
    for position in 3..=6 {
        assert_eq!(world.read(position, 1), [], "it is there");
    }
}

/// The first one with a resident page ended it: later positions waited for a request each.
#[test]
fn a_position_whose_page_is_there_does_not_hold_up_the_others() {
    let mut world = World::new();
    for position in 1..=6 {
        world.read(position, 0);
    }
    let next = PageIndex(place(3) + READ);
    world.path.will_need(Nanos(world.now), world.file, next, Pages(1));
    assert_eq!(world.run(), BTreeSet::from([3]));
    assert_eq!(world.read(1, 1), [1]);
    assert_eq!(world.read(2, 1), [2, 4, 5, 6]);
}

/// It became a random read that its reader had never made, and ended the turns.
#[test]
fn a_position_that_was_evicted_is_passed_over() {
    let mut world = World::new();
    for position in 1..=10 {
        world.read(position, 0);
    }
    // So many came after the first two that only a third read in a row makes a stream of each.
    assert_eq!([world.read(1, 1), world.read(2, 1)], [[1], [2]]);
    for position in 11..=20 {
        assert_eq!(world.read(position, 0), [position]);
    }
    let evicted = PageIndex(place(11))..PageIndex(place(11) + READ);
    world.path.invalidate(Nanos(world.now), world.file, evicted);
    assert_eq!(world.read(1, 2), [1]);
    assert_eq!(world.read(2, 2), [2, 12, 13, 14, 15, 16, 17, 18, 19, 20]);
}
