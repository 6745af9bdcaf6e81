//! Devices learnt by another run: the gain, and the cost if the values are wrong. One sequential
//! reader of a virtual device starts with no estimate, with that of the same device, or with that
//! of another one; the test compares the bytes read in the first seconds of virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use foreread_core::geometry::Geometry;
use foreread_core::path::{Config, DeviceId, IoPath, StreamId, Tag};
use foreread_core::prefetch::{LearntCost, LearntDevice, Policy, Rules};
use foreread_core::sched::SchedulerKind;
use foreread_core::units::{ByteCount, Nanos, Pages};

const PAGE: u64 = 4096;

const SECOND: u64 = 1_000_000_000;

/// A device that serves `ways` requests at once.
#[derive(Clone, Copy, Debug)]
struct VirtualDevice {
    per_request_ns: u64,
    per_kib_ns: u64,
    ways: usize,
    max_io: u64,
}

const DEVICES: [VirtualDevice; 5] = [
    // 4 ms and 180 MB/s, one head.
    VirtualDevice { per_request_ns: 4_000_000, per_kib_ns: 5_700, ways: 1, max_io: 256 },
    VirtualDevice { per_request_ns: 9_000_000, per_kib_ns: 9_000, ways: 1, max_io: 64 },
    VirtualDevice { per_request_ns: 1_000_000, per_kib_ns: 6_800, ways: 8, max_io: 64 },
    VirtualDevice { per_request_ns: 150_000, per_kib_ns: 5_700, ways: 1, max_io: 256 },
    VirtualDevice { per_request_ns: 20_000_000, per_kib_ns: 10_000, ways: 16, max_io: 256 },
];

struct World {
    path: IoPath,
    device: DeviceId,
    stream: StreamId,
    model: VirtualDevice,
    /// Time at which each server of the device is free.
    free_at: Vec<u64>,
    in_flight: BinaryHeap<Reverse<(u64, Tag, ByteCount)>>,
    now: u64,
    pos: u64,
}

impl World {
    fn new(model: VirtualDevice, learnt: Option<LearntDevice>) -> Self {
        let config = Config {
            memory: ByteCount(256 << 20),
            policy: Policy::Adaptive,
            max_window: Config::AUTO_WINDOW,
            rules: Rules::default(),
        };
        let mut path = IoPath::new(config);
        path.record(if learnt.is_some() { 1 << 22 } else { 0 });
        let max_io = Pages(model.max_io);
        let geometry = Geometry { max_io, depth: 64, ..Geometry::new(ByteCount(1 << 50)) };
        let device = path.add_device(geometry, &SchedulerKind::learning());
        if let Some(learnt) = learnt {
            path.restore_device(device, learnt);
        }
        let file = path.open(device, ByteCount(1 << 40)).expect("the first file");
        let stream = path.stream(file);
        let (free_at, in_flight) = (vec![0; model.ways], BinaryHeap::new());
        Self { path, device, stream, model, free_at, in_flight, now: 0, pos: 0 }
    }

    /// Reads bytes at the position, and waits for them.
    fn read(&mut self, bytes: u64) {
        let prev = Some(ByteCount(self.pos)).filter(|pos| *pos > ByteCount::ZERO);
        let (now, len) = (Nanos(self.now), ByteCount(bytes));
        let id = self.path.read(now, self.stream, ByteCount(self.pos), len, prev);
        self.dispatch();
        while self.path.poll_ready().is_none() {
            let Reverse((end, tag, bytes)) = self.in_flight.pop().expect("the read waits for it");
            self.now = self.now.max(end);
            self.path.complete(Nanos(self.now), tag, Ok(bytes));
            self.dispatch();
        }
        self.path.release(Nanos(self.now), id);
        self.pos += bytes;
        self.now += 2_000;
        while let Some(Reverse((end, tag, bytes))) = self.in_flight.peek().copied()
            && end <= self.now
        {
            self.in_flight.pop();
            self.path.complete(Nanos(self.now), tag, Ok(bytes));
        }
        self.dispatch();
    }

    fn dispatch(&mut self) {
        while let Some(io) = self.path.poll_dispatch(Nanos(self.now)) {
            let server = self.free_at.iter_mut().min().expect("it has servers");
            let ns = self.model.per_request_ns + self.model.per_kib_ns * (io.len.0 / 1024);
            *server = self.now.max(*server) + ns;
            self.in_flight.push(Reverse((*server, io.tag, io.len)));
        }
    }

    /// Reads until `end`; returns the bytes read.
    fn read_until(&mut self, end: u64) -> u64 {
        let before = self.pos;
        while self.now < end {
            self.read(16 * PAGE);
        }
        self.pos - before
    }

    fn learnt(&self) -> LearntDevice {
        self.path.learnt_device(self.device).expect("it has read for seconds")
    }
}

fn percent(part: u64, of: u64) -> u64 {
    part * 100 / of
}

/// Returns the values that a run of some seconds learns of a device.
fn learnt(model: VirtualDevice) -> LearntDevice {
    let mut world = World::new(model, None);
    world.read_until(4 * SECOND);
    world.learnt()
}

#[test]
fn a_device_that_was_seen_before_is_at_its_plateau_at_once() {
    for model in DEVICES {
        let mut fresh = World::new(model, None);
        let fresh_begin = fresh.read_until(SECOND / 2);
        fresh.read_until(6 * SECOND);
        let plateau = fresh.read_until(8 * SECOND) / 2;
        let learnt = fresh.learnt();
        // Between 128 KiB and a request of 256 KiB, the cost of bytes cannot be determined.
        assert!(learnt.cost.is_some() || model.max_io == 64, "{model:?}");
        let mut again = World::new(model, Some(learnt));
        let begin = again.read_until(SECOND / 2);
        let rest = again.read_until(5 * SECOND / 2);
        println!(
            "{model:?}: of the plateau in 0.5 s {} % fresh, {} % again; in the next 2 s {} %",
            percent(2 * fresh_begin, plateau),
            percent(2 * begin, plateau),
            percent(rest / 2, plateau),
        );
        assert!(percent(rest / 2, plateau) >= 95, "{model:?}");
        assert!(percent(begin, fresh_begin) >= 99, "{model:?}: {begin} after {fresh_begin}");
        let log = again.path.take_log();
        foreread_core::replay::replay(again.path.config(), &log).expect("it decides the same");
    }
}

#[test]
fn a_device_that_has_changed_costs_a_part_of_a_second() {
    let learnt = DEVICES.map(learnt);
    for model in DEVICES {
        let mut fresh = World::new(model, None);
        let fresh = [fresh.read_until(2 * SECOND), fresh.read_until(4 * SECOND)];
        for (other, learnt) in DEVICES.iter().zip(learnt) {
            let mut again = World::new(model, Some(learnt));
            let again = [again.read_until(2 * SECOND), again.read_until(4 * SECOND)];
            let parts = [percent(again[0], fresh[0]), percent(again[1], fresh[1])];
            println!("{model:?} after {other:?}: {parts:?} %");
            assert!(parts[0] >= 75, "{model:?} after {other:?}: {parts:?} %");
            assert!(parts[1] >= 95, "{model:?} after {other:?}: {parts:?} %");
        }
    }
}

#[test]
fn a_record_that_lies_is_forgotten_after_eight_requests() {
    let model = DEVICES[0];
    let slow = LearntCost {
        per_request_ns: 1e9,
        per_kib_ns: 1e6,
        parallel: Some(1 << 16),
        min_parallel: 1 << 16,
    };
    let fresh = World::new(model, None).read_until(4 * SECOND);
    for cost in [slow, LearntCost { per_request_ns: 1.0, per_kib_ns: 0.0, ..slow }] {
        for window in [Pages(1), Pages(1 << 18)] {
            let lie = LearntDevice { window, cost: Some(cost) };
            let lied_to = World::new(model, Some(lie)).read_until(4 * SECOND);
            println!("{lie:?}: {} %", percent(lied_to, fresh));
            assert!(percent(lied_to, fresh) >= 95, "{lie:?}: {lied_to} of {fresh}");
        }
    }
}

/// An object store 20 ms away with 80 MB/s a connection, of which only the kind is known: the
/// values that the crate for objects uses for all stores.
#[test]
fn a_far_store_of_a_known_kind_is_near_its_plateau_from_the_start() {
    let store =
        VirtualDevice { per_request_ns: 20_000_000, per_kib_ns: 12_200, ways: 32, max_io: 256 };
    let cost =
        LearntCost { per_request_ns: 40e6, per_kib_ns: 15_500.0, parallel: None, min_parallel: 32 };
    let expected = LearntDevice { window: Pages(1 << 13), cost: Some(cost) };
    let mut fresh = World::new(store, None);
    fresh.read_until(8 * SECOND);
    let plateau = fresh.read_until(10 * SECOND) / 2;
    let mut world = World::new(store, Some(expected));
    while world.pos < 256 << 20 {
        world.read(32 * PAGE);
    }
    let rate = (256 << 20) * 1000 / (world.now / 1_000_000);
    println!("{} % of {plateau} bytes a second", percent(rate, plateau));
    assert!(percent(rate, plateau) >= 70, "{rate} of {plateau}");
    let rest = world.read_until(world.now + 2 * SECOND) / 2;
    assert!(percent(rest, plateau) >= 95, "{rest} of {plateau}");
}

#[test]
fn a_window_without_a_cost_is_where_learning_begins() {
    let model = DEVICES[0];
    let begin = LearntDevice { window: Pages(256), cost: None };
    let (mut fresh, mut from) = (World::new(model, None), World::new(model, Some(begin)));
    assert!(from.read_until(SECOND) > fresh.read_until(SECOND));
    assert!(from.learnt().window >= Pages(256));
    // An implausible value is ignored.
    let none = LearntDevice { window: Pages(3), cost: None };
    let mut from = World::new(model, Some(none));
    assert_eq!(from.read_until(SECOND), World::new(model, None).read_until(SECOND));
}

#[test]
fn own_measurements_override_a_remembered_model() {
    let known = learnt(DEVICES[0]);
    let mut world = World::new(DEVICES[0], None);
    let geometry = Geometry { max_io: Pages(256), ..Geometry::new(ByteCount(1 << 50)) };
    let mut opened = |known: Option<LearntDevice>| {
        let device = world.path.add_device_on(Some(7), geometry, &SchedulerKind::Noop);
        if let Some(known) = known {
            world.path.restore_device(device, known);
        }
        let file = world.path.open(device, ByteCount(1 << 40)).expect("there is room");
        (world.device, world.stream) = (device, world.path.stream(file));
        world.pos = 0;
        let end = world.now + SECOND / 4;
        world.read_until(end)
    };
    opened(Some(known));
    let small = LearntDevice { window: Pages(4), cost: None };
    let (second, third) = (opened(Some(small)), opened(None));
    assert!((80..=125).contains(&percent(second, third)), "{second} and {third}");
}
