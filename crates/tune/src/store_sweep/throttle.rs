//! Handles a store that refuses requests: pauses, and excludes points at least as demanding as a
//! refused one.

use std::time::Duration;

use serde::Serialize;

use super::step::{StorePoint, StoreSpent};
use super::{StoreSweep, StoreSweepEnd, SweepStage};

/// A point at which a store refused requests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ThrottleSeen {
    /// Part size.
    pub part_kib: u64,
    /// Number of connections.
    pub connections: u32,
    /// Requests sent per second, including refused requests and retries.
    pub requests_per_s: f64,
    /// Number of refused requests.
    pub refused: u64,
    #[serde(skip)]
    point: StorePoint,
}

impl ThrottleSeen {
    /// Returns whether a point is at least as demanding: no fewer connections and no larger parts,
    /// and so no fewer requests.
    fn covers(&self, point: StorePoint) -> bool {
        point.connections >= self.point.connections && point.part <= self.point.part
    }
}

impl StoreSweep {
    /// Returns whether a point may be tried.
    pub(super) fn may_try(&self, point: StorePoint) -> bool {
        !self.refused.iter().any(|seen| seen.covers(point))
    }

    /// Records that the store has refused requests of this point. Its reading is discarded, because
    /// it reflects the store's limit and our own pauses.
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

/// First pause; it doubles each time. Throttling stores recover within seconds.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Refusals that end the sweep: the store is busy, or its limit is in the measured range.
const TIMES_MAX: usize = 5;
