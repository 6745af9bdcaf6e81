//! Points that vary one parameter: connections, or the part size.
//!
//! The curve's windows are the bytes in flight for connections at one part size, and the part for
//! part sizes. Points that the store has refused have no readings.

use foreread_core::units::ByteCount;

use super::step::StorePoint;
use super::{STORE_SHARE, StoreSweepEnd};
use crate::plateau::{Curve, Plateau, Reading, Standing};
use crate::rng::Rng;

/// The parameter that varies.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Knob {
    Connections,
    Part,
}

/// Points that vary one parameter, in ascending order.
#[derive(Debug)]
pub(super) struct Axis {
    knob: Knob,
    points: Vec<StorePoint>,
    readings: Vec<(StorePoint, Reading)>,
    /// Remaining points of the round, in reverse order.
    queue: Vec<StorePoint>,
    round: u32,
    /// Reason why a point of this round did not fit the remaining budget; the round is then the
    /// last.
    tight: Option<StoreSweepEnd>,
}

impl Axis {
    pub(super) fn new(knob: Knob, points: Vec<StorePoint>) -> Self {
        Self { knob, points, readings: Vec::new(), queue: Vec::new(), round: 0, tight: None }
    }

    pub(super) fn points(&self) -> &[StorePoint] {
        &self.points
    }

    pub(super) fn record(&mut self, point: StorePoint, mb_per_s: f64) {
        let reading = Reading { window: self.window(point), round: self.round, mb_per_s };
        self.readings.push((point, reading));
    }

    /// Removes points and their readings.
    pub(super) fn remove(&mut self, is_out: impl Fn(StorePoint) -> bool) {
        self.points.retain(|point| !is_out(*point));
        self.queue.retain(|point| !is_out(*point));
        self.readings.retain(|(point, _)| !is_out(*point));
    }

    fn window(&self, point: StorePoint) -> ByteCount {
        match self.knob {
            Knob::Connections => point.in_flight(),
            Knob::Part => point.part,
        }
    }

    /// Returns the point for a window of the curve.
    pub(super) fn point_of(&self, window: ByteCount) -> Option<StorePoint> {
        self.points.iter().copied().find(|point| self.window(*point) == window)
    }

    pub(super) fn curve(&self) -> Curve {
        let readings: Vec<Reading> = self.readings.iter().map(|(_, reading)| *reading).collect();
        Curve::with_share(&readings, STORE_SHARE)
    }

    /// Returns the plateau, once each point has the planned number of readings.
    pub(super) fn plateau(&self) -> Option<Plateau> {
        let is_read = self.points.iter().all(|point| self.readings_of(*point) >= FEWEST);
        self.curve().plateau().filter(|_| is_read)
    }

    /// Returns the last reading of a point, in 10^6 bytes a second.
    pub(super) fn last(&self, point: StorePoint) -> Option<f64> {
        let mut found = self.readings.iter().rev().filter(|(of, _)| *of == point);
        found.next().map(|(_, reading)| reading.mb_per_s)
    }

    fn readings_of(&self, point: StorePoint) -> usize {
        self.readings.iter().filter(|(of, _)| *of == point).count()
    }

    /// Returns the next point of the round.
    pub(super) fn pop(&mut self) -> Option<StorePoint> {
        self.queue.pop()
    }

    /// Skips the last point returned, because it does not fit the remaining budget.
    pub(super) fn skip(&mut self, why: StoreSweepEnd) {
        self.tight.get_or_insert(why);
    }

    /// Returns the reason for the end of the axis, if the budget forced it.
    pub(super) fn tight(&self) -> Option<StoreSweepEnd> {
        self.tight
    }

    /// Begins a round in shuffled order; returns false if no open question is left.
    pub(super) fn begin_round(&mut self, rng: &mut Rng) -> bool {
        if self.tight.is_some() {
            return false;
        }
        self.queue = self.that_matter();
        self.round += 1;
        rng.shuffle(&mut self.queue);
        !self.queue.is_empty()
    }

    /// Returns all points until each has the planned number of readings; then the points whose side
    /// of the threshold is open, the contender for the best, and their reference.
    fn that_matter(&self) -> Vec<StorePoint> {
        let missing = self.points.iter().copied();
        let missing: Vec<_> = missing.filter(|point| self.readings_of(*point) < LEAST).collect();
        if !missing.is_empty() {
            // Measure with all others: a single reading cannot be distinguished from a temporarily
            // faster store.
            return self.points.clone();
        }
        let curve = self.curve();
        let Some(plateau) = curve.plateau() else { return Vec::new() };
        let chosen = curve.points.iter().position(|point| point.window == plateau.window);
        let chosen = chosen.unwrap_or(0);
        let standings = curve.standings();
        let known = curve.points.iter().zip(&standings).enumerate();
        let open = known
            .filter(|(index, (_, standing))| **standing == Standing::Open && *index <= chosen + 1);
        let mut open: Vec<_> = open.map(|(_, (point, _))| (point.readings, point.window)).collect();
        open.sort_unstable();
        let mut windows: Vec<ByteCount> = open.iter().take(AT_ONCE).map(|(_, it)| *it).collect();
        windows.extend(curve.contender());
        let mut points: Vec<_> = windows.iter().filter_map(|it| self.point_of(*it)).collect();
        points.retain(|point| self.readings_of(*point) < MOST);
        if points.is_empty() {
            return points;
        }
        points.extend(
            [Some(plateau.window), curve.best()]
                .iter()
                .flatten()
                .filter_map(|window| self.point_of(*window)),
        );
        points.sort_unstable();
        points.dedup();
        points
    }
}

/// Readings of each point before any is left out.
const LEAST: usize = 3;

/// Minimum readings of each point for an answer.
pub(super) const FEWEST: usize = 2;

/// Open points in one round: the time is spent on those that decide.
const AT_ONCE: usize = 3;

/// Most readings of a point; more would not make it clearer within the usual time.
const MOST: usize = 60;
