//! The climb: one connection, then twice as many each time, until more give no more.
//!
//! In:    what each number of connections gave, once.
//! Out:   the next number; how fast one connection is, and where the rounds begin and end.
//! Never: a figure of the answer: each number was read once, over connections that were new.

use std::time::Duration;

use foreread_core::units::{ByteCount, Nanos};

use super::axis::{Axis, Knob};
use super::settings::PART_MIN;
use super::step::{StorePoint, StoreStep};
use super::{AxisBounds, StoreSweep, StoreSweepEnd, SweepStage};

/// What the climb has found.
#[derive(Debug, Default)]
pub(super) struct Climb {
    /// Connections and 10^6 bytes a second, in order. The first is the gauge: one connection, and
    /// often another part.
    rates: Vec<(StorePoint, f64)>,
    /// No more connections than this.
    limit: Option<u32>,
}

impl Climb {
    pub(super) fn record(&mut self, point: StorePoint, mb_per_s: f64) {
        self.rates.push((point, mb_per_s));
    }

    /// The store has refused so many connections.
    pub(super) fn limit_below(&mut self, connections: u32) {
        let limit = self.limit.map_or(connections, |limit| limit.min(connections));
        self.limit = Some(limit);
    }

    /// What one connection gives, as parts of the climb's size.
    pub(super) fn of_one(&self) -> Option<f64> {
        self.rates.iter().rev().find(|(point, _)| point.connections == 1).map(|(_, rate)| *rate)
    }

    fn best(&self) -> f64 {
        self.rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max)
    }

    /// What so many connections give, or the next fewer that were tried.
    pub(super) fn rate_of(&self, connections: u32) -> Option<f64> {
        let mut upto = self.rates.iter().rev();
        upto.find(|(point, _)| point.connections <= connections).map(|(_, rate)| *rate)
    }

    /// Whether two more doublings have given nothing. The gauge, with another part, is none.
    fn is_over(&self) -> bool {
        let climbed = self.rates.get(1..).unwrap_or_default();
        let [.., (_, before), (_, one), (_, two)] = climbed else { return false };
        one.max(*two) < before * GAIN_MIN
    }

    /// The numbers of connections worth rounds: from half of the fewest that come near the best to
    /// the best one, or twice the fewest.
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
    /// One connection with a part that is not large for any store: so the climb knows how large its
    /// own may be.
    pub(super) fn gauge(&mut self, now: Nanos) -> StoreStep {
        let part = GAUGE.min(self.settings.part_max());
        let point = StorePoint { part, connections: 1 };
        let at_most = self.time_left(now).mul_f64(0.25);
        self.transfer(point, self.settings.window(), ByteCount(16 * part.0), at_most)
    }

    /// The next number of connections; None at the end of the climb.
    pub(super) fn climb_step(&mut self, now: Nanos) -> Option<StoreStep> {
        if self.climb.rates.len() == 1 {
            self.part = self.part_of_climb();
        }
        let Some((last, rate)) = self.climb.rates.last().copied() else {
            self.end_with(StoreSweepEnd::OutOfTime);
            return None;
        };
        // The gauge had one connection, too, but another part.
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
        // Twice the connections give at most twice as much.
        let cost = self.cost(point, if is_gauge { rate } else { 2.0 * rate });
        let share_ns = self.settings.budget.mul_f64(CLIMB_STEP_SHARE);
        let is_dear = cost.time > share_ns || cost.bytes > self.settings.bytes.0 / CLIMB_STEP_DENOM;
        let is_possible = cost.bytes <= self.bytes_left() && self.has_requests(point, &cost);
        if connections > 1 && (is_dear || !is_possible) {
            self.notes.push(format!(
                "more than {} connections were not tried: one measurement would take {:.1} s and \
                 {} MB; --seconds and --max-bytes give it more",
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

    /// The largest part that one connection reads within about half a second.
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

    /// So much of what is left.
    pub(super) fn bounds(&self, now: Nanos, share: f64) -> AxisBounds {
        let time = self.time_left(now).mul_f64(share);
        let bytes = self.bytes_left() as f64 * share;
        AxisBounds {
            time: Nanos(now.0 + u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
            bytes: self.spent.bytes + whole(bytes),
        }
    }
}

/// A share of a number of bytes, in whole ones.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "cut on purpose")]
pub(super) fn whole(bytes: f64) -> u64 {
    bytes.max(0.0) as u64
}

/// Small enough for a store at 1 MB/s.
const GAUGE: ByteCount = ByteCount(1 << 20);

/// How long one connection may take for a part of the climb.
const PART_SECONDS: f64 = 0.5;

/// What two doublings have to give for a third to be tried.
const GAIN_MIN: f64 = 1.05;

/// A number of connections that gave this share of the best may be the one.
const NEAR: f64 = 0.9;

/// A step of the climb takes at most this share of the time,
const CLIMB_STEP_SHARE: f64 = 0.08;

/// and this part of the bytes.
const CLIMB_STEP_DENOM: u64 = 8;

/// The rounds over connections have this share of what is left after the climb.
const CONNECTIONS_SHARE: f64 = 0.45;

/// A step is not given up before this, whatever was expected.
pub(super) const SLACK: Duration = Duration::from_secs(2);
