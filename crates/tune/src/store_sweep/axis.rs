//! Points of which one knob is turned: connections, or the part size.
//!
//! In:    readings, round by round.
//! Out:   the curve over the knob; the points of the next round.
//! Never: a reading of a point that the store has refused.
//!
//! A curve is over windows. Of connections at one part size that is what they have in flight
//! together; of part sizes it is the part.

use foreread_core::units::ByteCount;

use super::step::StorePoint;
use super::{STORE_SHARE, StoreSweepEnd};
use crate::plateau::{Curve, Plateau, Reading, Standing};
use crate::rng::Rng;

/// What is turned.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Knob {
    Connections,
    Part,
}

/// Points of which one knob is turned, the smallest first.
#[derive(Debug)]
pub(super) struct Axis {
    knob: Knob,
    points: Vec<StorePoint>,
    readings: Vec<(StorePoint, Reading)>,
    /// What is left of the round, the next one last.
    queue: Vec<StorePoint>,
    round: u32,
    /// A point of the round did not fit what is left, for this reason: the round is the last.
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

    /// Leaves points out, and what was read of them.
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

    /// The point of a window of the curve.
    pub(super) fn point_of(&self, window: ByteCount) -> Option<StorePoint> {
        self.points.iter().copied().find(|point| self.window(*point) == window)
    }

    pub(super) fn curve(&self) -> Curve {
        let readings: Vec<Reading> = self.readings.iter().map(|(_, reading)| *reading).collect();
        Curve::with_share(&readings, STORE_SHARE)
    }

    /// The plateau, once each point was read as often as planned.
    pub(super) fn plateau(&self) -> Option<Plateau> {
        let is_read = self.points.iter().all(|point| self.readings_of(*point) >= FEWEST);
        self.curve().plateau().filter(|_| is_read)
    }

    /// What was read of a point last, in 10^6 bytes a second.
    pub(super) fn last(&self, point: StorePoint) -> Option<f64> {
        let mut found = self.readings.iter().rev().filter(|(of, _)| *of == point);
        found.next().map(|(_, reading)| reading.mb_per_s)
    }

    fn readings_of(&self, point: StorePoint) -> usize {
        self.readings.iter().filter(|(of, _)| *of == point).count()
    }

    /// The next point of the round.
    pub(super) fn pop(&mut self) -> Option<StorePoint> {
        self.queue.pop()
    }

    /// The point that was taken last does not fit what is left.
    pub(super) fn skip(&mut self, why: StoreSweepEnd) {
        self.tight.get_or_insert(why);
    }

    /// Why it had to end, if it had to.
    pub(super) fn tight(&self) -> Option<StoreSweepEnd> {
        self.tight
    }

    /// Begins a round, in shuffled order; false if nothing is left to learn.
    pub(super) fn begin_round(&mut self, rng: &mut Rng) -> bool {
        if self.tight.is_some() {
            return false;
        }
        self.queue = self.that_matter();
        self.round += 1;
        rng.shuffle(&mut self.queue);
        !self.queue.is_empty()
    }

    /// All points until each was read as often as planned. Then those whose side of the line is
    /// open, the one that may be better than the best, and what they are compared with.
    fn that_matter(&self) -> Vec<StorePoint> {
        let missing = self.points.iter().copied();
        let missing: Vec<_> = missing.filter(|point| self.readings_of(*point) < LEAST).collect();
        if !missing.is_empty() {
            // Beside all others: a reading alone cannot be told from a store that was faster then.
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

/// Each point is read so often before any is left out,
const LEAST: usize = 3;

/// and so often at least before there is an answer.
pub(super) const FEWEST: usize = 2;

/// So many open points are in one round: the time is for those that decide.
const AT_ONCE: usize = 3;

/// More readings of a point do not make it clearer within the time that is usual.
const MOST: usize = 60;
