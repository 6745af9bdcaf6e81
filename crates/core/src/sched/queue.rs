//! Request queue of `deadline` and `cfq`, in two orders at once, with merging on arrival.
//!
//! ```text
//!   sort   start of request    50 ---- 100 ======== 200 ---- 300       a tree
//!   fifo   age                 300 --> 100 --> 200 --> 50              a list through the requests
//! ```
//!
//! Each class and direction has a lane with both orders; a rule without classes uses one class.

mod invariants;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::mem;
use core::ops::Bound::{Excluded, Unbounded};

use super::{Class, Op, Payload, Request};
use crate::slab::{self, Slab};
use crate::units::{Sector, Sectors};

/// Identifies a queued request.
pub(super) type Id<L> = slab::Id<Queued<L>>;

/// Queued requests.
#[derive(Debug)]
pub(super) struct Queue<L> {
    requests: Slab<Queued<L>, Queued<L>>,
    lanes: [[QueueLane<L>; 2]; 3],
    /// Number of requests by direction.
    counts: [usize; 2],
    max: Sectors,
    grouping: Grouping,
    /// Requests queued so far.
    number: u64,
}

/// Lanes as needed by a rule.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Grouping {
    /// Each class has separate lanes.
    pub(super) by_class: bool,
    /// The lowest request follows the highest.
    pub(super) is_circle: bool,
}

/// A queued request and its positions.
#[derive(Debug)]
pub(super) struct Queued<L> {
    request: Request<L>,
    /// Orders requests with the same start sector; never changes.
    number: u64,
    /// Position in `fifo` order.
    place: u64,
    older: Option<Id<L>>,
    younger: Option<Id<L>>,
}

/// Position in `sort` order: the start, then the number, in one word for fast comparison.
type QueueKey = u128;

#[derive(Debug)]
struct QueueLane<L> {
    sort: BTreeMap<QueueKey, Id<L>>,
    oldest: Option<Id<L>>,
    youngest: Option<Id<L>>,
    /// Request that a rule will look up again. When it leaves, its successor takes over.
    cursor: Option<Id<L>>,
}

impl<L: Payload> Queue<L> {
    pub(super) fn new(max: Sectors, grouping: Grouping) -> Self {
        assert!(max > Sectors::ZERO, "a device takes at least one sector at once");
        let lane = || [QueueLane::new(), QueueLane::new()];
        let lanes = [lane(), lane(), lane()];
        Self { requests: Slab::new(), lanes, counts: [0; 2], max, grouping, number: 0 }
    }

    /// Merges a request into a queued one, or returns it.
    ///
    /// ```text
    ///   queued     |=========|            |=========|        |=====|    |======|
    ///   new                  |----|  |----|                        |----|
    ///              back merge        front merge             back merge, then the two coalesce
    /// ```
    ///
    /// A merge delays no request: a queued one keeps its expiry, and the new one is served earlier
    /// than otherwise. When two queued requests coalesce, the older one's age and position count.
    ///
    /// Only neighbours in `sort` order are tried. A request that overlaps others may have a fit
    /// further away, and stays alone.
    pub(super) fn merge(&mut self, request: Request<L>, front_merges: bool) -> Option<Request<L>> {
        assert!(request.sectors > Sectors::ZERO, "a request moves at least one sector");
        assert!(request.sectors <= self.max, "a request is no larger than the device takes");
        let lane = &self.lanes[self.class(&request)][request.origin.op as usize];
        // One search finds both neighbours: down from the end of this one.
        let mut down = lane.sort.range(..=key(request.end(), u64::MAX)).rev().map(|(_, id)| *id);
        let mut above = None;
        let below = down.find(|&id| {
            let start = self.get(id).start;
            above = above.or((start == request.end()).then_some(id));
            start < request.start
        });
        if let Some(below) = below.filter(|&id| self.get(id).can_take(&request, self.max)) {
            self.queued_mut(below).request.append(request);
            self.coalesce(below);
            return None;
        }
        let above = above.filter(|_| front_merges);
        if let Some(above) = above.filter(|&id| request.can_take(self.get(id), self.max)) {
            self.grow_at_front(above, request);
            return None;
        }
        Some(request)
    }

    /// Queues a request without merging.
    pub(super) fn insert(&mut self, request: Request<L>) -> Id<L> {
        let (class, op) = (self.class(&request), request.origin.op as usize);
        let (start, number) = (request.start, self.number);
        self.number += 1;
        let queued = Queued { request, number, place: number, older: None, younger: None };
        let id = self.requests.insert(queued);
        self.counts[op] += 1;
        let lane = &mut self.lanes[class][op];
        let before = lane.sort.insert(key(start, number), id);
        debug_assert!(before.is_none(), "a number names one request");
        lane.push(&mut self.requests, id);
        id
    }

    /// Removes a request.
    pub(super) fn remove(&mut self, id: Id<L>) -> Request<L> {
        let (class, op) = self.lane_of(id);
        if self.lanes[class][op].cursor == Some(id) {
            return self.remove_before(id).0;
        }
        let queued = self.requests.remove(id).expect("an id names a queued request");
        self.counts[op] -= 1;
        let lane = &mut self.lanes[class][op];
        lane.sort.remove(&queued.key()).expect("a queued request is sorted");
        lane.unlink(&mut self.requests, queued.older, queued.younger);
        queued.request
    }

    /// Removes a request and returns its successor in `sort` order; in a circle, the lowest after
    /// the highest.
    pub(super) fn remove_before(&mut self, id: Id<L>) -> (Request<L>, Option<Id<L>>) {
        let (class, op) = self.lane_of(id);
        let is_circle = self.grouping.is_circle;
        let queued = self.requests.remove(id).expect("an id names a queued request");
        self.counts[op] -= 1;
        let lane = &mut self.lanes[class][op];
        lane.sort.remove(&queued.key()).expect("a queued request is sorted");
        let next = lane.above(queued.key()).or_else(|| lane.lowest().filter(|_| is_circle));
        if lane.cursor == Some(id) {
            lane.cursor = next;
        }
        lane.unlink(&mut self.requests, queued.older, queued.younger);
        (queued.request, next)
    }

    /// Returns the request with this id.
    pub(super) fn get(&self, id: Id<L>) -> &Request<L> {
        &self.queued(id).request
    }

    pub(super) fn is_empty(&self) -> bool {
        debug_assert!(self.counts.iter().sum::<usize>() == self.requests.len(), "all are counted");
        self.counts == [0; 2]
    }

    /// Returns the number of requests in this direction.
    pub(super) fn count(&self, op: Op) -> usize {
        self.counts[op as usize]
    }

    /// Returns true if this lane has requests.
    pub(super) fn has(&self, class: Class, op: Op) -> bool {
        self.lane(class, op).oldest.is_some()
    }

    /// Returns the first request in `fifo` order.
    pub(super) fn oldest(&self, class: Class, op: Op) -> Option<Id<L>> {
        self.lane(class, op).oldest
    }

    /// Returns the first request in `sort` order that starts at or above a sector.
    pub(super) fn at_or_above(&self, class: Class, op: Op, sector: Sector) -> Option<Id<L>> {
        self.lane(class, op).sort.range(key(sector, 0)..).next().map(|(_, id)| *id)
    }

    /// Returns the last request in `sort` order that starts below a sector.
    pub(super) fn below(&self, class: Class, op: Op, sector: Sector) -> Option<Id<L>> {
        self.lane(class, op).sort.range(..key(sector, 0)).next_back().map(|(_, id)| *id)
    }

    /// Returns the successor in `sort` order; in a circle, the lowest after the highest.
    pub(super) fn after(&self, id: Id<L>) -> Option<Id<L>> {
        let (class, op) = self.lane_of(id);
        let (lane, queued) = (&self.lanes[class][op], self.queued(id));
        let above = lane.above(queued.key());
        above.or_else(|| lane.lowest().filter(|_| self.grouping.is_circle))
    }

    /// Returns the request set by [`Self::set_cursor`], or its successor.
    pub(super) fn cursor(&self, class: Class, op: Op) -> Option<Id<L>> {
        self.lane(class, op).cursor
    }

    pub(super) fn set_cursor(&mut self, class: Class, op: Op, cursor: Option<Id<L>>) {
        debug_assert!(
            cursor.is_none_or(|id| self.get(id).origin.op == op),
            "a cursor is on a request of its lane"
        );
        self.lanes[class as usize][op as usize].cursor = cursor;
    }

    /// Moves all requests into the lanes of another rule; their ages stay.
    pub(super) fn regroup(&mut self, grouping: Grouping) {
        self.grouping = grouping;
        let mut ids: Vec<_> = self.requests.iter().map(|(id, queued)| (queued.place, id)).collect();
        ids.sort_unstable();
        self.lanes.iter_mut().flatten().for_each(|lane| *lane = QueueLane::new());
        for (_, id) in ids {
            let (class, op) = self.lane_of(id);
            let queued = self.queued_mut(id);
            (queued.older, queued.younger) = (None, None);
            let key = queued.key();
            let lane = &mut self.lanes[class][op];
            lane.sort.insert(key, id);
            lane.push(&mut self.requests, id);
        }
        if cfg!(debug_assertions) {
            self.assert_consistent();
        }
    }

    /// Removes all requests, oldest first.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Request<L>> {
        let mut ids: Vec<_> = self.requests.iter().map(|(id, queued)| (queued.place, id)).collect();
        ids.sort_unstable();
        self.lanes.iter_mut().flatten().for_each(|lane| *lane = QueueLane::new());
        self.counts = [0; 2];
        let mut requests = mem::take(&mut self.requests);
        ids.into_iter()
            .map(move |(_, id)| requests.remove(id).expect("an id names a queued request").request)
    }

    fn grow_at_front(&mut self, id: Id<L>, request: Request<L>) {
        let (class, op) = self.lane_of(id);
        let queued = self.requests.get_mut(id).expect("an id names a queued request");
        let sort = &mut self.lanes[class][op].sort;
        sort.remove(&queued.key()).expect("a queued request is sorted");
        request.prepend_to(&mut queued.request);
        debug_assert!(queued.request.sectors <= self.max, "a merged request is not too large");
        sort.insert(queued.key(), id);
    }

    /// Merges the next higher request into this one, if possible.
    fn coalesce(&mut self, id: Id<L>) {
        let (class, op) = self.lane_of(id);
        let lane = &mut self.lanes[class][op];
        let queued = self.requests.get(id).expect("an id names a queued request");
        let Some(above) = lane.above(queued.key()) else { return };
        let arrival = queued.request.arrival;
        let gone = self.requests.get(above).expect("an id names a queued request");
        if !queued.request.can_take(&gone.request, self.max) {
            return;
        }
        debug_assert!(queued.request.sectors <= self.max, "a merged request is not too large");
        if gone.request.arrival < arrival {
            let (earlier, its_place) = (gone.request.arrival, gone.place);
            let (older, younger) = (queued.older, queued.younger);
            lane.unlink(&mut self.requests, older, younger);
            lane.link_before(&mut self.requests, id, above);
            let queued = self.queued_mut(id);
            (queued.request.arrival, queued.place) = (earlier, its_place);
        }
        let gone = self.remove(above);
        self.queued_mut(id).request.append(gone);
    }

    fn lane(&self, class: Class, op: Op) -> &QueueLane<L> {
        &self.lanes[class as usize][op as usize]
    }

    fn lane_of(&self, id: Id<L>) -> (usize, usize) {
        let request = &self.queued(id).request;
        (self.class(request), request.origin.op as usize)
    }

    fn class(&self, request: &Request<L>) -> usize {
        let is_split = self.grouping.by_class;
        (if is_split { request.origin.class } else { Class::BestEffort }) as usize
    }

    fn queued(&self, id: Id<L>) -> &Queued<L> {
        self.requests.get(id).expect("an id names a queued request")
    }

    fn queued_mut(&mut self, id: Id<L>) -> &mut Queued<L> {
        self.requests.get_mut(id).expect("an id names a queued request")
    }
}

impl<L> Queued<L> {
    const fn key(&self) -> QueueKey {
        key(self.request.start, self.number)
    }
}

const fn key(start: Sector, number: u64) -> QueueKey {
    (start.0 as u128) << 64 | number as u128
}

impl<L> QueueLane<L> {
    const fn new() -> Self {
        Self { sort: BTreeMap::new(), oldest: None, youngest: None, cursor: None }
    }

    fn lowest(&self) -> Option<Id<L>> {
        self.sort.first_key_value().map(|(_, id)| *id)
    }

    fn above(&self, key: QueueKey) -> Option<Id<L>> {
        self.sort.range((Excluded(key), Unbounded)).next().map(|(_, id)| *id)
    }

    /// Appends it as the youngest.
    fn push(&mut self, requests: &mut Slab<Queued<L>, Queued<L>>, id: Id<L>) {
        let older = self.youngest.replace(id);
        of(requests, id).older = older;
        match older {
            Some(older) => of(requests, older).younger = Some(id),
            None => self.oldest = Some(id),
        }
    }

    fn link_before(
        &mut self,
        requests: &mut Slab<Queued<L>, Queued<L>>,
        id: Id<L>,
        younger: Id<L>,
    ) {
        let older = of(requests, younger).older.replace(id);
        let queued = of(requests, id);
        (queued.older, queued.younger) = (older, Some(younger));
        match older {
            Some(older) => of(requests, older).younger = Some(id),
            None => self.oldest = Some(id),
        }
    }

    /// Links the neighbours of a removed request.
    fn unlink(
        &mut self,
        requests: &mut Slab<Queued<L>, Queued<L>>,
        older: Option<Id<L>>,
        younger: Option<Id<L>>,
    ) {
        match older {
            Some(older) => of(requests, older).younger = younger,
            None => self.oldest = younger,
        }
        match younger {
            Some(younger) => of(requests, younger).older = older,
            None => self.youngest = older,
        }
    }
}

fn of<L>(requests: &mut Slab<Queued<L>, Queued<L>>, id: Id<L>) -> &mut Queued<L> {
    requests.get_mut(id).expect("an id names a queued request")
}
