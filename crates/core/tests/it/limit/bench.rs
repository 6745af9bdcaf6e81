//! A path with one device of known cost, writers that never stop, and a chain of reads.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use foreread_core::geometry::Geometry;
use foreread_core::path::{Config, DeviceId, DeviceState, DirectId, IoPath, Tag};
use foreread_core::prefetch::{Policy, Rules};
use foreread_core::sched::{Op, Origin, SchedulerKind};
use foreread_core::units::{ByteCount, Nanos, Pages, Sector, Sectors};

pub(crate) const US: u64 = 1000;
pub(crate) const MS: u64 = 1_000_000;

/// A device that serves `parallel` requests at once, first come, first served.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Model {
    pub(crate) service_ns: u64,
    pub(crate) parallel: usize,
}

pub(crate) const ONE_HEAD: Model = Model { service_ns: 4 * MS, parallel: 1 };
pub(crate) const EIGHT_WAYS: Model = Model { service_ns: MS, parallel: 8 };
pub(crate) const SIXTY_FOUR_WAYS: Model = Model { service_ns: MS / 2, parallel: 64 };

pub(crate) struct Bench {
    pub(crate) path: IoPath,
    pub(crate) device: DeviceId,
    pub(crate) now_ns: u64,
    /// Number of writes queued or in flight at a time.
    pub(crate) writers: usize,
    /// True if requests in flight do not complete.
    pub(crate) device_stalls: bool,
    /// Number of writes that have ended.
    pub(crate) written: u64,
    pub(crate) asked: u64,
    pub(crate) done: u64,
    model: Model,
    free_at_ns: Vec<u64>,
    bus_ns: u64,
    ends: BinaryHeap<Reverse<(u64, u64)>>,
    flying: HashMap<u64, (Tag, ByteCount)>,
    number: u64,
    writes: HashMap<DirectId, ()>,
    place: u64,
    sent: [u64; 2],
    sent_at_ns: HashMap<u64, u64>,
}

impl Bench {
    pub(crate) fn of(model: Model, choice: &SchedulerKind) -> Self {
        let config = Config {
            memory: ByteCount(1 << 20),
            policy: Policy::None,
            max_window: Pages(1),
            rules: Rules::default(),
        };
        let mut path = IoPath::new(config);
        let geometry = Geometry { depth: 256, ..Geometry::new(ByteCount(1 << 40)) };
        let device = path.add_device(geometry, choice);
        Self {
            path,
            device,
            now_ns: 0,
            writers: 0,
            device_stalls: false,
            written: 0,
            asked: 0,
            done: 0,
            model,
            free_at_ns: vec![0; model.parallel],
            bus_ns: 0,
            ends: BinaryHeap::new(),
            flying: HashMap::new(),
            number: 0,
            writes: HashMap::new(),
            place: 0,
            sent: [0; 2],
            sent_at_ns: HashMap::new(),
        }
    }

    /// Changes the device: requests in flight end as scheduled, later ones are served by the new
    /// model.
    pub(crate) fn becomes(&mut self, model: Model) {
        self.model = model;
        self.bus_ns = 0;
        self.free_at_ns = vec![self.now_ns; model.parallel];
    }

    pub(crate) fn state(&self) -> DeviceState {
        self.path.device_state(self.device).expect("it is there")
    }

    pub(crate) fn settings(&self) -> Vec<(&'static str, String)> {
        self.path.scheduler_settings(self.device)
    }

    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.path.set_scheduler(self.device, name, value).unwrap();
    }

    pub(crate) fn sent(&self, op: Op) -> u64 {
        self.sent[op as usize]
    }

    /// Returns the time at which the request starting there was dispatched.
    pub(crate) fn sent_at(&self, start: u64) -> Option<u64> {
        self.sent_at_ns.get(&start).copied()
    }

    /// Lets time pass, with the writers at work.
    pub(crate) fn go(&mut self, ns: u64) {
        let until = self.now_ns + ns;
        self.pump();
        while self.step(until) {}
        self.now_ns = until;
    }

    /// Makes reads, each after the previous one; returns their total time.
    pub(crate) fn chain(&mut self, reads: usize) -> u64 {
        let began = self.now_ns;
        for n in 0..reads {
            let start = CHAIN + (n as u64 * 7919 % 100_000) * 8;
            let read = self.ask(Op::Read, start);
            while self.pump() != Some(read) {
                assert!(self.step_to_next(u64::MAX), "a read is on its way");
            }
        }
        self.now_ns - began
    }

    /// Queues a write below all others; returns its position.
    pub(crate) fn write_below(&mut self) -> u64 {
        let write = self.ask(Op::Write, 8);
        self.writes.insert(write, ());
        8
    }

    fn ask(&mut self, op: Op, start: u64) -> DirectId {
        let origin = Origin { op, ..Origin::default() };
        self.asked += 1;
        self.path.direct(Nanos(self.now_ns), self.device, Sector(start), Sectors(8), origin)
    }

    /// Lets the path and the writers proceed at this time. Returns the read that ended, if any.
    fn pump(&mut self) -> Option<DirectId> {
        let mut ended = None;
        loop {
            while self.writes.len() < self.writers {
                self.place += 16;
                let write = self.ask(Op::Write, FLOOD + self.place);
                self.writes.insert(write, ());
            }
            while let Some(io) = self.path.poll_dispatch(Nanos(self.now_ns)) {
                self.start(io.op, io.offset.0 / 512, io.tag, io.len);
            }
            let Some(done) = self.path.poll_done() else { return ended };
            assert_eq!(done.fault, None);
            self.done += 1;
            if self.writes.remove(&done.id).is_some() {
                self.written += 1;
            } else {
                assert_eq!(ended.replace(done.id), None, "one read at a time");
            }
        }
    }

    fn start(&mut self, op: Op, start: u64, tag: Tag, len: ByteCount) {
        self.sent[op as usize] += 1;
        self.sent_at_ns.insert(start, self.now_ns);
        let way = self.free_at_ns.iter_mut().min().unwrap();
        *way = (self.now_ns.max(*way) + self.model.service_ns).max(self.bus_ns) + BUS_NS;
        self.bus_ns = *way;
        self.ends.push(Reverse((*way, self.number)));
        self.flying.insert(self.number, (tag, len));
        self.number += 1;
    }

    fn step(&mut self, until: u64) -> bool {
        let goes_on = self.step_to_next(until);
        assert_eq!(self.pump(), None, "no read is on its way");
        goes_on
    }

    /// Advances to the next completion or time-out; returns false if that is after `until`.
    fn step_to_next(&mut self, until: u64) -> bool {
        let end = self.ends.peek().map(|Reverse((at, _))| *at).filter(|_| !self.device_stalls);
        let timeout = self.path.poll_timeout().map(|at| at.0.max(self.now_ns));
        let next = end.into_iter().chain(timeout).min().filter(|at| *at <= until);
        let Some(next) = next else { return false };
        self.now_ns = self.now_ns.max(next);
        if timeout.is_some_and(|at| at <= next) {
            self.path.timeout(Nanos(self.now_ns));
        }
        if end.is_some_and(|at| at <= next) {
            let Reverse((_, number)) = self.ends.pop().expect("it ends now");
            let (tag, len) = self.flying.remove(&number).expect("it was sent");
            self.path.complete(Nanos(self.now_ns), tag, Ok(len));
        }
        true
    }
}

/// Time of a request on the bus shared by all slots, so that no two end at the same time.
const BUS_NS: u64 = 4;
const FLOOD: u64 = 1 << 20;
const CHAIN: u64 = 1 << 30;
