//! What a device is like, as far as its completions tell: the cost of a request, the cost of its
//! bytes, and how many requests it serves at once.
//!
//! In:    when requests went to the device and came back, how large they were, how many were there.
//! Out:   a [`Fit`], or None before there is enough to tell.
//! Never: a request of its own, a decision. A guess where the requests tell nothing: what they
//!        cannot tell is None.
//!
//! Design, what can be told from what, and how right it is: docs/devices.md.

mod cost;
mod load;

use alloc::boxed::Box;

use self::cost::{Costs, Line, Verdict};
use self::load::Load;
use crate::sched::Op;
use crate::units::{Bytes, Instant};

/// What a device is like. A request of n bytes takes `per_request_ns + n / 1024 x per_kib_ns`, once
/// the device has begun with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
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

/// The fit of one device, as it grows: costs by direction, and how many it serves at once,
/// whichever way they go.
///
/// ```text
///   lone request     |--service--|                 service = a + b x bytes: told by requests that
///                                                  find the device idle
///   many requests    |--service--|
///                    |--service--|--service--|     served while requests wait: service times
///                      (waits)   |--service--|     completed per time = how many at once
/// ```
#[derive(Clone, Debug)]
pub struct DeviceFit {
    reads: Costs,
    /// None until a write came alone: most devices are only read.
    writes: Option<Box<Costs>>,
    /// What a read costs a device that is never idle: the time since the one before ended. None
    /// until one came that found others there.
    busy: Option<Box<Costs>>,
    load: Load,
    gap: Gap,
}

/// A request on its way: what the fit wants to know when it comes back.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    at: Instant,
    op: Op,
    found_idle: bool,
    watch: Option<u64>,
}

/// Whether somebody waits for devices, so that completions are seen when they happen.
///
/// ```text
///   reader      |---waits---|           (works)          |---waits---|
///   completions      x   x                  x . . . . . .x      x
///                    seen at once           seen when the next one waits: tells no time
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Watch {
    waiting: u32,
    serial: u64,
}

/// The time since the last completion.
#[derive(Clone, Copy, Debug)]
struct Gap {
    start: Instant,
    /// How many requests were there as it began.
    in_flight: u32,
    watch: Option<u64>,
}

impl DeviceFit {
    /// Of a device that nobody has used yet.
    #[must_use]
    pub const fn new() -> Self {
        let gap = Gap { start: Instant(0), in_flight: 0, watch: None };
        Self { reads: Costs::new(), writes: None, busy: None, load: Load::new(), gap }
    }

    /// A request goes to the device, where `in_flight` others are. `watch` is [`Watch::now`].
    #[must_use]
    pub fn dispatched(&mut self, now: Instant, op: Op, in_flight: u32, watch: Option<u64>) -> Sent {
        let found_idle = in_flight == 0;
        if found_idle || watch != self.gap.watch {
            self.gap = Gap { start: now, in_flight: in_flight + 1, watch };
            self.load.break_off();
        } else if now == self.gap.start {
            self.gap.in_flight = in_flight + 1;
        }
        Sent { at: now, op, found_idle, watch }
    }

    /// It is back, with so many bytes, or None if it failed. `in_flight` counts it and the others.
    pub fn completed(
        &mut self,
        now: Instant,
        sent: Sent,
        came: Option<Bytes>,
        in_flight: u32,
        watch: Option<u64>,
    ) {
        assert!(in_flight > 0, "what comes back was there");
        let was_watched = sent.was_watched(watch);
        let came = came.filter(|bytes| *bytes > Bytes::ZERO);
        if !was_watched || watch != self.gap.watch {
            self.load.break_off();
        } else if let Some(bytes) = came {
            let gap_ns = now.0.saturating_sub(self.gap.start.0);
            let service_ns = self.costs(sent.op).and_then(|costs| costs.service_ns(bytes));
            self.load.count(gap_ns, self.gap.in_flight, service_ns);
            if !sent.found_idle && sent.op == Op::Read {
                self.busy.get_or_insert_with(|| Box::new(Costs::new())).learn(bytes, gap_ns);
            }
        }
        self.gap = Gap { start: now, in_flight: in_flight - 1, watch };
        if let Some(bytes) = came.filter(|_| was_watched && sent.found_idle) {
            self.learn(sent.op, bytes, now.0.saturating_sub(sent.at.0));
        }
    }

    /// What is known of the device as it reads. None before eight reads have found it idle.
    #[must_use]
    pub fn fit(&self) -> Option<Fit> {
        self.fit_of(Op::Read)
    }

    /// What is known of the device as it goes this way. None before eight such requests have found
    /// it idle.
    #[must_use]
    pub fn fit_of(&self, op: Op) -> Option<Fit> {
        told(self.costs(op)?, self.load.parallel())
    }

    /// What reads cost as long as the device is never idle, if that is all that is known. It is as
    /// much less than [`Self::fit`] as several are served at once, for requests of all sizes alike,
    /// so what larger ones would gain can be told by it.
    #[must_use]
    pub fn busy_fit(&self) -> Option<Fit> {
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
    pub fn at_least(&self) -> u32 {
        self.load.at_least()
    }

    /// How many requests of this direction told their cost so far.
    #[must_use]
    pub fn samples(&self, op: Op) -> u64 {
        self.costs(op).map_or(0, Costs::samples)
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
    fn learn(&mut self, op: Op, bytes: Bytes, ns: u64) {
        let costs = match op {
            Op::Read => &mut self.reads,
            Op::Write => self.writes.get_or_insert_with(|| Box::new(Costs::new())),
        };
        match costs.learn(bytes, ns) {
            Verdict::Fits => {}
            Verdict::NewSize => self.load.learnt_size(),
            Verdict::SizeChanged => self.load.forget_all(),
            Verdict::Changed => {
                self.load.forget_all();
                self.load.break_off();
            }
        }
    }

    fn costs(&self, op: Op) -> Option<&Costs> {
        match op {
            Op::Read => Some(&self.reads),
            Op::Write => self.writes.as_deref(),
        }
    }
}

fn told(costs: &Costs, parallel: Option<u32>) -> Option<Fit> {
    let Line { start_ns: per_request_ns, per_byte_ns } = costs.known_line()?;
    let per_kib_ns = per_byte_ns.map(|ns| ns * 1024.0);
    Some(Fit { per_request_ns, per_kib_ns, parallel, samples: costs.samples() })
}

impl Sent {
    /// If somebody waits, and began to not long after it was sent, its end was seen in time.
    #[must_use]
    pub fn seen_by(self, now: Instant, watch: Option<u64>, since: Instant) -> Self {
        let (waited_ns, ns) = (now.0.saturating_sub(since.0), now.0.saturating_sub(self.at.0));
        let is_seen = watch.is_some() && waited_ns > ns / SEEN;
        Self { watch: if is_seen { watch } else { self.watch }, ..self }
    }

    /// Whether somebody waited from then on until `watch`, so that its end is seen in time.
    #[must_use]
    pub fn was_watched(&self, watch: Option<u64>) -> bool {
        watch.is_some() && watch == self.watch
    }
}

impl Default for DeviceFit {
    fn default() -> Self {
        Self::new()
    }
}

impl Watch {
    /// A read begins to wait.
    pub fn begin(&mut self) {
        self.serial += u64::from(self.waiting == 0);
        self.waiting += 1;
    }

    /// A read waits no more.
    pub fn end(&mut self) {
        assert!(self.waiting > 0, "what ends has begun");
        self.waiting -= 1;
    }

    /// Which watch this is; None while nobody waits. The same number at two times: somebody waited
    /// all the time between.
    #[must_use]
    pub fn now(&self) -> Option<u64> {
        (self.waiting > 0).then_some(self.serial)
    }
}

/// Who begins to wait finds at once what has ended before. What ends later than an eighth of its
/// time after that was not there yet.
const SEEN: u64 = 8;

#[expect(
    clippy::cast_precision_loss,
    reason = "nanoseconds and bytes, of which 53 bits are enough"
)]
fn float(number: u64) -> f64 {
    number as f64
}
