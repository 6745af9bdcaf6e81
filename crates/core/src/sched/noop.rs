//! `noop`: first come, first served, with merging of neighbours.
//!
//! It neither sorts nor limits requests in flight, which suits devices without seeks, or with
//! internal scheduling. For reads beside writes use `deadline`.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

use super::{InvalidSetting, Op, Origin, Payload, Request, Scheduler, setting};
use crate::units::{Nanos, Sectors};

/// A `noop` queue.
#[derive(Debug)]
pub struct Noop<L> {
    queue: VecDeque<Request<L>>,
    /// Number of queued reads.
    reads: usize,
    max: Sectors,
}

impl<L> Noop<L> {
    /// Creates a queue for a device with requests of at most `max` sectors.
    ///
    /// # Panics
    ///
    /// If `max` is 0.
    #[must_use]
    pub const fn new(max: Sectors) -> Self {
        assert!(max.0 > 0, "a device takes at least one sector at once");
        Self { queue: VecDeque::new(), reads: 0, max }
    }
}

impl<L: Payload> Noop<L> {
    /// Inserts a request at a position, without merging.
    fn put(&mut self, place: usize, request: Request<L>) {
        assert!(request.sectors <= self.max, "a request is no larger than the device takes");
        self.reads += usize::from(request.origin.op == Op::Read);
        self.queue.insert(place, request);
    }
}

impl<L: Payload> Scheduler<L> for Noop<L> {
    /// ```text
    ///   queued      |=========|                    |=========|
    ///   new                   |----|          |----|
    ///                 back merge                front merge
    /// ```
    /// A merged request keeps its position: a late neighbour is served early, and no other request
    /// later.
    fn add(&mut self, _now: Nanos, request: Request<L>) {
        assert!(request.sectors > Sectors::ZERO, "a request moves at least one sector");
        assert!(request.sectors <= self.max, "a request is no larger than the device takes");
        for queued in self.queue.iter_mut().rev().take(MERGE_SEARCH) {
            if queued.can_take(&request, self.max) {
                return queued.append(request);
            }
            if request.can_take(queued, self.max) {
                return request.prepend_to(queued);
            }
        }
        self.put(self.queue.len(), request);
    }

    fn add_next(&mut self, _now: Nanos, request: Request<L>) {
        self.put(0, request);
    }

    fn add_by_age(&mut self, _now: Nanos, request: Request<L>) {
        let place = self.queue.partition_point(|other| other.arrival <= request.arrival);
        self.put(place, request);
    }

    fn sorts(&self) -> bool {
        false
    }

    fn take(&mut self, _now: Nanos) -> Option<Request<L>> {
        let request = self.queue.pop_front();
        self.reads -= usize::from(request.as_ref().is_some_and(|it| it.origin.op == Op::Read));
        debug_assert!(request.as_ref().is_none_or(|it| it.sectors <= self.max), "{request:?}");
        request
    }

    fn completed(&mut self, _now: Nanos, _origin: Origin, _arrival: Nanos) {}

    fn drain(&mut self) -> Vec<Request<L>> {
        self.reads = 0;
        self.queue.drain(..).collect()
    }

    fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    fn queued(&self, op: Op) -> usize {
        match op {
            Op::Read => self.reads,
            Op::Write => self.queue.len() - self.reads,
        }
    }

    fn adopt(&mut self, _origin: Origin, _arrival: Nanos) {}

    fn tunables(&self) -> (&'static str, Vec<(&'static str, String)>) {
        ("noop", Vec::new())
    }

    fn set(&mut self, name: &str, _value: &str) -> Result<(), InvalidSetting> {
        Err(setting::unknown(name, &[]))
    }
}

/// Newest requests that are searched for a neighbour. Neighbours arrive close together (a window
/// cut in two, the next window of the same stream), and a full search would make a long queue cost
/// its square.
const MERGE_SEARCH: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Sector;

    /// Names of requests, in the order of their sectors; two of different letters do not merge.
    type Names = Vec<&'static str>;

    impl Payload for Names {
        fn can_take(&self, next: &Self) -> bool {
            self[0].as_bytes()[0] == next[0].as_bytes()[0]
        }

        fn append(&mut self, mut next: Self) {
            Vec::append(self, &mut next);
        }
    }

    fn queue(max: u64, requests: &[(&'static str, u64, u64)]) -> Noop<Names> {
        let mut queue = Noop::new(Sectors(max));
        for (name, start, sectors) in requests {
            let (start, sectors) = (Sector(*start), Sectors(*sectors));
            let (origin, arrival) = (Origin::default(), Nanos(start.0));
            let load = Vec::from([*name]);
            queue.add(Nanos(0), Request { start, sectors, origin, arrival, load });
        }
        queue
    }

    fn drained(mut queue: Noop<Names>) -> Vec<(u64, u64, Names)> {
        core::iter::from_fn(|| queue.take(Nanos(0)))
            .map(|request| (request.start.0, request.sectors.0, request.load))
            .collect()
    }

    #[test]
    fn neighbours_merge_at_the_back_and_at_the_front() {
        let queue = queue(64, &[("a1", 80, 16), ("a2", 400, 8), ("a3", 96, 16), ("a4", 64, 16)]);
        let want = [(64, 48, Vec::from(["a4", "a1", "a3"])), (400, 8, Vec::from(["a2"]))];
        assert_eq!(drained(queue), want);
    }

    #[test]
    fn a_merge_never_exceeds_the_largest_request() {
        let queue = queue(32, &[("a1", 0, 24), ("a2", 24, 16), ("a3", 40, 16)]);
        assert_eq!(drained(queue), [(0, 24, Vec::from(["a1"])), (24, 32, Vec::from(["a2", "a3"]))]);
    }

    #[test]
    fn incompatible_requests_do_not_merge() {
        let queue = queue(64, &[("a1", 0, 16), ("b1", 16, 16), ("b2", 32, 16)]);
        assert_eq!(drained(queue), [(0, 16, Vec::from(["a1"])), (16, 32, Vec::from(["b1", "b2"]))]);
    }

    #[test]
    fn a_read_and_a_write_do_not_merge() {
        let mut queue = queue(64, &[("a1", 0, 8)]);
        let origin = Origin { op: Op::Write, ..Origin::default() };
        let (start, sectors, arrival) = (Sector(8), Sectors(8), Nanos(0));
        let load = Vec::from(["a2"]);
        queue.add(Nanos(0), Request { start, sectors, origin, arrival, load });
        assert_eq!(drained(queue).len(), 2);
    }
}
