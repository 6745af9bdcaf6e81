//! Trace of decisions, requests and completions, in order, in a bounded list.
//!
//! A trace that is not read in time drops its oldest events and counts them.

use alloc::collections::VecDeque;

use crate::ids::{DeviceId, StreamId};
use crate::prefetch::Decided;
use crate::sched::Op;
use crate::units::{Nanos, Pages, Sector, Sectors};

/// A trace event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TraceEvent {
    /// Time.
    pub at: Nanos,
    /// Kind and details.
    pub what: EventKind,
}

/// Kind of a trace event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EventKind {
    /// A read-ahead policy made a decision.
    Decided {
        /// Stream that it was made for.
        stream: StreamId,
        /// Decision and outcome.
        decided: Decided,
    },
    /// A request was dispatched.
    Dispatched {
        /// Target device.
        device: DeviceId,
        /// Direction.
        op: Op,
        /// First sector.
        start: Sector,
        /// Length.
        sectors: Sectors,
    },
    /// Pages of a request in flight have arrived.
    Arrived {
        /// Device of the request.
        device: DeviceId,
        /// First sector of these pages.
        start: Sector,
        /// Number of pages.
        pages: Pages,
    },
    /// A request completed.
    Completed {
        /// Device of the request.
        device: DeviceId,
        /// First sector.
        start: Sector,
        /// Cache pages that are valid now.
        good: Pages,
        /// Cache pages of the request.
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
    /// Limits the trace to `capacity` events from now on; 0 disables it.
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
