//! One device: what is queued for it, what it is doing, and what is known of it.
//!
//! In:    requests; their ends.
//! Out:   the next request to send; when to look again.
//! Never: a frame, a file, a decision about what to read. Which request is next, its scheduler
//!        says.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::payload::IoPayload;
use super::write_depth::{WriteDemand, WriteDepthLimiter};
use crate::device_model::{DeviceEstimator, DeviceModel, ObservedSince, SentRequest};
use crate::geometry::Geometry;
use crate::ids::DomainId;
use crate::sched::{Choice, Op, Origin, Request, Scheduler, Why};
use crate::units::{ByteCount, Nanos, SECTORS_PER_PAGE, Sectors};

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

    /// The next request to send, if the scheduler gives one.
    pub(super) fn take(&mut self, now: Nanos) -> Option<Request<IoPayload>> {
        assert!(self.has_room(), "a device without room is not asked");
        self.limit_writes(now);
        let request = self.queue.take(now);
        debug_assert!(request.as_ref().is_none_or(|it| it.load.has_one_kind()), "{request:?}");
        request
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
        let held_until = self.limiter.held_until().filter(|_| !self.queue.is_empty());
        self.queue.wake_at().into_iter().chain(held_until).min()
    }

    /// A request was taken for the device.
    pub(super) fn sent(&mut self, now: Nanos, op: Op) -> SentRequest {
        let others = self.at_device();
        self.limiter.sent(op, self.queue.why() == Some(Why::Expired));
        let estimator = self.estimator.get_or_insert_default();
        let sent = estimator.dispatched(now, op, others);
        self.in_flight += 1;
        assert!(self.in_flight <= self.geometry.depth, "more requests than the device takes");
        sent
    }

    /// A request has completed; it still counts as in flight until [`Self::release_slot`].
    pub(super) fn completed(
        &mut self,
        now: Nanos,
        (origin, arrival): (Origin, Nanos),
        sent: SentRequest,
        result: Result<ByteCount, i32>,
        observed: Option<ObservedSince>,
    ) {
        assert!(self.in_flight > 0, "what completes was in flight");
        self.queue.completed(now, origin, arrival);
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
            queued_reads: self.queue.queued(Op::Read) as u64,
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

const AWAITED: &str = "a wait that ends has begun";

/// The largest request that a device takes, in sectors.
pub(super) fn largest_request(geometry: &Geometry) -> Sectors {
    Sectors(geometry.max_io.0 * SECTORS_PER_PAGE)
}
