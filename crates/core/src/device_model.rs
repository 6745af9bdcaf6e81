//! Model of a device from its completions: the cost of a request, the cost of its bytes, and how
//! many requests it serves at once.
//!
//! In:    when requests went to the device and came back, how large they were, how many were there.
//! Out:   a [`DeviceModel`], or None before there is enough to tell.
//! Never: a request of its own, a decision. A guess: what the requests cannot tell is None.
//!
//! Design, sources of error, accuracy: docs/devices.md.

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

/// Model of a device. A request of n bytes takes `per_request_ns + n / 1024 x per_kib_ns`, once
/// the device has begun with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceModel {
    /// What each request costs, whatever its size, in nanoseconds; if `per_kib_ns` is None, what a
    /// request of the sizes seen costs with its bytes.
    pub per_request_ns: f64,
    /// What 1024 bytes cost, in nanoseconds. None as long as all requests were of about one size.
    pub per_kib_ns: Option<f64>,
    /// How many requests it serves at once. None as long as it was never seen with more requests
    /// than it could serve.
    pub parallel: Option<u32>,
    /// How many requests told the cost, since the device was first seen or last changed.
    pub samples: u64,
}

/// Estimates the model of one device: costs by direction, and how many requests it serves at once
/// in both directions together.
///
/// ```text
///   lone request     |--service--|                 service = a + b x bytes: told by requests that
///                                                  find the device idle
///   many requests    |--service--|
///                    |--service--|--service--|     served while requests wait: service times
///                      (waits)   |--service--|     completed per time = how many at once
/// ```
#[derive(Clone, Debug)]
pub struct DeviceEstimator {
    reads: Costs,
    /// None until a write came alone: most devices are only read.
    writes: Option<Box<Costs>>,
    /// What a read costs a device that is never idle: the time since the one before ended. None
    /// until one came that found others there.
    busy: Option<Box<Costs>>,
    load: LoadMeter,
    burst: Burst,
    scaling: ScalingCurve,
    gap: CompletionGap,
    /// From when on all gaps are known.
    since: Nanos,
}

/// A request in flight: what the estimator needs when it completes.
#[derive(Clone, Copy, Debug)]
pub struct SentRequest {
    at: Nanos,
    op: Op,
    found_idle: bool,
    /// How many there were, itself included.
    in_flight: u32,
    burst: Option<u32>,
    /// Whether it starts where the one before it ended.
    pub(crate) goes_on: bool,
}

/// Whether a caller waits for devices, so that completions are seen when they happen.
///
/// ```text
///   reader      |---waits---|           (works)          |---waits---|
///   completions      x   x                  x . . . . . .x      x
///                    seen at once           seen when the next wait begins: no timing
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct LatencyObserver {
    waiting: u32,
    since: Option<ObservedSince>,
}

/// Since when there has always been a caller that waits.
#[derive(Clone, Copy, Debug)]
pub struct ObservedSince {
    since: Nanos,
    /// Whether the first of them began with a look for earlier completions.
    has_looked: bool,
}

/// The time since the last completion, or since a request came to an idle device.
#[derive(Clone, Copy, Debug)]
struct CompletionGap {
    start: Nanos,
    /// Whether it began then: what is seen late ended before.
    is_exact: bool,
    /// How many requests were there as it began.
    in_flight: u32,
}

impl DeviceEstimator {
    /// Of a device that has not been used yet.
    #[must_use]
    pub const fn new() -> Self {
        let gap = CompletionGap { start: Nanos(0), is_exact: false, in_flight: 0 };
        let (load, burst, scaling) = (LoadMeter::new(), Burst::new(), ScalingCurve::new());
        let (reads, since) = (Costs::new(), Nanos(0));
        Self { reads, writes: None, busy: None, load, burst, scaling, gap, since }
    }

    /// A request goes to the device, where `in_flight` others are.
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

    /// It is back, with so many bytes, or None if it failed. `in_flight` counts it and the others.
    /// `watched` is [`LatencyObserver::now`].
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
        if sent.op == Op::Read && self.scaling.add(sent.in_flight, bytes, (sent.at, now)) {
            self.reads = Costs::new();
            self.forget_load();
        }
        if sent.found_idle {
            self.learn(sent.op, bytes, ns);
        }
    }

    /// What is known of the device as it reads. None before eight reads have found it idle.
    #[must_use]
    pub fn model(&self) -> Option<DeviceModel> {
        self.model_of(Op::Read)
    }

    /// What is known of the device as it goes this way. None before eight such requests have found
    /// it idle.
    #[must_use]
    pub fn model_of(&self, op: Op) -> Option<DeviceModel> {
        told(self.costs(op)?, self.load.parallel())
    }

    /// What reads cost as long as the device is never idle, if that is all that is known. It is as
    /// much less than [`Self::model`] as several are served at once, for requests of all sizes
    /// alike, so what larger ones would gain can be told by it.
    #[must_use]
    pub fn busy_model(&self) -> Option<DeviceModel> {
        told(self.busy.as_deref()?, Some(1))
    }

    /// How many requests it serves at once at least: the most that it was seen to serve, or what
    /// it served when some were last seen to wait; 1 if nothing was seen.
    ///
    /// ```text
    ///   at the device    3    5    7    9   10   11       a device that serves 8 at once
    ///   end in one       3    5    7    8    8    8
    ///   parallel         -    -    -    -    8    8       ten, and two wait: now it is sure
    ///   at least         3    5    7    8    8    8
    /// ```
    #[must_use]
    pub fn min_parallel(&self) -> u32 {
        self.load.min_parallel()
    }

    /// How many reads are to be in flight on a device that is never idle. 1 if more in flight were
    /// not seen to bring more.
    ///
    /// Where more were seen to bring nothing it is half as many again as are served: their times
    /// vary, and a reader takes them in their order. Where that was not seen, it is twice as many
    /// as were served: so each window tells whether more of them would be.
    #[must_use]
    pub(crate) fn busy_parallel(&self) -> u32 {
        self.scaling.known().map_or(1, |Scaling { served, is_limit }| {
            let served = load::whole(served);
            if is_limit { served.saturating_add(served / 2) } else { served.saturating_mul(2) }
        })
    }

    /// The same; None before it was seen.
    #[must_use]
    pub(crate) fn known_parallel(&self) -> Option<u32> {
        self.scaling.known().map(|_| self.busy_parallel())
    }

    /// How many requests of this direction told their cost so far.
    #[must_use]
    pub fn samples(&self, op: Op) -> u64 {
        self.costs(op).map_or(0, Costs::samples)
    }

    /// Whether enough requests of about this size went alone to know what they cost.
    pub(crate) fn knows_cost(&self, op: Op, bytes: ByteCount) -> bool {
        self.costs(op).is_some_and(|costs| costs.has_mean(bytes))
    }

    /// Whether requests come whose cost is not known, so that it cannot be told how many are served
    /// at once.
    #[must_use]
    pub fn is_blind(&self) -> bool {
        self.load.is_blind()
    }

    /// Some requests of this direction will go alone, for the first time in a while: what was known
    /// of their costs counts no more than they will.
    pub fn renew(&mut self, op: Op) {
        match op {
            Op::Read => self.reads.renew(),
            Op::Write => self.writes.iter_mut().for_each(|costs| costs.renew()),
        }
    }

    /// A request that found the device idle took so long.
    ///
    /// How many are served at once is told by what they cost: if that was wrong, so was this. A
    /// device that reads otherwise may write as it did, so the other direction's costs stay.
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

    /// What load told was told by costs that are not so.
    fn forget_load(&mut self) {
        self.load.forget_all();
        self.burst.forget();
        self.break_off();
    }

    /// What was done before the gap that begins now is not known.
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
    /// How long it has been at the device.
    pub(crate) fn ns_until(&self, now: Nanos) -> u64 {
        now.0.saturating_sub(self.at.0)
    }

    /// Whether its end is seen in time, now.
    #[must_use]
    pub fn is_seen(&self, now: Nanos, watched: Option<ObservedSince>) -> bool {
        watched.is_some_and(|watched| watched.sees(self.at, now))
    }
}

impl ObservedSince {
    /// Of what is reported when it happens, whether a caller waits or not.
    pub(crate) const ALWAYS: Self = Self { since: Nanos(0), has_looked: true };

    /// Whether what began at `start` and is found now did not end before.
    ///
    /// ```text
    ///   |==========|. . . .  found    waits only now: it may have ended at any time
    ///   |=============|found          waits since it began
    ///   |=============|found          has waited for a part of it, and did not find it at once
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
    /// A wait begins with a look for earlier completions, as a read's does.
    pub fn begin(&mut self, now: Nanos) {
        self.begin_as(ObservedSince { since: now, has_looked: true });
    }

    /// A wait begins without that look.
    pub fn begin_without_a_look(&mut self, now: Nanos) {
        self.begin_as(ObservedSince { since: now, has_looked: false });
    }

    fn begin_as(&mut self, watched: ObservedSince) {
        self.since.get_or_insert(watched);
        self.waiting += 1;
    }

    /// A wait ends.
    ///
    /// # Panics
    ///
    /// If no wait has begun that has not ended.
    pub fn end(&mut self) {
        assert!(self.waiting > 0, "what ends has begun");
        self.waiting -= 1;
        if self.waiting == 0 {
            self.since = None;
        }
    }

    /// Since when there has always been a wait; None while there is none.
    #[must_use]
    pub fn now(&self) -> Option<ObservedSince> {
        self.since
    }
}

/// A read that begins to wait finds earlier completions at once. One that is found later than an
/// eighth of its own time after that had not ended before.
const SEEN: u64 = 8;

#[expect(
    clippy::cast_precision_loss,
    reason = "nanoseconds and bytes, of which 53 bits are enough"
)]
fn float(number: u64) -> f64 {
    number as f64
}
