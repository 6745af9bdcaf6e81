//! A simulated device, and the estimator that observes it, in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use foreread_core::device_model::{DeviceEstimator, DeviceModel, LatencyObserver, SentRequest};
use foreread_core::sched::Op;
use foreread_core::units::{ByteCount, Nanos};

use crate::random::Random;

pub(super) const KIB: u64 = 1024;
pub(super) const US: u64 = 1000;
pub(super) const MS: u64 = 1_000_000;

/// A device that serves `parallel` requests at once, first come, first served.
#[derive(Clone, Copy)]
pub(super) struct Model {
    pub(super) per_request_ns: u64,
    pub(super) bytes_per_s: u64,
    pub(super) parallel: usize,
    /// Service times vary uniformly by this many per cent in both directions.
    pub(super) noise: u64,
    /// One in this many requests takes a hundred times as long; 0 for none.
    pub(super) hiccup_every: u64,
}

pub(super) const ONE_HEAD: Model =
    Model { per_request_ns: 4 * MS, bytes_per_s: u64::MAX, parallel: 1, noise: 0, hiccup_every: 0 };
pub(super) const EIGHT_WAYS: Model = Model { per_request_ns: MS, parallel: 8, ..ONE_HEAD };
pub(super) const MOVER: Model =
    Model { per_request_ns: 100 * US, bytes_per_s: 100_000_000, ..ONE_HEAD };

impl Model {
    pub(super) fn per_kib_ns(&self) -> f64 {
        1024.0 * 1e9 / self.bytes_per_s as f64
    }

    pub(super) fn service_ns(&self, bytes: u64, dice: &mut Random) -> u64 {
        let moving = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_s);
        let ns = self.per_request_ns + u64::try_from(moving).unwrap();
        let noisy = ns / 100 * (100 - self.noise + dice.below(2 * self.noise + 1));
        let is_hiccup = self.hiccup_every > 0 && dice.below(self.hiccup_every) == 0;
        if is_hiccup { noisy * 100 } else { noisy }
    }
}

impl Random {
    pub(super) fn one_of(&mut self, sizes: &[u64]) -> u64 {
        sizes[usize::try_from(self.below(sizes.len() as u64)).unwrap()]
    }
}

/// A device with requests, and the estimator that observes it.
pub(super) struct Run {
    pub(super) model: Model,
    /// Direction of further requests.
    pub(super) op: Op,
    pub(super) estimator: DeviceEstimator,
    pub(super) watch: LatencyObserver,
    pub(super) dice: Random,
    pub(super) now_ns: u64,
    pub(super) free_at_ns: Vec<u64>,
    /// Ends of the requests in flight, with their numbers.
    pub(super) ends: BinaryHeap<Reverse<(u64, u64)>>,
    pub(super) sent: Vec<Option<(SentRequest, u64)>>,
}

impl Run {
    /// A reader always waits unless a test changes that.
    pub(super) fn of(model: Model) -> Self {
        let mut watch = LatencyObserver::default();
        watch.begin(Nanos(0));
        Self {
            model,
            op: Op::Read,
            estimator: DeviceEstimator::new(),
            watch,
            dice: Random(1),
            now_ns: 0,
            free_at_ns: vec![0; model.parallel],
            ends: BinaryHeap::new(),
            sent: Vec::new(),
        }
    }

    pub(super) fn becomes(&mut self, model: Model) {
        self.model = model;
        self.free_at_ns = vec![self.now_ns; model.parallel];
    }

    pub(super) fn in_flight(&self) -> u32 {
        u32::try_from(self.ends.len()).unwrap()
    }

    pub(super) fn dispatch(&mut self, bytes: u64) {
        let service = self.model.service_ns(bytes, &mut self.dice);
        let way = self.free_at_ns.iter_mut().min().unwrap();
        *way = self.now_ns.max(*way) + service;
        let end = *way;
        let (now, in_flight) = (Nanos(self.now_ns), self.in_flight());
        let sent = self.estimator.dispatched(now, self.op, in_flight);
        self.ends.push(Reverse((end, self.sent.len() as u64)));
        self.sent.push(Some((sent, bytes)));
    }

    /// Ends the next request, observed `late_ns` later.
    pub(super) fn complete(&mut self, late_ns: u64) {
        let in_flight = self.in_flight();
        let Reverse((end, number)) = self.ends.pop().expect("something is there");
        self.now_ns = self.now_ns.max(end + late_ns);
        let (sent, bytes) = self.sent[usize::try_from(number).unwrap()].take().unwrap();
        let (now, watch) = (Nanos(self.now_ns), self.watch.now());
        self.estimator.completed(now, sent, Some(ByteCount(bytes)), in_flight, watch);
    }

    /// Serves requests one after the other, with pauses in between.
    pub(super) fn lone(&mut self, count: usize, sizes: &[u64]) {
        for _ in 0..count {
            self.now_ns += self.dice.below(20 * MS);
            let bytes = self.dice.one_of(sizes);
            self.dispatch(bytes);
            self.complete(0);
        }
    }

    /// Serves `count` requests, `depth` at a time.
    pub(super) fn load(&mut self, count: usize, depth: u32, sizes: &[u64]) {
        for _ in 0..count {
            while self.in_flight() < depth {
                let bytes = self.dice.one_of(sizes);
                self.dispatch(bytes);
            }
            self.complete(0);
        }
        while self.in_flight() > 0 {
            self.complete(0);
        }
    }

    /// Serves a window of `count` requests. The reader waits for the first and then works on it;
    /// the others are observed when it waits again, each late by `late_ns`.
    pub(super) fn window(&mut self, count: u32, bytes: u64, late_ns: u64) {
        for _ in 0..count {
            self.dispatch(bytes);
        }
        self.complete(0);
        self.watch.end();
        for _ in 1..count {
            self.complete(late_ns);
        }
        self.watch.begin(Nanos(self.now_ns));
    }

    pub(super) fn model(&self) -> DeviceModel {
        self.estimator.model().expect("enough was seen")
    }
}
