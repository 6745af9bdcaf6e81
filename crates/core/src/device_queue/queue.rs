//! One device: what is queued for it, what it is doing, and what is known of it.
//!
//! In:    requests; their ends.
//! Out:   the next request to send; when to look again.
//! Never: a frame, a file, a decision about what to read. Which request is next, its scheduler
//!        says.

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
use crate::sched::{Choice, Op, Request, Scheduler, Why};
use crate::table::Frame;
use crate::units::{ByteCount, Nanos, SECTORS_PER_PAGE, Sector, Sectors};

/// What a device is doing, and what is known of it.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceState {
    /// The name of its scheduler.
    pub scheduler: &'static str,
    /// Reads that wait to be sent; those that merged are one.
    pub queued_reads: u64,
    /// Writes that wait to be sent; those that merged are one.
    pub queued_writes: u64,
    /// Reads that it works on.
    pub in_flight_reads: u32,
    /// Writes that it works on.
    pub in_flight_writes: u32,
    /// How many writes it may have, set or learnt. None: no limit.
    pub write_limit: Option<u32>,
    /// Reads that went because they had waited for too long, so far.
    pub expired_reads: u64,
    /// Writes that went because they had waited for too long, so far.
    pub expired_writes: u64,
    /// How many requests it was seen to serve at once at least.
    pub min_parallel: u32,
    /// What reads cost, if enough is known.
    pub reads: Option<DeviceModel>,
    /// What writes cost, if enough is known.
    pub writes: Option<DeviceModel>,
}

/// A device: what is queued for it and how much it is doing.
#[derive(Debug)]
pub(crate) struct DeviceQueue {
    pub(crate) geometry: Geometry,
    pub(super) queue: Box<dyn Scheduler<IoPayload>>,
    in_flight: u32,
    /// How many requests of the flusher are queued or in flight.
    pub(crate) flusher_requests: u32,
    /// How many flushes and writes wait for what it writes.
    awaited: u32,
    /// It is in the line for dispatch.
    pub(super) is_busy: bool,
    /// It has something queued, and no room for it, or its scheduler holds it back.
    pub(super) is_full: bool,
    ahead: AheadQueue,
    seeks: SeekMeter,
    /// One past the last sector that was sent.
    sent_end: Sector,
    /// How many demand requests went before the oldest read-ahead.
    passed: u32,
    /// How many read-ahead requests went one after another before demand reads that wait.
    went_on: u32,
    /// How many read-ahead requests it works on.
    ahead_in_flight: u32,
    /// How many read-ahead requests went since the last demand request.
    since_demand: u32,
    limiter: WriteDepthLimiter,
    /// None until something was read or written: many files are opened and few of them used.
    estimator: Option<Box<DeviceEstimator>>,
    /// The number of what it lies on with others, if that is known.
    pub(crate) disk: Option<u64>,
    /// None until something was written.
    pub(crate) domain: Option<DomainId>,
}

impl DeviceQueue {
    pub(super) fn new(geometry: Geometry, scheduler: &Choice, disk: Option<u64>) -> Self {
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

    /// Whether one more request may be sent.
    pub(super) fn has_room(&self) -> bool {
        self.in_flight < self.geometry.depth
    }

    /// Whether it is reading something at present.
    pub(crate) fn is_reading(&self) -> bool {
        self.limiter.in_flight(Op::Read) > 0
    }

    /// What is known of it, if anything was read or written.
    pub(crate) fn estimator(&self) -> Option<&DeviceEstimator> {
        self.estimator.as_deref()
    }

    /// Whether nothing waits to be sent.
    pub(super) fn is_queue_empty(&self) -> bool {
        self.queue.is_empty() && self.ahead.is_empty()
    }

    /// Queues a read that no caller waits for, behind all that a caller waits for.
    pub(super) fn add_ahead(&mut self, request: Request<IoPayload>) {
        self.ahead.add(request);
    }

    /// A reader waits for a page that is read ahead: its request is a demand request from now on.
    pub(super) fn promote(&mut self, now: Nanos, sector: Sector, frame: Frame) {
        if let Some(mut request) = self.ahead.take_filling(sector, frame) {
            request.load.is_ahead = false;
            self.queue.add_by_age(now, request);
        }
    }

    /// Whether a read that waits for its turn behind demand requests may be one of this device.
    pub(super) fn has_ahead(&self) -> bool {
        !self.ahead.is_empty()
    }

    /// Its device is gone: all that waits to be sent.
    pub(super) fn drain(&mut self) -> Vec<Request<IoPayload>> {
        let mut queued = self.queue.drain();
        while let Some(request) = self.ahead.take_oldest() {
            queued.push(request);
        }
        assert!(self.is_queue_empty(), "a scheduler that is drained has nothing left");
        queued
    }

    /// The next request to send, if the scheduler gives one.
    pub(super) fn take(&mut self, now: Nanos) -> Option<Request<IoPayload>> {
        assert!(self.has_room(), "a device without room is not asked");
        self.release_ahead(now);
        self.limit_writes(now);
        let request = self.queue.take(now);
        debug_assert!(request.as_ref().is_none_or(|it| it.load.has_one_kind()), "{request:?}");
        request
    }

    /// How many read-ahead requests it may work on. While demand reads come, no more than it serves
    /// at once: the others would wait in the device, and a demand read that comes behind them.
    fn ahead_limit(&self) -> u32 {
        if self.since_demand >= DEMAND_LASTS {
            return u32::MAX;
        }
        let served = self.estimator.as_ref().and_then(|it| it.known_parallel());
        served.map_or(u32::MAX, |served| served.max(AHEAD_LIMIT_MIN))
    }

    /// Hands read-ahead to the scheduler, as far as it is its turn.
    ///
    /// ```text
    ///   no demand read queued         the oldest
    ///   a demand read is queued       what starts where the last request ended, on a disk, but
    ///                                 no endless stream of it
    ///                                 the oldest, after a number of demand reads went before it
    /// ```
    fn release_ahead(&mut self, now: Nanos) {
        if self.ahead.is_empty() {
            (self.passed, self.went_on) = (0, 0);
            return;
        }
        if self.queue.queued(Op::Read) == 0 {
            // None of it is in the scheduler: it has no read.
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

    /// One more flush or write waits for what the device writes, or one less.
    pub(super) fn set_awaited(&mut self, begins: bool) {
        let awaited = &mut self.awaited;
        *awaited = if begins { *awaited + 1 } else { awaited.checked_sub(1).expect(AWAITED) };
    }

    /// Tells the scheduler how many writes may go, if it wants to know.
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

    /// When its scheduler may give something although nothing came or ended: it waits for a time,
    /// or writes are held back for a read that does not come.
    pub(super) fn wake_at(&self) -> Option<Nanos> {
        let held_until = self.limiter.held_until().filter(|_| !self.is_queue_empty());
        self.queue.wake_at().into_iter().chain(held_until).min()
    }

    /// A request was taken for the device.
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

    /// A request has completed; it still counts as in flight until [`Self::release_slot`].
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

    /// How many of its slots are taken.
    pub(super) fn slots_taken(&self) -> u32 {
        self.in_flight
    }

    /// How many requests it works on, without those that have ended and were not handled.
    pub(super) fn at_device(&self) -> u32 {
        self.limiter.in_flight(Op::Read) + self.limiter.in_flight(Op::Write)
    }

    /// A completed request was handled: another may be sent in its place.
    pub(super) fn release_slot(&mut self) {
        self.in_flight = self.in_flight.checked_sub(1).expect("a slot was taken for each request");
        assert!(
            self.at_device() <= self.in_flight,
            "a slot is released when its request has ended"
        );
    }

    /// What it is doing and what is known of it.
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

    /// The settings of its scheduler as they are now, its name first.
    pub(super) fn scheduler_settings(&self) -> Vec<(&'static str, String)> {
        let (name, mut settings) = self.queue.tunables();
        settings.insert(0, ("scheduler", String::from(name)));
        settings
    }
}

/// After so many demand reads went before it, the oldest read-ahead goes: it gets a part of the
/// device however many readers wait.
const PASSED_MAX: u32 = 16;

/// A stream whose reader is as fast as a disk always has a window that goes on: after so many, a
/// demand read goes.
const WENT_ON_MAX: u32 = 16;

/// So many read-ahead requests after a demand request, none is expected any more.
const DEMAND_LASTS: u32 = 64;

/// With one at a time the device would be idle until the next one is sent.
const AHEAD_LIMIT_MIN: u32 = 2;

/// A scheduler that sorts gets so many at a time to sort, a batch of `deadline`.
const RELEASED_SORTED: u32 = 16;

const AWAITED: &str = "a wait that ends has begun";

/// The largest request that a device takes, in sectors.
pub(super) fn largest_request(geometry: &Geometry) -> Sectors {
    Sectors(geometry.max_io.0 * SECTORS_PER_PAGE)
}
