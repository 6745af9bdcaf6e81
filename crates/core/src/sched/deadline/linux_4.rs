//! Rule `4.x`: batches by number of requests. Expiry neither ends a batch nor changes the
//! direction.
//!
//! Facts: Linux 2.6.16 to 4.20 (docs/design/deadline.md).

use super::direction::{self, Both};
use super::{CLASS, DeadlineSettings};
use crate::sched::queue::{Grouping, Id, Queue};
use crate::sched::{Op, Payload, Why};
use crate::units::Nanos;

pub(super) const GROUPING: Grouping = Grouping { by_class: false, is_circle: false };

/// Returns the next request and the reason, or None if none may be dispatched.
///
/// ```text
///   sort    50 -- 100 -- 200 -- 300          fifo   300, 100, 200, 50
///                        ^ the last one went to 100: this one is next
///
///   batch not used up   200
///   used up             which direction? then: its oldest has expired, or none is next  300
///                                              else                                     200
/// ```
///
/// The next request is the one that was above the last request when that was dispatched; one that
/// arrives between the two waits for another sweep. After a change of direction, or at the top, the
/// oldest request starts a new sweep.
pub(super) fn next<L: Payload>(
    queue: &mut Queue<L>,
    settings: &DeadlineSettings,
    open: Both<bool>,
    starved: &mut u32,
    batching: &mut u32,
    now: Nanos,
) -> Option<(Id<L>, Why)> {
    let next = |queue: &Queue<L>, op| queue.cursor(CLASS, op).filter(|_| open.of(op));
    let in_batch = next(queue, Op::Write).or_else(|| next(queue, Op::Read));
    let (id, why) = match in_batch {
        Some(id) if *batching < settings.fifo_batch => (id, Why::Batch),
        _ => {
            let waits = Both {
                reads: open.reads && queue.has(CLASS, Op::Read),
                writes: open.writes && queue.has(CLASS, Op::Write),
            };
            let (op, is_turn) = direction::choose(waits, starved, settings.writes_starved)?;
            *batching = 0;
            let oldest = queue.oldest(CLASS, op).expect("a direction that may go has requests");
            let has_expired = now >= settings.expiry(op, queue.get(oldest).arrival);
            match next(queue, op) {
                _ if has_expired => (oldest, Why::Expired),
                next if is_turn => (next.unwrap_or(oldest), Why::Starved),
                Some(next) => (next, Why::Next),
                None => (oldest, Why::Oldest),
            }
        }
    };
    *batching += 1;
    let op = queue.get(id).origin.op;
    debug_assert!(open.of(op), "a direction at its limit gives none");
    let other = if op == Op::Read { Op::Write } else { Op::Read };
    queue.set_cursor(CLASS, other, None);
    // Removing it moves the cursor to the next higher request.
    queue.set_cursor(CLASS, op, Some(id));
    Some((id, why))
}
