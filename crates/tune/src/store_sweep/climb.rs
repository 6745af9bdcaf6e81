//! The climb: doubles the connections until more give no more.
//!
//! Each number is read once, over new connections, so its readings only direct the following rounds
//! and are not part of the answer.

use std::time::Duration;

use foreread_core::units::{ByteCount, Nanos};

use super::axis::{Axis, Knob};
use super::settings::PART_MIN;
use super::step::{StorePoint, StoreStep};
use super::{AxisBounds, StoreSweep, StoreSweepEnd, SweepStage};

/// Results of the climb.
#[derive(Debug, Default)]
pub(super) struct Climb {
    /// Connections and 10^6 bytes a second, in order. The first is the gauge: one connection, often
    /// with another part size.
    rates: Vec<(StorePoint, f64)>,
    /// Upper limit of the connections.
    limit: Option<u32>,
}

impl Climb {
    pub(super) fn record(&mut self, point: StorePoint, mb_per_s: f64) {
        self.rates.push((point, mb_per_s));
    }

    /// Limits the climb after the store has refused this many connections.
    pub(super) fn limit_below(&mut self, connections: u32) {
        let limit = self.limit.map_or(connections, |limit| limit.min(connections));
        self.limit = Some(limit);
    }

    /// Returns the rate of one connection with parts of the climb's size.
    pub(super) fn of_one(&self) -> Option<f64> {
        self.rates.iter().rev().find(|(point, _)| point.connections == 1).map(|(_, rate)| *rate)
    }

    fn best(&self) -> f64 {
        self.rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max)
    }

    /// Returns the rate of this many connections, or of the next smaller number that was tried.
    pub(super) fn rate_of(&self, connections: u32) -> Option<f64> {
        let mut upto = self.rates.iter().rev();
        upto.find(|(point, _)| point.connections <= connections).map(|(_, rate)| *rate)
    }

    /// Returns whether the last two doublings gave nothing. The gauge does not count, because its
    /// part differs.
    fn is_over(&self) -> bool {
        let climbed = self.rates.get(1..).unwrap_or_default();
        let [.., (_, before), (_, one), (_, two)] = climbed else { return false };
        one.max(*two) < before * GAIN_MIN
    }

    /// Returns the numbers of connections worth rounds: from half of the fewest that come close to
    /// the best, up to the best one or twice the fewest.
    fn worth_rounds(&self, part: ByteCount) -> Vec<u32> {
        let climbed: Vec<(u32, f64)> = self
            .rates
            .iter()
            .skip(1)
            .filter(|(point, _)| point.part == part)
            .map(|(point, rate)| (point.connections, *rate))
            .collect();
        let best = climbed.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
        let is_near = |rate: f64| rate >= NEAR * best;
        let Some((fewest, _)) = climbed.iter().find(|(_, rate)| is_near(*rate)) else {
            return Vec::new();
        };
        let top = climbed.iter().filter(|(_, rate)| *rate >= best).map(|(n, _)| *n).max();
        let upto = top.unwrap_or(*fewest).max(2 * fewest);
        let wanted = climbed.iter().map(|(connections, _)| *connections);
        wanted.filter(|n| *n >= fewest / 2 && *n <= upto).collect()
    }
}

impl StoreSweep {
    /// Measures one connection with a part that is not too large for any store, to size the parts
    /// of the climb.
    pub(super) fn gauge(&mut self, now: Nanos) -> StoreStep {
        let part = GAUGE.min(self.settings.part_max());
        let point = StorePoint { part, connections: 1 };
        let at_most = self.time_left(now).mul_f64(0.25);
        self.transfer(point, self.settings.window(), ByteCount(16 * part.0), at_most)
    }

    /// Returns the next step; None at the end of the climb.
    pub(super) fn climb_step(&mut self, now: Nanos) -> Option<StoreStep> {
        if self.climb.rates.len() == 1 {
            self.part = self.part_of_climb();
        }
        let Some((last, rate)) = self.climb.rates.last().copied() else {
            self.end_with(StoreSweepEnd::OutOfTime);
            return None;
        };
        // The gauge used one connection, too, but with another part.
        let is_gauge = self.climb.rates.len() == 1;
        let connections = if is_gauge { 1 } else { last.connections * 2 };
        let point = StorePoint { part: self.part, connections };
        let is_limited = self.climb.limit.is_some_and(|limit| connections >= limit);
        let is_within = connections <= self.settings.connections_max
            && self.settings.has_room_for(point.in_flight());
        if is_limited || !is_within || self.climb.is_over() {
            self.begin_connections(now);
            return None;
        }
        // Doubling the connections at most doubles the rate.
        let cost = self.cost(point, if is_gauge { rate } else { 2.0 * rate });
        let share_ns = self.settings.budget.mul_f64(CLIMB_STEP_SHARE);
        let is_dear = cost.time > share_ns || cost.bytes > self.settings.bytes.0 / CLIMB_STEP_DENOM;
        let is_possible = cost.bytes <= self.bytes_left() && self.has_requests(point, &cost);
        if connections > 1 && (is_dear || !is_possible) {
            self.notes.push(format!(
                "more than {} connections were not tried: one measurement would take {:.1} s and \
                 {} MB; raise the limits with --seconds and --max-bytes",
                last.connections,
                cost.time.as_secs_f64(),
                cost.bytes / 1_000_000
            ));
            self.begin_connections(now);
            return None;
        }
        let at_most = (cost.time * 4 + SLACK).min(self.time_left(now));
        Some(self.transfer(
            point,
            cost.window,
            ByteCount(cost.bytes.min(self.bytes_left())),
            at_most,
        ))
    }

    /// Returns the largest part that one connection reads within about half a second.
    fn part_of_climb(&self) -> ByteCount {
        let rate = self.climb.best() * 1e6 * PART_SECONDS;
        let slow = 1 << whole(rate).max(PART_MIN.0).ilog2();
        ByteCount(self.settings.part_max().0.min(slow))
    }

    fn begin_connections(&mut self, now: Nanos) {
        let worth = self.climb.worth_rounds(self.part);
        let part = self.part;
        let points = worth.into_iter().map(|connections| StorePoint { part, connections });
        let points: Vec<StorePoint> = points.filter(|point| self.may_try(*point)).collect();
        let bounds = self.bounds(now, CONNECTIONS_SHARE);
        let points = self.affordable(points, now, bounds);
        self.connections = Axis::new(Knob::Connections, points);
        self.until = bounds;
        self.stage = SweepStage::Connections;
    }

    /// Returns bounds for this share of the remaining budget.
    pub(super) fn bounds(&self, now: Nanos, share: f64) -> AxisBounds {
        let time = self.time_left(now).mul_f64(share);
        let bytes = self.bytes_left() as f64 * share;
        AxisBounds {
            time: Nanos(now.0 + u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
            bytes: self.spent.bytes + whole(bytes),
        }
    }
}

/// Truncates to whole bytes.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "cut on purpose")]
pub(super) fn whole(bytes: f64) -> u64 {
    bytes.max(0.0) as u64
}

/// Small enough for a store at 1 MB/s.
const GAUGE: ByteCount = ByteCount(1 << 20);

/// Seconds that one connection may take for a part of the climb.
const PART_SECONDS: f64 = 0.5;

/// Gain of two doublings that justifies a third.
const GAIN_MIN: f64 = 1.05;

/// Share of the best rate from which a number of connections is a candidate.
const NEAR: f64 = 0.9;

/// Share of the time that one step of the climb may take.
const CLIMB_STEP_SHARE: f64 = 0.08;

/// Divisor of the bytes that one step of the climb may take.
const CLIMB_STEP_DENOM: u64 = 8;

/// Share of the remaining budget for the rounds over connections.
const CONNECTIONS_SHARE: f64 = 0.45;

/// A step is not aborted earlier, regardless of its expected duration.
pub(super) const SLACK: Duration = Duration::from_secs(2);
