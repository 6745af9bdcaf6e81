//! Rule `mq`: as `4.x`, for each of three classes, which share batch, direction and turns.
//!
//! Facts: `mq-deadline` of current Linux (docs/design/deadline.md).

use super::DeadlineSettings;
use super::direction::{self, Both};
use crate::sched::queue::{Grouping, Id, Queue};
use crate::sched::{Class, Op, Payload, Why};
use crate::units::{Nanos, Sector};

pub(super) const GROUPING: Grouping = Grouping { by_class: true, is_circle: false };

/// State of the rule.
#[derive(Clone, Debug)]
pub(super) struct MqState {
    /// Current batch: its direction and the requests dispatched so far.
    batch: Option<(Op, u32)>,
    /// Start of the last request by class and direction; None to begin with the oldest.
    last: [Both<Option<Sector>>; 3],
}

/// Arguments of a choice, in addition to the queue.
pub(super) struct Ask<'a> {
    pub(super) settings: &'a DeadlineSettings,
    pub(super) open: Both<bool>,
    /// Classes with requests queued or in flight.
    pub(super) is_busy: [bool; 3],
    pub(super) now: Nanos,
}

impl MqState {
    /// Creates the initial state.
    ///
    /// With quirks it starts inside a batch of writes that was never chosen, at the bottom of the
    /// device. Without them, or if `warm`, a direction is chosen first.
    pub(super) fn new(settings: &DeadlineSettings) -> Self {
        let bottom = settings.quirks.then_some(Sector(0));
        let last = [Both { reads: bottom, writes: bottom }; 3];
        let batch = (settings.quirks && !settings.warm).then_some((Op::Write, 0));
        Self { batch, last }
    }

    /// Returns the next request and the reason, or None if none may be dispatched.
    ///
    /// ```text
    ///   1  best effort, then idle    only requests older than prio_aging_expire, and only if
    ///                                two classes have requests queued or in flight
    ///   2  real time                 \
    ///   3  best effort                > the first with a request to dispatch; one that only has
    ///   4  idle                      /  requests in flight keeps those below waiting
    /// ```
    pub(super) fn next<L: Payload>(
        &mut self,
        queue: &Queue<L>,
        ask: &Ask<'_>,
        starved: &mut u32,
    ) -> Option<(Id<L>, Why)> {
        if ask.is_busy.iter().filter(|is_busy| **is_busy).count() >= 2 {
            for class in [Class::BestEffort, Class::Idle] {
                let before = (self.clone(), *starved);
                if let Some((id, _)) = self.of_class(queue, ask, class, true, starved) {
                    return Some((id, Why::Aged));
                }
                if !ask.settings.quirks {
                    (*self, *starved) = before;
                }
            }
        }
        for class in [Class::RealTime, Class::BestEffort, Class::Idle] {
            let next = self.of_class(queue, ask, class, false, starved);
            if next.is_some() || ask.is_busy[class as usize] {
                return next;
            }
        }
        None
    }

    /// Returns the next request of one class, or None if there is none, or it is not old enough.
    ///
    /// With quirks, a search that finds too young a request still ends the batch and counts a turn.
    fn of_class<L: Payload>(
        &mut self,
        queue: &Queue<L>,
        ask: &Ask<'_>,
        class: Class,
        must_be_aged: bool,
        starved: &mut u32,
    ) -> Option<(Id<L>, Why)> {
        let Ask { settings, open, .. } = *ask;
        let next = |last: &[Both<Option<Sector>>; 3], op: Op| {
            let place = last[class as usize].of(op).filter(|_| open.of(op))?;
            queue.at_or_above(class, op, place)
        };
        let running = self.batch.filter(|(_, had)| *had < settings.fifo_batch);
        let in_batch = running.and_then(|(op, had)| Some((next(&self.last, op)?, op, had)));
        let (id, why) = if let Some((id, op, had)) = in_batch {
            if must_be_aged && !is_aged(queue, id, ask) {
                return None;
            }
            self.batch = Some((op, had + 1));
            (id, Why::Batch)
        } else {
            let waits = Both {
                reads: open.reads && queue.has(class, Op::Read),
                writes: open.writes && queue.has(class, Op::Write),
            };
            let (op, is_turn) = direction::choose(waits, starved, settings.writes_starved)?;
            let oldest = queue.oldest(class, op).expect("a direction that may go has requests");
            let has_expired = ask.now >= settings.expiry(op, queue.get(oldest).arrival);
            let (id, why) = match next(&self.last, op) {
                _ if has_expired => (oldest, Why::Expired),
                next if is_turn => (next.unwrap_or(oldest), Why::Starved),
                Some(next) => (next, Why::Next),
                None => (oldest, Why::Oldest),
            };
            self.batch = Some((op, 0));
            if must_be_aged && !is_aged(queue, id, ask) {
                return None;
            }
            self.batch = Some((op, 1));
            (id, why)
        };
        debug_assert!(open.of(queue.get(id).origin.op), "a direction at its limit gives none");
        self.sent(class, queue.get(id).origin.op, queue.get(id).start, settings.quirks);
        Some((id, why))
    }

    /// With quirks the other direction keeps its position, although it is meant to restart from its
    /// oldest request after a change of direction.
    fn sent(&mut self, class: Class, op: Op, start: Sector, quirks: bool) {
        let last = &mut self.last[class as usize];
        let other = |place| if quirks { place } else { None };
        *last = match op {
            Op::Read => Both { reads: Some(start), writes: other(last.writes) },
            Op::Write => Both { reads: other(last.reads), writes: Some(start) },
        };
    }
}

fn is_aged<L: Payload>(queue: &Queue<L>, id: Id<L>, ask: &Ask<'_>) -> bool {
    let age_ns = ask.now.0.saturating_sub(queue.get(id).arrival.0);
    age_ns >= crate::sched::setting::ns(ask.settings.prio_aging_expire_ms)
}
