//! One device: its queued requests, its requests in flight, and its model. Its scheduler chooses
//! the next request.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::ahead_queue::AheadQueue;
use super::payload::IoPayload;
use super::seek_meter::SeekMeter;
use super::write_depth::{WriteDemand, WriteDepthLimiter};
use crate::device_model::{DeviceEstimator, DeviceModel, ObservedSince, SentRequest};
use crate::geometry::Geometry;
use crate::ids::DomainId;
use crate::sched::{Op, Request, Scheduler, SchedulerKind, Why};
use crate::table::Frame;
use crate::units::{ByteCount, Nanos, SECTORS_PER_PAGE, Sector, Sectors};

/// Load and model of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceState {
    /// Name of its scheduler.
    pub scheduler: &'static str,
    /// Queued reads; merged ones count once.
    pub queued_reads: u64,
    /// Queued writes; merged ones count once.
    pub queued_writes: u64,
    /// Reads in flight.
    pub in_flight_reads: u32,
    /// Writes in flight.
    pub in_flight_writes: u32,
    /// Limit of writes in flight, configured or learnt. None for no limit.
    pub write_limit: Option<u32>,
    /// Reads dispatched because they had expired, so far.
    pub expired_reads: u64,
    /// Writes dispatched because they had expired, so far.
    pub expired_writes: u64,
    /// Lower bound of the number of requests that it serves at once.
    pub min_parallel: u32,
    /// Cost of reads, once enough is known.
    pub reads: Option<DeviceModel>,
    /// Cost of writes, once enough is known.
    pub writes: Option<DeviceModel>,
}

/// A device with its queued requests and its load.
#[derive(Debug)]
pub(crate) struct DeviceQueue {
    pub(crate) geometry: Geometry,
    pub(super) queue: Box<dyn Scheduler<IoPayload>>,
    in_flight: u32,
    /// Requests of the flusher, queued or in flight.
    pub(crate) flusher_requests: u32,
    /// Flushes and writes that wait for its writes.
    awaited: u32,
    /// True while it is in the line for dispatch.
    pub(super) is_busy: bool,
    /// True while it has queued requests, but no room for them or a scheduler that holds them back.
    pub(super) is_full: bool,
    ahead: AheadQueue,
    seeks: SeekMeter,
    /// The sector behind the last one dispatched.
    sent_end: Sector,
    /// Demand requests dispatched before the oldest deferred read-ahead.
    passed: u32,
    /// Sequential read-ahead requests dispatched in a row before queued demand reads.
    went_on: u32,
    /// Read-ahead requests in flight.
    ahead_in_flight: u32,
    /// Read-ahead requests dispatched since the last demand request.
    since_demand: u32,
    limiter: WriteDepthLimiter,
    /// None until the device is used: many files are opened and few of them used.
    estimator: Option<Box<DeviceEstimator>>,
    /// Number of the disk that it shares with others, if known.
    pub(crate) disk: Option<u64>,
    /// None until the first write.
    pub(crate) domain: Option<DomainId>,
}

impl DeviceQueue {
    pub(super) fn new(geometry: Geometry, scheduler: &SchedulerKind, disk: Option<u64>) -> Self {
        assert!(geometry.depth > 0, "a device works on at least one request at a time");
        Self {
            geometry,
            queue: scheduler.queue(largest_request(&geometry)),
            in_flight: 0,
            flusher_requests: 0,
            awaited: 0,
            is_busy: false,
            is_full: false,
            ahead: AheadQueue::new(largest_request(&geometry)),
            seeks: SeekMeter::default(),
            sent_end: Sector(0),
            passed: 0,
            went_on: 0,
            ahead_in_flight: 0,
            since_demand: 0,
            limiter: WriteDepthLimiter::default(),
            estimator: None,
            disk,
            domain: None,
        }
    }

    /// Returns true if another request may be dispatched.
    pub(super) fn has_room(&self) -> bool {
        self.in_flight < self.geometry.depth
    }

    /// Returns true if a read is in flight.
    pub(crate) fn is_reading(&self) -> bool {
        self.limiter.in_flight(Op::Read) > 0
    }

    /// Returns the device's estimator, if it was read or written.
    pub(crate) fn estimator(&self) -> Option<&DeviceEstimator> {
        self.estimator.as_deref()
    }

    /// Returns true if no request is queued.
    pub(super) fn is_queue_empty(&self) -> bool {
        self.queue.is_empty() && self.ahead.is_empty()
    }

    /// Queues a read-ahead request behind all demand requests.
    pub(super) fn add_ahead(&mut self, request: Request<IoPayload>) {
        self.ahead.add(request);
    }

    /// Turns a deferred read-ahead request into a demand request because a reader waits for its
    /// page.
    pub(super) fn promote(&mut self, now: Nanos, sector: Sector, frame: Frame) {
        if let Some(mut request) = self.ahead.take_filling(sector, frame) {
            request.load.is_ahead = false;
            self.queue.add_by_age(now, request);
        }
    }

    /// Returns true if read-ahead requests are deferred.
    pub(super) fn has_ahead(&self) -> bool {
        !self.ahead.is_empty()
    }

    /// Removes and returns all queued requests, when the device is removed.
    pub(super) fn drain(&mut self) -> Vec<Request<IoPayload>> {
        let mut queued = self.queue.drain();
        while let Some(request) = self.ahead.take_oldest() {
            queued.push(request);
        }
        assert!(self.is_queue_empty(), "a scheduler that is drained has nothing left");
        queued
    }

    /// Takes the next request to dispatch, if the scheduler returns one.
    pub(super) fn take(&mut self, now: Nanos) -> Option<Request<IoPayload>> {
        assert!(self.has_room(), "a device without room is not asked");
        self.release_ahead(now);
        self.limit_writes(now);
        let request = self.queue.take(now);
        debug_assert!(request.as_ref().is_none_or(|it| it.load.has_one_kind()), "{request:?}");
        request
    }

    /// Returns the limit of read-ahead requests in flight. While demand reads arrive, it is the
    /// number that the device serves at once: further ones would wait inside the device, with any
    /// later demand read behind them.
    fn ahead_limit(&self) -> u32 {
        if self.since_demand >= DEMAND_LASTS {
            return u32::MAX;
        }
        let served = self.estimator.as_ref().and_then(|it| it.known_parallel());
        served.map_or(u32::MAX, |served| served.max(AHEAD_LIMIT_MIN))
    }

    /// Passes deferred read-ahead to the scheduler when it is its turn.
    ///
    /// ```text
    ///   no demand read queued         the oldest
    ///   a demand read is queued       the one that continues the last request, on a disk, but
    ///                                 no endless stream of it
    ///                                 the oldest, after a number of demand reads went before it
    /// ```
    fn release_ahead(&mut self, now: Nanos) {
        if self.ahead.is_empty() {
            (self.passed, self.went_on) = (0, 0);
            return;
        }
        if self.queue.queued(Op::Read) == 0 {
            // The scheduler has no read, and so no read-ahead either.
            let room = self.ahead_limit().saturating_sub(self.ahead_in_flight);
            let most = if self.queue.sorts() { RELEASED_SORTED } else { 1 };
            for _ in 0..most.min(room) {
                let Some(request) = self.ahead.take_oldest() else { break };
                self.queue.add(now, request);
            }
            (self.passed, self.went_on) = (0, 0);
            return;
        }
        let may_go_on = self.went_on < WENT_ON_MAX && self.seeks.has_arm();
        let goes_on = may_go_on.then(|| self.ahead.take_at(self.sent_end)).flatten();
        if let Some(request) = goes_on {
            self.went_on += 1;
            return self.queue.add_next(now, request);
        }
        self.went_on = 0;
        if self.passed >= PASSED_MAX
            && let Some(request) = self.ahead.take_oldest()
        {
            self.passed = 0;
            self.queue.add_next(now, request);
        } else {
            self.passed += 1;
        }
    }

    /// Notes that a flush or write begins or ceases to wait for the device's writes.
    pub(super) fn set_awaited(&mut self, begins: bool) {
        let awaited = &mut self.awaited;
        *awaited = if begins { *awaited + 1 } else { awaited.checked_sub(1).expect(AWAITED) };
    }

    /// Passes the write limit to the scheduler, if it uses one.
    fn limit_writes(&mut self, now: Nanos) {
        self.limiter.clear_hold();
        let Some(hold_ns) = self.queue.wants_limit() else { return };
        if self.queue.queued(Op::Write) == 0 {
            return;
        }
        let estimator = self.estimator.get_or_insert_default();
        let (queued_reads, is_awaited) = (self.queue.queued(Op::Read), self.awaited > 0);
        let demand = WriteDemand { queued_reads, hold_ns, is_awaited };
        let limit = self.limiter.limit(now, demand, self.geometry.depth, estimator);
        self.queue.limit_writes(Some(limit));
    }

    /// Returns the time at which the scheduler may dispatch without a new request or completion: it
    /// waits for that time, or holds writes back for a read that may not come.
    pub(super) fn wake_at(&self) -> Option<Nanos> {
        let held_until = self.limiter.held_until().filter(|_| !self.is_queue_empty());
        self.queue.wake_at().into_iter().chain(held_until).min()
    }

    /// Records the dispatch of a request.
    pub(super) fn sent(&mut self, now: Nanos, request: &Request<IoPayload>) -> SentRequest {
        let op = request.origin.op;
        let others = self.at_device();
        self.limiter.sent(op, self.queue.why() == Some(Why::Expired));
        let estimator = self.estimator.get_or_insert_default();
        let mut sent = estimator.dispatched(now, op, others);
        sent.goes_on = request.start == self.sent_end;
        self.sent_end = request.end();
        self.ahead_in_flight += u32::from(request.load.is_ahead);
        self.since_demand =
            if request.load.is_ahead { self.since_demand.saturating_add(1) } else { 0 };
        self.in_flight += 1;
        assert!(self.in_flight <= self.geometry.depth, "more requests than the device takes");
        sent
    }

    /// Records the completion of a request, which keeps its slot until [`Self::release_slot`].
    pub(super) fn completed(
        &mut self,
        now: Nanos,
        request: &Request<IoPayload>,
        sent: SentRequest,
        result: Result<ByteCount, i32>,
        observed: Option<ObservedSince>,
    ) {
        assert!(self.in_flight > 0, "what completes was in flight");
        let Request { origin, arrival, .. } = *request;
        self.queue.completed(now, origin, arrival);
        self.seeks.ended(now, sent.ns_until(now), sent.goes_on, sent.is_seen(now, observed));
        self.ahead_in_flight -= u32::from(request.load.is_ahead);
        let at_device = self.at_device();
        if let Some(estimator) = &mut self.estimator {
            estimator.completed(now, sent, result.ok(), at_device, observed);
        }
        self.limiter.ended(now, origin.op);
        assert!(self.at_device() < self.in_flight, "a request that has ended keeps its slot");
    }

    pub(super) fn limiter(&self) -> &WriteDepthLimiter {
        &self.limiter
    }

    /// Returns the number of slots taken.
    pub(super) fn slots_taken(&self) -> u32 {
        self.in_flight
    }

    /// Returns the number of requests at the device, without completed ones that still have a slot.
    pub(super) fn at_device(&self) -> u32 {
        self.limiter.in_flight(Op::Read) + self.limiter.in_flight(Op::Write)
    }

    /// Frees the slot of a request after its completion was handled.
    pub(super) fn release_slot(&mut self) {
        self.in_flight = self.in_flight.checked_sub(1).expect("a slot was taken for each request");
        assert!(
            self.at_device() <= self.in_flight,
            "a slot is released when its request has ended"
        );
    }

    /// Returns the device's load and model.
    pub(super) fn state(&self) -> DeviceState {
        let model = |op| self.estimator.as_ref().and_then(|it| it.model_of(op));
        DeviceState {
            scheduler: self.queue.tunables().0,
            queued_reads: (self.queue.queued(Op::Read) + self.ahead.len()) as u64,
            queued_writes: self.queue.queued(Op::Write) as u64,
            in_flight_reads: self.limiter.in_flight(Op::Read),
            in_flight_writes: self.limiter.in_flight(Op::Write),
            write_limit: self.queue.write_limit(),
            expired_reads: self.limiter.expired(Op::Read),
            expired_writes: self.limiter.expired(Op::Write),
            min_parallel: self.estimator.as_ref().map_or(1, |it| it.min_parallel()),
            reads: model(Op::Read),
            writes: model(Op::Write),
        }
    }

    /// Returns the current settings of its scheduler, its name first.
    pub(super) fn scheduler_settings(&self) -> Vec<(&'static str, String)> {
        let (name, mut settings) = self.queue.tunables();
        settings.insert(0, ("scheduler", String::from(name)));
        settings
    }
}

/// Demand reads dispatched before the oldest deferred read-ahead gets a turn. This guarantees
/// read-ahead a part of the device no matter how many readers wait.
const PASSED_MAX: u32 = 16;

/// Sequential read-ahead requests in a row before a demand read gets a turn. A stream whose reader
/// keeps up with the disk always has another such window.
const WENT_ON_MAX: u32 = 16;

/// Read-ahead requests after which no further demand request is expected.
const DEMAND_LASTS: u32 = 64;

/// Smallest limit of read-ahead requests in flight: with one, the device would idle until the next
/// is dispatched.
const AHEAD_LIMIT_MIN: u32 = 2;

/// Read-ahead requests passed to a sorting scheduler at a time: a batch of `deadline`.
const RELEASED_SORTED: u32 = 16;

const AWAITED: &str = "a wait that ends has begun";

/// Returns the device's largest request in sectors.
pub(super) fn largest_request(geometry: &Geometry) -> Sectors {
    Sectors(geometry.max_io.0 * SECTORS_PER_PAGE)
}
