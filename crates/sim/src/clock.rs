//! Virtual time: an event queue ordered by time. Events at the same time fire in the order in which
//! they were scheduled.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use foreread_core::units::Nanos;

/// Current time and pending events.
#[derive(Debug)]
pub(crate) struct VirtualClock<E> {
    now: Nanos,
    /// The number of events scheduled so far: it orders events at the same time.
    scheduled: u64,
    events: BinaryHeap<Reverse<ScheduledEvent<E>>>,
}

#[derive(Debug)]
struct ScheduledEvent<E> {
    at: Nanos,
    sequence: u64,
    event: E,
}

impl<E> VirtualClock<E> {
    pub(crate) fn new() -> Self {
        Self { now: Nanos(0), scheduled: 0, events: BinaryHeap::new() }
    }

    pub(crate) fn now(&self) -> Nanos {
        self.now
    }

    pub(crate) fn schedule(&mut self, at: Nanos, event: E) {
        assert!(at >= self.now, "an event is scheduled for the past");
        self.events.push(Reverse(ScheduledEvent { at, sequence: self.scheduled, event }));
        self.scheduled += 1;
    }

    /// Advances to the next event and returns it, unless it comes after `until`.
    pub(crate) fn next(&mut self, until: Nanos) -> Option<E> {
        if self.events.peek()?.0.at > until {
            return None;
        }
        let Reverse(next) = self.events.pop()?;
        debug_assert!(next.at >= self.now, "virtual time does not go back");
        self.now = next.at;
        Some(next.event)
    }

    /// Returns true if no event is pending.
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Advances to `until`; no event may be pending before it.
    pub(crate) fn advance_to(&mut self, until: Nanos) {
        debug_assert!(
            self.events.peek().is_none_or(|Reverse(next)| next.at > until),
            "an event would be passed"
        );
        self.now = self.now.max(until);
    }
}

impl<E> Ord for ScheduledEvent<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

impl<E> PartialOrd for ScheduledEvent<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for ScheduledEvent<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<E> Eq for ScheduledEvent<E> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_at_one_time_in_the_order_of_their_scheduling() {
        let mut clock = VirtualClock::new();
        for (at, event) in [(5, 'c'), (3, 'a'), (5, 'd'), (3, 'b')] {
            clock.schedule(Nanos(at), event);
        }
        let order: String = std::iter::from_fn(|| clock.next(Nanos(5))).collect();
        assert_eq!(order, "abcd");
        assert!(clock.is_empty());
        clock.advance_to(Nanos(9));
        assert_eq!(clock.now(), Nanos(9));
    }

    #[test]
    #[should_panic(expected = "scheduled for the past")]
    fn an_event_in_the_past_is_refused() {
        let mut clock = VirtualClock::new();
        clock.advance_to(Nanos(2));
        clock.schedule(Nanos(1), ());
    }
}
