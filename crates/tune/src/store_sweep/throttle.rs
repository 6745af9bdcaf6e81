//! A store that refuses requests: where that was seen, and what is not tried any more.
//!
//! In:    a point whose requests were refused.
//! Out:   a pause, and which points ask for at least as much.
//! Never: a point tried that asks for as much as a refused one; a pause without an end.

use std::time::Duration;

use serde::Serialize;

use super::step::{StorePoint, StoreSpent};
use super::{StoreSweep, StoreSweepEnd, SweepStage};

/// Where a store has refused requests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ThrottleSeen {
    /// The part size.
    pub part_kib: u64,
    /// Connections.
    pub connections: u32,
    /// Requests a second that were sent, the refused ones and what was sent again included.
    pub requests_per_s: f64,
    /// How many requests were refused.
    pub refused: u64,
    #[serde(skip)]
    point: StorePoint,
}

impl ThrottleSeen {
    /// Whether a point asks for at least as much: as many connections or more, and parts that are
    /// as small or smaller, so as many requests or more.
    fn covers(&self, point: StorePoint) -> bool {
        point.connections >= self.point.connections && point.part <= self.point.part
    }
}

impl StoreSweep {
    /// Whether a point may be tried.
    pub(super) fn may_try(&self, point: StorePoint) -> bool {
        !self.refused.iter().any(|seen| seen.covers(point))
    }

    /// The store has refused requests of this point. What came of it meanwhile does not count: it
    /// is the rate of the store's limit and of our own pauses.
    pub(super) fn refuse(&mut self, point: StorePoint, spent: &StoreSpent) {
        self.refused.push(ThrottleSeen {
            part_kib: point.part.0 >> 10,
            connections: point.connections,
            requests_per_s: spent.requests_per_s(),
            refused: spent.throttled,
            point,
        });
        let times = self.refused.len();
        self.pause = Some(FIRST_PAUSE * (1 << (times - 1).min(3)));
        let refused = std::mem::take(&mut self.refused);
        let covers = |point: StorePoint| refused.iter().any(|seen| seen.covers(point));
        self.connections.remove(covers);
        self.parts.remove(covers);
        self.refused = refused;
        let is_climb = self.stage == SweepStage::Climb;
        if is_climb {
            self.climb.limit_below(point.connections);
        }
        let is_at_the_least = is_climb && point.connections == 1;
        if times >= TIMES_MAX || is_at_the_least {
            self.end_with(StoreSweepEnd::Throttled);
        }
    }
}

/// Stores that throttle serve again within seconds; it doubles each time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// After so many refusals the sweep is over: the store is busy, or its limit is where we measure.
const TIMES_MAX: usize = 5;
