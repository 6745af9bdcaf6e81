//! Device model, estimated from completions: cost of a request, cost of its bytes, and parallelism.
//!
//! In:    dispatch and completion times, request sizes, requests in flight.
//! Out:   a [`DeviceModel`], or None while the data do not suffice; it never guesses.
//! Never: requests of its own, or decisions.
//!
//! Design, sources of error and accuracy: docs/design/devices.md.

mod burst;
mod cost;
mod load;
mod scaling;

use alloc::boxed::Box;

use self::burst::Burst;
use self::cost::{CostLine, CostVerdict, Costs};
use self::load::LoadMeter;
use self::scaling::{Scaling, ScalingCurve};
use crate::sched::Op;
use crate::units::{ByteCount, Nanos};

/// Cost model of a device. Once the device has started a request of n bytes, it takes
/// `per_request_ns + n / 1024 x per_kib_ns`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceModel {
    /// Fixed cost of a request, in nanoseconds. If `per_kib_ns` is None, the cost of a whole
    /// request of the sizes seen, bytes included.
    pub per_request_ns: f64,
    /// Cost of 1024 bytes, in nanoseconds. None while all requests were of about one size.
    pub per_kib_ns: Option<f64>,
    /// Number of requests served at once. None until more requests were in flight than it can
    /// serve.
    pub parallel: Option<u32>,
    /// Requests that contributed to the cost, since the device was first seen or last changed.
    pub samples: u64,
}

/// Estimator of one device: costs by direction, and the parallelism of both directions together.
///
/// ```text
///   lone request     |--service--|                 service = a + b x bytes: measured on requests
///                                                  that find the device idle
///   many requests    |--service--|
///                    |--service--|--service--|     served while requests wait: service times
///                      (waits)   |--service--|     completed per time = parallelism
/// ```
#[derive(Clone, Debug)]
pub struct DeviceEstimator {
    reads: Costs,
    /// None until a write found the device idle: most devices are only read.
    writes: Option<Box<Costs>>,
    /// Cost of a read on a device that is never idle: the time since the previous completion. None
    /// until a read found others in flight.
    busy: Option<Box<Costs>>,
    load: LoadMeter,
    burst: Burst,
    scaling: ScalingCurve,
    gap: CompletionGap,
    /// All gaps since then are known.
    since: Nanos,
}

/// State of a request in flight, kept by the caller until completion.
#[derive(Clone, Copy, Debug)]
pub struct SentRequest {
    at: Nanos,
    op: Op,
    found_idle: bool,
    /// Requests in flight at dispatch, itself included.
    in_flight: u32,
    burst: Option<u32>,
    /// Whether it starts at the end of the previous request.
    pub(crate) goes_on: bool,
}

/// Tracks whether a caller is waiting for I/O, so that completions are noticed when they happen.
///
/// ```text
///   reader      |---waits---|           (works)          |---waits---|
///                    noticed at once        noticed when the next wait begins: no timing
///                    seen at once           seen when the next wait begins: no timing
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct LatencyObserver {
    waiting: u32,
    since: Option<ObservedSince>,
}

/// Start of the current period in which at least one caller has always been waiting.
#[derive(Clone, Copy, Debug)]
pub struct ObservedSince {
    since: Nanos,
    /// Whether the first wait of the period began by polling for earlier completions.
    has_looked: bool,
}

/// Time since the last completion, or since a request reached an idle device.
#[derive(Clone, Copy, Debug)]
struct CompletionGap {
    start: Nanos,
    /// False if the completion was noticed late: the gap began earlier.
    is_exact: bool,
    /// Requests in flight at its start.
    in_flight: u32,
}

impl DeviceEstimator {
    /// Creates an estimator for an unused device.
    #[must_use]
    pub const fn new() -> Self {
        let gap = CompletionGap { start: Nanos(0), is_exact: false, in_flight: 0 };
        let (load, burst, scaling) = (LoadMeter::new(), Burst::new(), ScalingCurve::new());
        let (reads, since) = (Costs::new(), Nanos(0));
        Self { reads, writes: None, busy: None, load, burst, scaling, gap, since }
    }

    /// Records the dispatch of a request while `in_flight` others are at the device.
    #[must_use]
    pub fn dispatched(&mut self, now: Nanos, op: Op, in_flight: u32) -> SentRequest {
        let found_idle = in_flight == 0;
        if found_idle || !self.gap.is_exact {
            self.gap = CompletionGap { start: now, is_exact: true, in_flight: in_flight + 1 };
            self.break_off();
        } else if now == self.gap.start {
            self.gap.in_flight = in_flight + 1;
        }
        if op == Op::Write {
            self.scaling.has_written();
        }
        let burst = self.burst.dispatched(now);
        let in_flight = in_flight + 1;
        SentRequest { at: now, op, found_idle, in_flight, burst, goes_on: false }
    }

    /// Records a completion of `came` bytes, or None if the request failed. `in_flight` includes
    /// this request. `watched` is [`LatencyObserver::now`].
    ///
    /// # Panics
    ///
    /// If `in_flight` is 0.
    pub fn completed(
        &mut self,
        now: Nanos,
        sent: SentRequest,
        came: Option<ByteCount>,
        in_flight: u32,
        watched: Option<ObservedSince>,
    ) {
        assert!(in_flight > 0, "what comes back was there");
        if sent.op == Op::Write {
            self.scaling.has_written();
        }
        let came = came.filter(|bytes| *bytes > ByteCount::ZERO);
        let cost = |bytes| self.costs(sent.op).and_then(|costs| costs.service_ns(bytes));
        let service_ns = came.and_then(cost);
        if let Some(rate) = self.burst.completed(now, sent.burst, service_ns) {
            self.load.serves_at_least(rate);
        }
        let is_seen = watched.is_some_and(|watched| watched.sees(self.gap.start, now));
        let is_known = is_seen && self.gap.is_exact;
        if let Some(bytes) = came.filter(|_| is_known) {
            let gap_ns = now.0.saturating_sub(self.gap.start.0);
            let is_whole = sent.at >= self.since;
            self.load.count(gap_ns, self.gap.in_flight, service_ns, is_whole);
            if !sent.found_idle && sent.op == Op::Read {
                self.busy.get_or_insert_with(|| Box::new(Costs::new())).learn(bytes, gap_ns);
            }
        }
        self.gap = CompletionGap { start: now, is_exact: is_seen, in_flight: in_flight - 1 };
        if !is_known {
            self.break_off();
        } else if in_flight == 1 {
            self.load.is_idle();
        }
        let Some(bytes) = came.filter(|_| sent.is_seen(now, watched)) else { return };
        let ns = now.0.saturating_sub(sent.at.0);
        if sent.op == Op::Read && self.scaling.add(sent.in_flight, bytes, sent.at, now) {
            self.reads = Costs::new();
            self.forget_load();
        }
        if sent.found_idle {
            self.learn(sent.op, bytes, ns);
        }
    }

    /// Returns the model of reads, or None before eight reads have found the device idle.
    #[must_use]
    pub fn model(&self) -> Option<DeviceModel> {
        self.model_of(Op::Read)
    }

    /// Returns the model of one direction, or None before eight such requests have found the device
    /// idle.
    #[must_use]
    pub fn model_of(&self, op: Op) -> Option<DeviceModel> {
        told(self.costs(op)?, self.load.parallel())
    }

    /// Returns the cost of reads on a device that is never idle.
    ///
    /// Both terms are smaller than those of [`Self::model`] by the factor of the device's
    /// parallelism, at all request sizes alike, so the gain of a larger size can still be derived
    /// from it.
    #[must_use]
    pub fn busy_model(&self) -> Option<DeviceModel> {
        told(self.busy.as_deref()?, Some(1))
    }

    /// Returns a lower bound of the parallelism: the most that was observed, or the value when
    /// requests were last seen to queue; 1 before any observation.
    ///
    /// ```text
    ///   at the device    3    5    7    9   10   11       a device that serves 8 at once
    ///   end in one       3    5    7    8    8    8
    ///   parallel         -    -    -    -    8    8       ten, two of which wait: confirmed
    ///   at least         3    5    7    8    8    8
    /// ```
    #[must_use]
    pub fn min_parallel(&self) -> u32 {
        self.load.min_parallel()
    }

    /// Returns the number of reads to keep in flight on a device that is never idle; 1 until a
    /// deeper queue has been seen to gain throughput.
    ///
    /// At a known limit it is 1.5 times the parallelism, because latencies vary and a reader
    /// consumes completions in order. Below the limit it is twice the parallelism seen, so that
    /// each window probes a deeper queue.
    #[must_use]
    pub(crate) fn busy_parallel(&self) -> u32 {
        self.scaling.known().map_or(1, |Scaling { served, is_limit }| {
            let served = load::whole(served);
            if is_limit { served.saturating_add(served / 2) } else { served.saturating_mul(2) }
        })
    }

    /// Returns [`Self::busy_parallel`], or None before a gain has been seen.
    #[must_use]
    pub(crate) fn known_parallel(&self) -> Option<u32> {
        self.scaling.known().map(|_| self.busy_parallel())
    }

    /// Returns the number of requests of this direction that have contributed to its cost.
    #[must_use]
    pub fn samples(&self, op: Op) -> u64 {
        self.costs(op).map_or(0, Costs::samples)
    }

    /// Returns true if enough requests of about this size found the device idle to know their cost.
    pub(crate) fn knows_cost(&self, op: Op, bytes: ByteCount) -> bool {
        self.costs(op).is_some_and(|costs| costs.has_mean(bytes))
    }

    /// Returns true if the costs of too many requests are unknown to estimate the parallelism.
    #[must_use]
    pub fn is_blind(&self) -> bool {
        self.load.is_blind()
    }

    /// Reduces the weight of the known costs of this direction, because a few requests are about to
    /// be sent alone, for the first time in a while.
    pub fn renew(&mut self, op: Op) {
        match op {
            Op::Read => self.reads.renew(),
            Op::Write => self.writes.iter_mut().for_each(|costs| costs.renew()),
        }
    }

    /// Adds a request that found the device idle.
    ///
    /// The parallelism is derived from the costs, so it is discarded when they change. The costs of
    /// the other direction stay: a device that reads at another speed may write as before.
    fn learn(&mut self, op: Op, bytes: ByteCount, ns: u64) {
        let costs = match op {
            Op::Read => &mut self.reads,
            Op::Write => self.writes.get_or_insert_with(|| Box::new(Costs::new())),
        };
        match costs.learn(bytes, ns) {
            CostVerdict::Usual => {}
            CostVerdict::NewSize => self.load.learnt_size(),
            CostVerdict::SizeChanged | CostVerdict::Changed => {
                self.scaling.forget();
                self.forget_load();
            }
        }
    }

    /// Discards the parallelism, which was derived from costs that no longer hold.
    fn forget_load(&mut self) {
        self.load.forget_all();
        self.burst.forget();
        self.break_off();
    }

    /// Starts a new period: the work done before the current gap is unknown.
    fn break_off(&mut self) {
        self.load.break_off();
        self.since = self.gap.start;
    }

    fn costs(&self, op: Op) -> Option<&Costs> {
        match op {
            Op::Read => Some(&self.reads),
            Op::Write => self.writes.as_deref(),
        }
    }
}

fn told(costs: &Costs, parallel: Option<u32>) -> Option<DeviceModel> {
    let CostLine { start_ns: per_request_ns, per_byte_ns } = costs.known_line()?;
    let per_kib_ns = per_byte_ns.map(|ns| ns * 1024.0);
    Some(DeviceModel { per_request_ns, per_kib_ns, parallel, samples: costs.samples() })
}

impl SentRequest {
    /// Returns the time since dispatch.
    pub(crate) fn ns_until(&self, now: Nanos) -> u64 {
        now.0.saturating_sub(self.at.0)
    }

    /// Returns true if a completion found now is noticed in time.
    #[must_use]
    pub fn is_seen(&self, now: Nanos, watched: Option<ObservedSince>) -> bool {
        watched.is_some_and(|watched| watched.sees(self.at, now))
    }
}

impl ObservedSince {
    /// For events that are reported when they happen, whether or not a caller waits.
    pub(crate) const ALWAYS: Self = Self { since: Nanos(0), has_looked: true };

    /// Returns true if a request begun at `start` and found complete now cannot have completed much
    /// earlier.
    ///
    /// ```text
    ///   |==========|. . . .  found    the wait begins now: it may have completed at any time
    ///   |=============|found          waiting since it began
    ///   |=============|found          waited for the last part, and did not find it at once
    ///        |-waits--|
    /// ```
    fn sees(self, start: Nanos, now: Nanos) -> bool {
        let (waited_ns, ns) = (now.0.saturating_sub(self.since.0), now.0.saturating_sub(start.0));
        self.since <= start || (self.has_looked && waited_ns > ns / SEEN)
    }
}

impl Default for DeviceEstimator {
    fn default() -> Self {
        Self::new()
    }
}

impl LatencyObserver {
    /// Begins a wait that first polls for earlier completions, as a read does.
    pub fn begin(&mut self, now: Nanos) {
        self.begin_as(ObservedSince { since: now, has_looked: true });
    }

    /// Begins a wait without that poll.
    pub fn begin_without_a_look(&mut self, now: Nanos) {
        self.begin_as(ObservedSince { since: now, has_looked: false });
    }

    fn begin_as(&mut self, watched: ObservedSince) {
        self.since.get_or_insert(watched);
        self.waiting += 1;
    }

    /// Ends a wait.
    ///
    /// # Panics
    ///
    /// If no wait is in progress.
    pub fn end(&mut self) {
        assert!(self.waiting > 0, "what ends has begun");
        self.waiting -= 1;
        if self.waiting == 0 {
            self.since = None;
        }
    }

    /// Returns the start of the current waiting period, or None if no caller waits.
    #[must_use]
    pub fn now(&self) -> Option<ObservedSince> {
        self.since
    }
}

/// A wait that begins with a poll finds earlier completions at once. A request found later than an
/// eighth of its own time after that had not completed before.
const SEEN: u64 = 8;

#[expect(
    clippy::cast_precision_loss,
    reason = "nanoseconds and bytes, of which 53 bits are enough"
)]
fn float(number: u64) -> f64 {
    number as f64
}
