//! `cfq`: orders and waits, computed by hand.

use alloc::vec::Vec;

use super::*;
use crate::sched::SchedulerKind;

/// Nothing: a request is known by its start.
#[derive(Debug)]
struct Nothing;

impl Payload for Nothing {
    fn can_take(&self, _next: &Self) -> bool {
        true
    }

    fn append(&mut self, _next: Self) {}
}

/// A queue with its clock in milliseconds, and what is in flight.
struct Bench {
    queue: Cfq<Nothing>,
    flying: Vec<(Origin, u64)>,
}

impl Bench {
    fn new(settings: &[(&str, &str)]) -> Self {
        let mut of_queue = CfqSettings::default();
        for (name, value) in settings {
            of_queue.set(name, value).unwrap();
        }
        Self { queue: Cfq::new(&of_queue, Sectors(8)), flying: Vec::new() }
    }

    fn read(&mut self, ms: u64, submitter: u32, start: u64) {
        self.add(ms, Op::Read, submitter, start);
    }

    fn write(&mut self, ms: u64, start: u64) {
        self.add(ms, Op::Write, 99, start);
    }

    fn add(&mut self, ms: u64, op: Op, submitter: u32, start: u64) {
        let origin = Origin { op, submitter: Submitter(submitter), ..Origin::default() };
        let (start, sectors) = (Sector(start), Sectors(8));
        let request = Request { start, sectors, origin, arrival: at(ms), load: Nothing };
        self.queue.add(at(ms), request);
    }

    /// The start of what is sent at a time.
    fn take(&mut self, ms: u64) -> Option<u64> {
        let request = self.queue.take(at(ms))?;
        self.flying.push((request.origin, request.start.0));
        Some(request.start.0)
    }

    fn complete(&mut self, ms: u64, start: u64) {
        let index = self.flying.iter().position(|(_, each)| *each == start).unwrap();
        let (origin, _) = self.flying.remove(index);
        self.queue.completed(at(ms), origin, at(0));
    }

    /// What is sent at a time, each completed at once.
    fn all(&mut self, ms: u64) -> Vec<u64> {
        let mut all = Vec::new();
        while let Some(start) = self.take(ms) {
            self.complete(ms, start);
            all.push(start);
        }
        all
    }
}

fn at(ms: u64) -> Nanos {
    Nanos(ms * 1_000_000)
}

#[test]
fn each_submitter_has_its_slice_in_turn() {
    let mut bench = Bench::new(&[]);
    for (submitter, start) in [(1, 100), (2, 5000), (1, 300), (2, 5100), (1, 200)] {
        bench.read(0, submitter, start);
    }
    // Submitter 1 in the order of the device, then nothing: it is expected back for 8 ms.
    assert_eq!(bench.all(0), [100, 200, 300]);
    assert_eq!(bench.queue.wake_at(), Some(at(8)));
    assert_eq!(bench.all(7), []);
    assert_eq!(bench.all(8), [5000, 5100]);
    assert!(bench.queue.is_empty());
    assert_eq!(bench.queue.wake_at(), None);
}

#[test]
fn a_submitter_that_is_back_in_time_goes_on_with_its_slice() {
    let mut bench = Bench::new(&[]);
    bench.read(0, 1, 100);
    bench.read(0, 2, 5000);
    assert_eq!(bench.all(0), [100]);
    bench.read(5, 1, 108);
    assert_eq!(bench.all(5), [108]);
    assert_eq!(bench.queue.wake_at(), Some(at(13)));
    assert_eq!(bench.all(13), [5000]);
}

#[test]
fn while_its_requests_are_in_flight_a_submitter_is_awaited() {
    let mut bench = Bench::new(&[]);
    bench.read(0, 1, 100);
    bench.read(0, 2, 5000);
    assert_eq!(bench.take(0), Some(100));
    assert_eq!(bench.take(50), None);
    assert_eq!(bench.queue.wake_at(), None, "a completion comes first");
    bench.complete(60, 100);
    assert_eq!(bench.take(67), None);
    assert_eq!(bench.take(68), Some(5000));
}

#[test]
fn a_slice_ends_when_its_time_is_over() {
    let mut bench = Bench::new(&[]);
    for start in [100, 200, 300] {
        bench.read(0, 1, start);
    }
    bench.read(0, 2, 5000);
    assert_eq!(bench.take(0), Some(100));
    // The slice runs from the end of the first request.
    bench.complete(20, 100);
    assert_eq!(bench.take(119), Some(200));
    bench.complete(120, 200);
    assert_eq!(bench.take(120), Some(5000), "100 ms are over");
    bench.complete(121, 5000);
    assert_eq!(bench.all(129), [300], "and what is left has another turn");
}

/// Two workers of a server take turns at one stream, and each is a submitter of its own.
#[test]
fn workers_of_one_stream_wait_for_each_other() {
    let mut bench = Bench::new(&[]);
    let (mut ms, mut sent_ms) = (0, Vec::new());
    for number in 0..5 {
        let start = u64::from(number) * 8;
        bench.read(ms, number % 2, start);
        if bench.take(ms).is_none() {
            ms = bench.queue.wake_at().expect("the other worker is awaited").0 / 1_000_000;
            assert_eq!(bench.take(ms), Some(start));
        }
        sent_ms.push(ms);
        ms += 1;
        bench.complete(ms, start);
    }
    // 1 ms of work, then 8 of waiting for the worker that has done its part.
    assert_eq!(sent_ms, [0, 9, 18, 27, 36]);
}

/// A submitter with a think time above the idle window is not awaited, once three samples show it.
#[test]
fn a_submitter_that_thinks_for_long_is_not_awaited() {
    let mut bench = Bench::new(&[]);
    let mut ms = 0;
    for round in 0..4 {
        bench.read(ms, 1, 100 + round * 8);
        assert_eq!(bench.take(ms), Some(100 + round * 8));
        ms += 1;
        bench.complete(ms, 100 + round * 8);
        if round < 3 {
            ms += 20;
        }
    }
    bench.read(ms, 2, 5000);
    assert_eq!(bench.take(ms), Some(5000), "20 ms is more than 8");

    let mut bench = Bench::new(&[("slice_idle", "0")]);
    bench.read(0, 1, 100);
    bench.read(0, 2, 5000);
    assert_eq!(bench.all(0), [100, 5000], "no submitter is awaited");
}

#[test]
fn writes_of_all_share_a_queue_and_have_two_requests_a_turn() {
    let mut bench = Bench::new(&[("slice_idle", "0")]);
    for start in [900, 910, 920, 930] {
        bench.write(0, start);
    }
    bench.read(0, 1, 100);
    assert_eq!(bench.all(0), [900, 910, 100, 920, 930]);
}

#[test]
fn no_more_than_the_quantum_is_in_flight_while_others_wait() {
    let mut bench = Bench::new(&[("quantum", "2")]);
    for start in (0..20).map(|number| 100 + number * 10) {
        bench.read(0, 1, start);
    }
    let mut count = 0;
    while bench.take(0).is_some() {
        count += 1;
    }
    assert_eq!(count, 8, "alone, four times as many");
    bench.read(0, 2, 5000);
    for start in [100, 110, 120, 130, 140, 150] {
        bench.complete(1, start);
        assert_eq!(bench.take(1), None, "two others are still in flight");
    }
    bench.complete(1, 160);
    assert_eq!(bench.take(1), Some(180));
}

/// Up to 16 MiB back, and twice as dear as ahead.
#[test]
fn a_short_way_back_may_be_the_shortest() {
    let order = |start: u64, others: [u64; 2]| {
        let mut bench = Bench::new(&[]);
        bench.read(0, 1, start);
        assert_eq!(bench.take(0), Some(start));
        others.into_iter().for_each(|other| bench.read(0, 1, other));
        bench.complete(0, start);
        bench.all(0)
    };
    // From 100008: 1008 back counts 2016.
    assert_eq!(order(100_000, [99_000, 102_100]), [99_000, 102_100]);
    assert_eq!(order(100_000, [99_000, 102_000]), [102_000, 99_000]);
    // 32768 sectors are 16 MiB.
    assert_eq!(order(100_000, [67_240, 900_000]), [67_240, 900_000]);
    assert_eq!(order(100_000, [67_239, 900_000]), [900_000, 67_239]);
}

#[test]
fn the_oldest_begins_a_slice_if_it_has_expired() {
    let order = |ms| {
        let mut bench = Bench::new(&[]);
        bench.read(0, 1, 500);
        bench.read(10, 1, 100);
        bench.read(10, 1, 600);
        bench.all(ms)
    };
    assert_eq!(order(124), [100, 500, 600]);
    assert_eq!(order(125), [500, 600, 100]);
}

#[test]
fn neighbours_of_one_submitter_merge() {
    let queue = |max| Cfq::<Nothing>::new(&CfqSettings::default(), Sectors(max));
    let mut bench = Bench { queue: queue(64), flying: Vec::new() };
    for (submitter, start) in [(1, 100), (1, 116), (2, 124), (1, 108), (1, 92)] {
        bench.read(0, submitter, start);
    }
    let request = bench.queue.take(at(0)).unwrap();
    assert_eq!((request.start, request.sectors), (Sector(92), Sectors(32)));
    assert!(!bench.queue.is_empty());
    bench.queue.completed(at(0), request.origin, request.arrival);
    assert_eq!(bench.all(8), [124]);
    assert!(bench.queue.is_empty());
}

#[test]
fn a_device_that_is_gone_gives_all_back() {
    let mut bench = Bench::new(&[]);
    bench.read(0, 1, 100);
    bench.read(0, 2, 200);
    bench.write(0, 300);
    assert_eq!(bench.take(0), Some(100));
    bench.read(0, 1, 400);
    let mut starts: Vec<_> = bench.queue.drain().iter().map(|each| each.start.0).collect();
    starts.sort_unstable();
    assert_eq!(starts, [200, 300, 400]);
    assert!(bench.queue.is_empty());
    bench.complete(1, 100);
    assert_eq!(bench.take(100), None);
    bench.read(100, 2, 200);
    assert_eq!(bench.take(100), Some(200));
}

#[test]
fn too_many_submitters_are_forgotten() {
    let mut bench = Bench::new(&[("slice_idle", "0")]);
    for submitter in 0..10_000 {
        bench.read(0, submitter, 100);
        assert_eq!(bench.all(0), [100]);
    }
    assert!(bench.queue.members.len() <= MOST_REMEMBERED + 1);
}

#[test]
fn all_settings_can_be_set_by_their_names() {
    for name in CfqSettings::NAMES {
        let mut choice = SchedulerKind::from_name("cfq").unwrap();
        choice.set(name, "77").unwrap();
        assert_ne!(choice, SchedulerKind::from_name("cfq").unwrap(), "{name}");
    }
    let error = CfqSettings::default().set("slice", "1").unwrap_err();
    assert!(error.to_string().contains("there are quantum, slice_sync"), "{error}");
}
