//! Virtual time: what happens next, and when.
//!
//! In:    things that will happen.
//! Out:   the first of them; of those at the same time, the one that was said first.
//! Never: a step back.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use foreread_core::units::Nanos;

/// Things to come.
#[derive(Debug)]
pub(crate) struct VirtualClock<T> {
    now: Nanos,
    said: u64,
    coming: BinaryHeap<Reverse<ScheduledEvent<T>>>,
}

#[derive(Debug)]
struct ScheduledEvent<T> {
    at: Nanos,
    said: u64,
    what: T,
}

impl<T> VirtualClock<T> {
    pub(crate) fn new() -> Self {
        Self { now: Nanos(0), said: 0, coming: BinaryHeap::new() }
    }

    pub(crate) fn now(&self) -> Nanos {
        self.now
    }

    pub(crate) fn say(&mut self, at: Nanos, what: T) {
        assert!(at >= self.now, "what comes is not over");
        self.coming.push(Reverse(ScheduledEvent { at, said: self.said, what }));
        self.said += 1;
    }

    /// Goes on to what comes next, unless that is after `until`.
    pub(crate) fn next(&mut self, until: Nanos) -> Option<T> {
        if self.coming.peek()?.0.at > until {
            return None;
        }
        let Reverse(coming) = self.coming.pop()?;
        self.now = coming.at;
        Some(coming.what)
    }

    /// Whether nothing will ever come.
    pub(crate) fn is_over(&self) -> bool {
        self.coming.is_empty()
    }

    pub(crate) fn stop_at(&mut self, until: Nanos) {
        self.now = self.now.max(until);
    }
}

impl<T> Ord for ScheduledEvent<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.said).cmp(&(other.at, other.said))
    }
}

impl<T> PartialOrd for ScheduledEvent<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for ScheduledEvent<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for ScheduledEvent<T> {}
