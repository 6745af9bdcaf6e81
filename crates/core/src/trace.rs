//! What happened, in order, for tests and for people: every decision, every request, every answer.
//!
//! In:    events, as they happen.
//! Out:   the same, oldest first.
//! Never: more memory than it was given. A trace that is not taken in time loses its oldest events
//!        and counts them.

use alloc::collections::VecDeque;

use crate::ids::{DeviceId, StreamId};
use crate::prefetch::Decided;
use crate::sched::Op;
use crate::units::{Nanos, Pages, Sector, Sectors};

/// One event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TraceEvent {
    /// When.
    pub at: Nanos,
    /// What.
    pub what: EventKind,
}

/// What happened.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EventKind {
    /// A read-ahead policy decided.
    Decided {
        /// For which stream.
        stream: StreamId,
        /// What.
        decided: Decided,
    },
    /// A device got a request.
    Dispatched {
        /// Which.
        device: DeviceId,
        /// Which way.
        op: Op,
        /// Where.
        start: Sector,
        /// How much.
        sectors: Sectors,
    },
    /// Pages of a request in flight have arrived.
    Arrived {
        /// From which device.
        device: DeviceId,
        /// Where on it the first of them lies.
        start: Sector,
        /// How many.
        pages: Pages,
    },
    /// A device answered.
    Completed {
        /// Which.
        device: DeviceId,
        /// Where.
        start: Sector,
        /// How many pages of the cache are good.
        good: Pages,
        /// Of how many.
        pages: Pages,
    },
}

/// A bounded list of events.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    events: VecDeque<TraceEvent>,
    capacity: usize,
    lost: u64,
}

impl Trace {
    /// Keeps at most `capacity` events from now on; 0 keeps none.
    pub(crate) fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
        while self.events.len() > capacity {
            self.events.pop_front();
            self.lost += 1;
        }
    }

    pub(crate) const fn capacity(&self) -> usize {
        self.capacity
    }

    #[inline]
    pub(crate) fn push(&mut self, at: Nanos, what: impl FnOnce() -> EventKind) {
        if self.capacity == 0 {
            return;
        }
        if self.events.len() == self.capacity {
            self.events.pop_front();
            self.lost += 1;
        }
        self.events.push_back(TraceEvent { at, what: what() });
    }

    pub(crate) fn pop(&mut self) -> Option<TraceEvent> {
        self.events.pop_front()
    }

    pub(crate) const fn lost(&self) -> u64 {
        self.lost
    }
}
