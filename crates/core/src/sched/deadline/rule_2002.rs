//! Rule `2002`: batches limited by cost, moved to a dispatch queue as a whole. Only reads expire.
//!
//! Facts: the scheduler of September 2002 that Andrew Morton measured (docs/design/deadline.md).

use alloc::collections::VecDeque;

use super::direction::{self, Both};
use super::{CLASS, DeadlineSettings};
use crate::sched::queue::{Grouping, Id, Queue};
use crate::sched::{Op, Payload, Request, Why};
use crate::units::{Nanos, Sector};

pub(super) const GROUPING: Grouping = Grouping { by_class: false, is_circle: true };

/// Moves a batch to the dispatch queue. Returns the reason for its start, or None if nothing may
/// go.
///
/// ```text
///   sort    50 -- 100 == 108 -- 300 -- 900        fifo_batch 18, seek_cost 16
///                  ^ first of the sweep
///   cost          16      1     16                then the batch is used up
///   moved         100    108   300
/// ```
///
/// A request at the end of its predecessor costs 1, any other `seek_cost`: a batch is a few seeks,
/// or a long run. The last request may overdraw the budget, so a `fifo_batch` up to `seek_cost`
/// means one seek. The batch ends with the sweep. An expired read begins its batch, because
/// dispatching single expired requests would cost a seek each.
pub(super) fn move_batch<L: Payload>(
    queue: &mut Queue<L>,
    moved: &mut VecDeque<Request<L>>,
    settings: &DeadlineSettings,
    open: Both<bool>,
    starved: &mut u32,
    head: Sector,
    now: Nanos,
) -> Option<Why> {
    let waits = Both {
        reads: open.reads && queue.has(CLASS, Op::Read),
        writes: open.writes && queue.has(CLASS, Op::Write),
    };
    let (op, is_turn) = direction::choose(waits, starved, settings.writes_starved)?;
    let expired = queue
        .oldest(CLASS, op)
        .filter(|&id| op == Op::Read && now > settings.expiry(Op::Read, queue.get(id).arrival));
    let front = queue.cursor(CLASS, op).expect("a queue with requests has a front");
    let why = match expired {
        Some(_) => Why::Expired,
        None if is_turn => Why::Starved,
        None => Why::Next,
    };
    let mut id = expired.unwrap_or(front);
    let mut end = moved.back().map_or(head, Request::end);
    debug_assert!(open.of(op), "a direction at its limit gives none");
    let mut budget = i64::from(settings.fifo_batch);
    loop {
        let (request, after) = queue.remove_before(id);
        budget -= if request.start == end { 1 } else { i64::from(settings.seek_cost) };
        end = request.end();
        moved.push_back(request);
        // The front of the sweep comes after its end.
        match after.filter(|&after| after != front || id == front) {
            Some(after) if budget > 0 => id = after,
            _ => return Some(why),
        }
    }
}

/// Updates the front of a direction's sweep for a newly queued request.
///
/// ```text
///   sweep from 100       100 -- 300 -- 900, then from the bottom 20 -- 50
///   head 60, new 80   80 100 -- 300 ..             ahead of the head: it comes along
///   head 60, new 30      100 -- 300 .. 20 30 50    behind it: the next sweep
/// ```
pub(super) fn queued<L: Payload>(queue: &mut Queue<L>, id: Id<L>, op: Op, head: Sector) {
    let Some(front) = queue.cursor(CLASS, op) else {
        return queue.set_cursor(CLASS, op, Some(id));
    };
    let (new, first) = (queue.get(id), queue.get(front));
    debug_assert!(new.origin.op == op && first.origin.op == op, "a sweep has one direction");
    let is_ahead = new.start >= head && new.end() <= first.start;
    if is_ahead && queue.after(id) == Some(front) {
        queue.set_cursor(CLASS, op, Some(id));
    }
}

/// Starts both sweeps at the head.
pub(super) fn start<L: Payload>(queue: &mut Queue<L>, head: Sector) {
    for op in [Op::Read, Op::Write] {
        let lowest = queue.at_or_above(CLASS, op, Sector(0));
        let front = queue.at_or_above(CLASS, op, head).or(lowest);
        queue.set_cursor(CLASS, op, front);
    }
}
