//! Sweeps an object store: finds the part size and the number of connections.
//!
//! In:    the size of the object; bounds on time, bytes and requests; the result of each step.
//! Out:   the next step; [`StoreFindings`], also for a sweep that was stopped early.
//! Never: a clock, a connection, a wait; a step that could pass a bound; a point at least as
//! demanding
//!        as one that the store has refused.
//!
//! ```text
//!   new connections --> small reads --> climb -------> rounds over -----> rounds over ----> end
//!   what does one       how late is     1, 2, 4 .. at  connections at     part sizes at that
//!   cost?               a first byte?   one part size  that part size     many connections
//!                                          |               |                  |
//!                                          '--- 503 or 429: pause; points that ask for as much
//!                                               or more are left out
//! ```
//!
//! Each round reads every point once, in shuffled order, so a store that slows down during the
//! sweep does not penalise the last points. Small reads continue between the rounds.

mod axis;
mod client_settings;
mod climb;
mod findings;
mod latency;
mod part_window;
mod plan;
mod rounds;
mod settings;
mod step;
mod throttle;

use std::time::Duration;

use foreread_core::units::{ByteCount, Nanos};

use crate::rng::Rng;
use axis::{Axis, Knob};
use climb::Climb;

pub use client_settings::{ClientSettings, ForereadSettings, client_settings};
pub use findings::{
    ConnectionCosts, LatencyQuantiles, PointResult, SmallReads, StoreChoice, StoreFindings,
};
pub use part_window::PartWindow;
pub use plan::PlannedSweep;
pub use settings::{SMALLEST_OBJECT, StoreSweepSettings};
pub use step::{
    ConnectionCost, SmallRead, SmallReadStep, StepFindings, StepResult, StorePoint, StoreSpent,
    StoreStep, TransferSample, TransferStep,
};
pub use throttle::ThrottleSeen;

/// Share of the best point's throughput that counts as all of it: the remainder is not worth a
/// third more parts or twice the connections.
pub const STORE_SHARE: f64 = 0.97;

/// End of a sweep of a store that was not stopped.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StoreSweepEnd {
    /// Every question was answered.
    Settled,
    /// The time ran out; the intervals state the uncertainty.
    OutOfTime,
    /// The limit on bytes or requests was reached.
    OutOfBytes,
    /// The store refused requests repeatedly.
    Throttled,
}

/// A sweep of a store.
#[derive(Debug)]
pub struct StoreSweep {
    settings: StoreSweepSettings,
    rng: Rng,
    began: Option<Nanos>,
    spent: StoreSpent,
    stage: SweepStage,
    climb: Climb,
    /// Part size of the climb and of the rounds over connections.
    part: ByteCount,
    connections: Axis,
    parts: Axis,
    /// Absolute bounds of the current axis.
    until: AxisBounds,
    costs: Vec<ConnectionCost>,
    small: Vec<SmallRead>,
    is_small_due: bool,
    refused: Vec<ThrottleSeen>,
    pause: Option<Duration>,
    /// Start of the next part.
    offset: u64,
    notes: Vec<String>,
    end: Option<StoreSweepEnd>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum SweepStage {
    NewConnections,
    SmallReads,
    Gauge,
    Climb,
    Connections,
    Parts,
    Over,
}

/// Bounds of an axis: a time, and a total of bytes since the beginning.
#[derive(Clone, Copy, Debug, Default)]
struct AxisBounds {
    time: Nanos,
    bytes: u64,
}

impl StoreSweep {
    /// Creates a sweep within these bounds.
    #[must_use]
    pub fn new(settings: StoreSweepSettings) -> Self {
        let part = settings.part_max();
        let mut rng = Rng(settings.seed);
        // Each run begins at a different offset: data read by an earlier run may be cached.
        let offset = rng.below(settings.object.0.max(1));
        Self {
            rng,
            began: None,
            spent: StoreSpent::default(),
            stage: SweepStage::NewConnections,
            climb: Climb::default(),
            part,
            connections: Axis::new(Knob::Connections, Vec::new()),
            parts: Axis::new(Knob::Part, Vec::new()),
            until: AxisBounds::default(),
            costs: Vec::new(),
            small: Vec::new(),
            is_small_due: false,
            refused: Vec::new(),
            pause: None,
            offset,
            notes: settings.notes(),
            end: None,
            settings,
        }
    }

    /// Returns the next step; None if the sweep is over. After each step, [`Self::record`] is
    /// called with its result.
    pub fn next_step(&mut self, now: Nanos) -> Option<StoreStep> {
        self.began.get_or_insert(now);
        loop {
            if self.stage != SweepStage::Over {
                self.end_if_spent(now);
            }
            if let Some(pause) = self.pause.take()
                && self.stage != SweepStage::Over
            {
                return Some(StoreStep::Pause(pause.min(self.time_left(now))));
            }
            let step = match self.stage {
                SweepStage::NewConnections => {
                    self.stage = SweepStage::SmallReads;
                    Some(StoreStep::NewConnections { count: NEW_CONNECTIONS })
                }
                SweepStage::SmallReads => {
                    self.stage = SweepStage::Gauge;
                    self.small_reads(SMALL_READS_FIRST, SMALL_SHARE_FIRST)
                }
                SweepStage::Gauge => {
                    self.stage = SweepStage::Climb;
                    Some(self.gauge(now))
                }
                SweepStage::Climb => self.climb_step(now),
                SweepStage::Connections | SweepStage::Parts => self.axis_step(now),
                SweepStage::Over => return None,
            };
            if step.is_some() {
                return step;
            }
        }
    }

    /// Records the result of a step, at the time when it ended.
    pub fn record(&mut self, step: &StoreStep, result: StepResult) {
        self.spent = self.spent.and(&result.spent);
        let is_refused = result.spent.throttled > 0;
        if is_refused && !matches!(step, StoreStep::Transfer(_)) {
            // One request at a time: no part size and no number of connections is less demanding.
            self.refuse(
                StorePoint { part: self.settings.small_read(), connections: 1 },
                &result.spent,
            );
        }
        match (step, result.found) {
            (_, StepFindings::NewConnections(costs)) => self.costs.extend(costs),
            (_, StepFindings::SmallReads(reads)) => self.small.extend(reads),
            (StoreStep::Transfer(step), StepFindings::Transfer(sample)) => {
                self.record_transfer(step, &result.spent, sample);
            }
            (_, StepFindings::Transfer(_) | StepFindings::Nothing) => {}
        }
    }

    /// Returns the used share of time or bytes, whichever is larger, from 0 to 1.
    #[must_use]
    pub fn progress(&self, now: Nanos) -> f64 {
        let time = 1.0 - self.time_left(now).as_secs_f64() / self.settings.budget.as_secs_f64();
        let bytes = self.spent.bytes as f64 / self.settings.bytes.0.max(1) as f64;
        time.max(bytes).clamp(0.0, 1.0)
    }

    /// Returns the requests and bytes spent so far.
    #[must_use]
    pub fn spent(&self) -> StoreSpent {
        self.spent
    }

    fn record_transfer(
        &mut self,
        step: &TransferStep,
        spent: &StoreSpent,
        sample: Option<TransferSample>,
    ) {
        let point = step.point;
        if spent.throttled > 0 {
            self.refuse(point, spent);
            return;
        }
        let Some(sample) = sample.filter(|sample| sample.bytes.0 > 0 && sample.ns > 0) else {
            self.leave_out(point, "no part arrived in time");
            return;
        };
        match self.stage {
            SweepStage::Climb => self.climb.record(point, sample.mb_per_s()),
            SweepStage::Connections => self.connections.record(point, sample.mb_per_s()),
            SweepStage::Parts => self.parts.record(point, sample.mb_per_s()),
            SweepStage::NewConnections
            | SweepStage::SmallReads
            | SweepStage::Gauge
            | SweepStage::Over => {}
        }
    }

    fn small_reads(&mut self, count: u32, share: f64) -> Option<StoreStep> {
        let known = u32::try_from(self.small.len()).unwrap_or(u32::MAX);
        let count = count.min(SMALL_READS_MAX.saturating_sub(known));
        if count == 0 {
            return None;
        }
        let len = self.settings.small_read();
        let room = (self.settings.object.0 - len.0) / len.0 + 1;
        let offsets = (0..count).map(|_| self.rng.below(room) * len.0).collect();
        let at_most = self.settings.budget.mul_f64(share);
        Some(StoreStep::SmallReads(SmallReadStep { offsets, len, at_most }))
    }

    fn time_left(&self, now: Nanos) -> Duration {
        let began = self.began.unwrap_or(now);
        let took = Duration::from_nanos(now.0.saturating_sub(began.0));
        self.settings.budget.saturating_sub(took)
    }

    fn bytes_left(&self) -> u64 {
        self.settings.bytes.0.saturating_sub(self.spent.bytes)
    }

    fn end_if_spent(&mut self, now: Nanos) {
        if self.time_left(now).is_zero() {
            self.end_with(StoreSweepEnd::OutOfTime);
        } else if self.bytes_left() < 2 * self.settings.part_min().0
            || self.spent.requests >= self.settings.requests()
        {
            self.end_with(StoreSweepEnd::OutOfBytes);
        }
    }

    fn end_with(&mut self, end: StoreSweepEnd) {
        self.end.get_or_insert(end);
        self.stage = SweepStage::Over;
    }
}

/// New clients to time: apart from network noise, each connection costs the same.
const NEW_CONNECTIONS: u32 = 5;

/// Small reads before the climb, one at a time: p99 takes a hundred.
const SMALL_READS_FIRST: u32 = 120;

/// Largest share of the time for small reads, for a distant store.
const SMALL_SHARE_FIRST: f64 = 0.08;

/// Limit on the share of the small reads between two rounds.
const SMALL_SHARE_BETWEEN: f64 = 0.01;

/// Small reads between two rounds.
const SMALL_READS_BETWEEN: u32 = 24;

/// Total limit. More would not make the tail clearer within a minute.
const SMALL_READS_MAX: u32 = 1000;
