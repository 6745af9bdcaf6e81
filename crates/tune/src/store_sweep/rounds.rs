//! Rounds over connections, then over part sizes: selects the next step and predicts its cost. A
//! step that does not fit the remaining budget is not started.

use std::time::Duration;

use foreread_core::sizes::Exact;
use foreread_core::units::{ByteCount, Nanos};

use super::axis::{Axis, Knob};
use super::climb::{SLACK, whole};
use super::step::{StorePoint, StoreStep, TransferStep};
use super::{AxisBounds, SMALL_READS_BETWEEN, SMALL_SHARE_BETWEEN};
use super::{StoreSweep, StoreSweepEnd, SweepStage};

/// Predicted cost of one measurement of a point.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepCost {
    pub(super) time: Duration,
    pub(super) window: Duration,
    pub(super) bytes: u64,
}

impl StoreSweep {
    /// Returns the next step of the axis; None if it is over.
    pub(super) fn axis_step(&mut self, now: Nanos) -> Option<StoreStep> {
        let is_parts = self.stage == SweepStage::Parts;
        if std::mem::take(&mut self.is_small_due)
            && let Some(step) = self.small_reads(SMALL_READS_BETWEEN, SMALL_SHARE_BETWEEN)
        {
            return Some(step);
        }
        while let Some(point) = self.axis().pop() {
            let cost = self.cost_of(point);
            if let Some(why) = self.does_not_fit(point, &cost, now) {
                self.axis().skip(why);
                continue;
            }
            let at_most = (cost.time * 4 + SLACK).min(self.time_left(now));
            let bytes = ByteCount(cost.bytes.min(self.bytes_left()));
            return Some(self.transfer(point, cost.window, bytes, at_most));
        }
        let mut rng = self.rng.clone();
        self.is_small_due = self.axis().begin_round(&mut rng);
        self.rng = rng;
        if !self.is_small_due && is_parts {
            let tight = self.parts.tight().or(self.connections.tight());
            self.end_with(tight.unwrap_or(StoreSweepEnd::Settled));
        } else if !self.is_small_due {
            self.begin_parts(now);
        }
        None
    }

    /// Returns the axis being measured.
    fn axis(&mut self) -> &mut Axis {
        if self.stage == SweepStage::Parts { &mut self.parts } else { &mut self.connections }
    }

    fn begin_parts(&mut self, now: Nanos) {
        let found = self.connections.plateau().or_else(|| self.connections.curve().plateau());
        let point = found.and_then(|plateau| self.connections.point_of(plateau.window));
        let Some(StorePoint { part, connections }) = point else {
            let is_refused = !self.refused.is_empty();
            let end = if is_refused { StoreSweepEnd::Throttled } else { StoreSweepEnd::OutOfTime };
            self.end_with(end);
            return;
        };
        let sizes = self.settings.parts_around(part).into_iter();
        let points = sizes.map(|part| StorePoint { part, connections });
        let points: Vec<StorePoint> = points
            .filter(|point| self.settings.has_room_for(point.in_flight()) && self.may_try(*point))
            .collect();
        let bounds = self.bounds(now, 1.0);
        let points = self.affordable(points, now, bounds);
        self.parts = Axis::new(Knob::Part, points);
        self.until = bounds;
        self.stage = SweepStage::Parts;
    }

    /// Returns the points of which three rounds fit; those with the most bytes in flight are
    /// dropped first.
    pub(super) fn affordable(
        &mut self,
        mut points: Vec<StorePoint>,
        now: Nanos,
        bounds: AxisBounds,
    ) -> Vec<StorePoint> {
        let time = Duration::from_nanos(bounds.time.0.saturating_sub(now.0));
        let bytes = bounds.bytes.saturating_sub(self.spent.bytes);
        let mut left_out = Vec::new();
        while points.len() > 1 {
            let costs: Vec<StepCost> = points.iter().map(|point| self.cost_of(*point)).collect();
            let all_time: Duration = costs.iter().map(|cost| cost.time).sum();
            let all_bytes: u64 = costs.iter().map(|cost| cost.bytes).sum();
            if all_time * ROUNDS <= time && all_bytes * u64::from(ROUNDS) <= bytes {
                break;
            }
            left_out.extend(points.pop());
        }
        if let (Some(first), Some(last)) = (left_out.last(), left_out.first()) {
            let is_part = first.part != last.part || points.iter().any(|it| it.part != first.part);
            let (what, from) = if is_part {
                ("parts", Exact(first.part).to_string())
            } else {
                ("connections", first.connections.to_string())
            };
            self.notes.push(format!(
                "{what} from {from} on were left out: {ROUNDS} rounds of them would have exceeded \
                 the time or the bytes; raise the limits with --seconds and --max-bytes"
            ));
        }
        points
    }

    /// Drops a point that has failed.
    pub(super) fn leave_out(&mut self, point: StorePoint, why: &str) {
        self.notes.push(format!(
            "{} connections with parts of {} were left out: {why}",
            point.connections,
            Exact(point.part)
        ));
        self.connections.remove(|one| one == point);
        self.parts.remove(|one| one == point);
        self.climb.limit_below(point.connections);
    }

    /// Returns the bound that a step would exceed, if any.
    fn does_not_fit(
        &self,
        point: StorePoint,
        cost: &StepCost,
        now: Nanos,
    ) -> Option<StoreSweepEnd> {
        let left = Duration::from_nanos(self.until.time.0.saturating_sub(now.0));
        let has_bytes = self.spent.bytes + cost.bytes <= self.until.bytes;
        match (cost.time <= left, has_bytes && self.has_requests(point, cost)) {
            (true, true) => None,
            (false, _) => Some(StoreSweepEnd::OutOfTime),
            (true, false) => Some(StoreSweepEnd::OutOfBytes),
        }
    }

    /// Returns whether the remaining requests suffice for a step.
    pub(super) fn has_requests(&self, point: StorePoint, cost: &StepCost) -> bool {
        let takes = cost.bytes / point.part.0 + u64::from(point.connections);
        self.spent.requests + takes <= self.settings.requests()
    }

    /// Predicts the cost of a measurement from the last rate of the point, or of a point with the
    /// same number of connections.
    pub(super) fn cost_of(&self, point: StorePoint) -> StepCost {
        let of_axes = self.parts.last(point).or_else(|| self.connections.last(point));
        let rate = of_axes.or_else(|| self.climb.rate_of(point.connections)).unwrap_or(1.0);
        self.cost(point, rate)
    }

    /// Predicts the cost at a rate in 10^6 bytes a second: a first part for each connection, the
    /// window, and the parts in flight at its end.
    pub(super) fn cost(&self, point: StorePoint, mb_per_s: f64) -> StepCost {
        let rate = (mb_per_s * 1e6).max(1.0);
        let in_flight = point.in_flight().0 as f64;
        let of_part = Duration::from_secs_f64((in_flight / rate).min(HOUR_S));
        let window = self.settings.window().max(of_part);
        let bytes = in_flight * 2.0 + rate * window.as_secs_f64() * MARGIN;
        StepCost { time: of_part * 2 + window, window, bytes: whole(bytes) }
    }

    /// Creates a step that reads parts from the end of the last one.
    pub(super) fn transfer(
        &mut self,
        point: StorePoint,
        window: Duration,
        bytes_max: ByteCount,
        at_most: Duration,
    ) -> StoreStep {
        let parts = (self.settings.object.0 / point.part.0).max(1);
        let start = self.offset / point.part.0 % parts * point.part.0;
        self.offset = start + bytes_max.0;
        StoreStep::Transfer(TransferStep { point, start, window, bytes_max, at_most })
    }
}

/// Minimum readings of each point.
const ROUNDS: u32 = 3;

/// A store may become a quarter faster.
const MARGIN: f64 = 1.25;

/// Longer than any measurement.
const HOUR_S: f64 = 3600.0;
