//! `cfq`: a time slice for each submitter in turn, for the simulator.
//!
//! While a submitter's slice runs, other requests wait, even if it is only expected back. The
//! scheduler shows how badly that serves several submitters that read one stream.
//!
//! After CFQ of Linux 2.6.30, without priorities and classes, preemption, jumps to a nearby queue
//! and sync writes (each read is sync, each write async). The kernel does not idle for seeky
//! submitters on drives with queues; this one does.

mod settings;
#[cfg(test)]
mod tests;
mod think;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

pub use settings::CfqSettings;

use self::think::ThinkTime;
use super::queue::{Grouping, Id, Queue};
use super::{
    Class, InvalidSetting, Op, Origin, Payload, Request, Scheduler, Submitter, Why, setting,
};
use crate::units::{Nanos, Sector, Sectors};

/// Queues by submitter.
///
/// ```text
///   submitter 1   R R R        <- active: its slice runs
///   submitter 2   R              \
///   writes of all W W W W W       > in turn, longest waiting first
///   submitter 7   R R            /
/// ```
#[derive(Debug)]
pub struct Cfq<L> {
    settings: CfqSettings,
    max: Sectors,
    members: BTreeMap<Owner, Member<L>>,
    /// Members waiting for a slice; each has queued requests.
    turns: VecDeque<Owner>,
    active: Option<TimeSlice>,
    /// First sector after the last dispatched request.
    head: Sector,
    count: usize,
    why: Option<Why>,
}

/// Owner of a queue: the submitter of reads, or None for all writes.
type Owner = Option<Submitter>;

#[derive(Debug)]
struct Member<L> {
    queue: Queue<L>,
    in_flight: u32,
    /// Is queued in `turns`.
    has_turn: bool,
    think: ThinkTime,
}

/// The active slice.
#[derive(Debug)]
struct TimeSlice {
    owner: Owner,
    /// End time; unknown until its first request completes, so that the seek there is not charged
    /// to it.
    end: Option<Nanos>,
    /// Requests dispatched so far.
    had: u32,
    /// Time until which its owner is expected back.
    idle_until: Option<Nanos>,
}

impl<L: Payload> Cfq<L> {
    /// Creates a queue for a device with requests of at most `max` sectors.
    ///
    /// # Panics
    ///
    /// If `max` is 0.
    #[must_use]
    pub fn new(settings: &CfqSettings, max: Sectors) -> Self {
        assert!(max > Sectors::ZERO, "a device takes at least one sector at once");
        Self {
            settings: settings.clone(),
            max,
            members: BTreeMap::new(),
            turns: VecDeque::new(),
            active: None,
            head: Sector(0),
            count: 0,
            why: None,
        }
    }

    /// Decides how the active slice continues.
    ///
    /// ```text
    ///   over (time, or requests of writes)                      the next one's turn
    ///   has requests queued       fewer in flight than quantum  dispatch one of them
    ///                             others wait, or 4 x quantum   wait for a completion
    ///   has none   reads, soon back    some in flight           wait for a completion
    ///                                  none, not yet 8 ms       wait for the submitter
    ///              else                                         the next one's turn
    /// ```
    ///
    /// Idling makes a lone reader fast: another submitter's request would move the head away, and
    /// the reader returns within a fraction of that time.
    fn go_on(&self, slice: &TimeSlice, now: Nanos) -> GoOn {
        let CfqSettings { slice_async_rq, quantum, .. } = self.settings;
        let member = self.member(slice.owner);
        let is_async = slice.owner.is_none();
        let had_all = is_async && slice_async_rq > 0 && slice.had >= slice_async_rq;
        if had_all || slice.end.is_some_and(|end| now >= end) {
            return GoOn::Next;
        }
        if !member.queue.is_empty() {
            let is_alone = self.turns.is_empty();
            let most = if is_alone { quantum.saturating_mul(4) } else { quantum };
            return if member.in_flight < most.max(1) { GoOn::Send } else { GoOn::Wait };
        }
        let is_idle = slice.idle_until.is_some_and(|until| now < until);
        let is_awaited = self.is_soon_back(slice.owner) && (member.in_flight > 0 || is_idle);
        if is_awaited { GoOn::Wait } else { GoOn::Next }
    }

    /// Returns true if it pays to wait for a submitter with an empty queue.
    fn is_soon_back(&self, owner: Owner) -> bool {
        let idle_ns = setting::ns(self.settings.slice_idle_ms);
        owner.is_some() && idle_ns > 0 && self.member(owner).think.is_at_most(idle_ns)
    }

    /// Returns the next request of a queue: the one with the shortest seek.
    ///
    /// ```text
    ///   0 ........ | back_seek_max | head ............ end
    ///   as 0 ..... | twice as far  |     as far
    /// ```
    ///
    /// A slice begins with the oldest request if that has expired.
    fn pick(&self, owner: Owner, is_first: bool, now: Nanos) -> (Id<L>, Why) {
        let queue = &self.member(owner).queue;
        let (op, expire_ms) = match owner {
            Some(_) => (Op::Read, self.settings.fifo_expire_sync_ms),
            None => (Op::Write, self.settings.fifo_expire_async_ms),
        };
        let oldest = queue.oldest(CLASS, op).expect("an owner that is picked from has requests");
        let age_ns = now.0.saturating_sub(queue.get(oldest).arrival.0);
        if is_first && age_ns >= setting::ns(expire_ms) {
            return (oldest, Why::Expired);
        }
        let why = if is_first { Why::Next } else { Why::Batch };
        let ahead = queue.at_or_above(CLASS, op, self.head);
        let behind = queue.below(CLASS, op, self.head).filter(|&id| {
            let back = self.head - queue.get(id).start;
            back.0 <= self.settings.back_seek_max_kib.saturating_mul(SECTORS_PER_KIB)
        });
        let cost = |id| {
            let start = queue.get(id).start;
            let penalty = u64::from(self.settings.back_seek_penalty);
            if start >= self.head {
                start.0 - self.head.0
            } else {
                (self.head.0 - start.0).saturating_mul(penalty)
            }
        };
        let nearest = [ahead, behind].into_iter().flatten().min_by_key(|&id| cost(id));
        let lowest = || {
            queue
                .at_or_above(CLASS, op, Sector(0))
                .expect("an owner that is picked from has requests")
        };
        (nearest.unwrap_or_else(lowest), why)
    }

    fn send(&mut self, owner: Owner, id: Id<L>, why: Why) -> Request<L> {
        assert!(self.count > 0, "a request is sent that was not counted");
        let member = self.members.get_mut(&owner).expect("an owner in turn has a queue");
        let request = member.queue.remove(id);
        member.in_flight += 1;
        self.count -= 1;
        self.head = request.end();
        self.why = Some(why);
        let slice = self.active.as_mut().expect("a request is sent in a slice");
        (slice.had, slice.idle_until) = (slice.had + 1, None);
        request
    }

    /// Ends the slice. A submitter with queued requests waits for another one.
    fn end_slice(&mut self) {
        let Some(TimeSlice { owner, .. }) = self.active.take() else { return };
        self.wait_for_turn(owner);
    }

    fn wait_for_turn(&mut self, owner: Owner) {
        let member = self.members.get_mut(&owner).expect("an owner in turn has a queue");
        debug_assert!(member.has_turn == self.turns.contains(&owner), "it is in line once");
        if !member.has_turn && !member.queue.is_empty() {
            member.has_turn = true;
            self.turns.push_back(owner);
        }
    }

    /// Drops idle submitters without queued requests, including their think times, when there are
    /// too many.
    fn forget_some(&mut self) {
        if self.members.len() > MOST_REMEMBERED {
            let active = self.active.as_ref().map(|slice| slice.owner);
            self.members.retain(|owner, member| {
                !member.queue.is_empty() || member.in_flight > 0 || Some(*owner) == active
            });
        }
    }

    fn member(&self, owner: Owner) -> &Member<L> {
        self.members.get(&owner).expect("an owner in turn has a queue")
    }
}

impl<L: Payload> Scheduler<L> for Cfq<L> {
    fn add(&mut self, now: Nanos, request: Request<L>) {
        let owner = owner(request.origin);
        self.forget_some();
        let member = member_of(&mut self.members, owner, self.max);
        let before = member.queue.count(request.origin.op);
        if let Some(alone) = member.queue.merge(request, true) {
            let longest_ns = setting::ns(self.settings.slice_idle_ms.saturating_mul(2));
            member.think.came_back(now, longest_ns);
            self.count += 1;
            member.queue.insert(alone);
        } else {
            // Two that coalesce count as one.
            self.count -= before - member.queue.count(op_of(owner));
        }
        debug_assert!(self.count == self.queued(Op::Read) + self.queued(Op::Write), "all count");
        if self.active.as_ref().is_none_or(|slice| slice.owner != owner) {
            self.wait_for_turn(owner);
        }
    }

    fn take(&mut self, now: Nanos) -> Option<Request<L>> {
        if let Some(slice) = &self.active {
            match self.go_on(slice, now) {
                GoOn::Send => {
                    let (owner, is_first) = (slice.owner, slice.had == 0);
                    let (id, why) = self.pick(owner, is_first, now);
                    return Some(self.send(owner, id, why));
                }
                GoOn::Wait => return None,
                GoOn::Next => self.end_slice(),
            }
        }
        let owner = self.turns.pop_front()?;
        self.members.get_mut(&owner).expect("an owner in turn has a queue").has_turn = false;
        self.active = Some(TimeSlice { owner, end: None, had: 0, idle_until: None });
        let (id, why) = self.pick(owner, true, now);
        Some(self.send(owner, id, why))
    }

    fn completed(&mut self, now: Nanos, origin: Origin, _arrival: Nanos) {
        let owner = owner(origin);
        let member =
            self.members.get_mut(&owner).expect("an owner with requests in flight has a queue");
        assert!(member.in_flight > 0, "a request that ends was taken");
        member.in_flight -= 1;
        member.think.left(now);
        let is_dry = member.queue.is_empty() && member.in_flight == 0;
        let Some(slice) = self.active.as_mut().filter(|slice| slice.owner == owner) else { return };
        let slice_ms = match owner {
            Some(_) => self.settings.slice_sync_ms,
            None => self.settings.slice_async_ms,
        };
        slice.end = slice.end.or(Some(after(now, slice_ms)));
        slice.idle_until = is_dry.then(|| after(now, self.settings.slice_idle_ms));
    }

    fn drain(&mut self) -> Vec<Request<L>> {
        let mut requests = Vec::new();
        for member in self.members.values_mut() {
            requests.extend(member.queue.drain());
            member.has_turn = false;
        }
        self.turns.clear();
        assert!(requests.len() == self.count, "all requests that are counted are given back");
        self.count = 0;
        requests
    }

    fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the end of the slice, or of the idle time for its owner, while other submitters
    /// wait.
    fn wake_at(&self) -> Option<Nanos> {
        let slice = self.active.as_ref().filter(|_| !self.turns.is_empty())?;
        let idle_until = slice.idle_until.filter(|_| self.is_soon_back(slice.owner));
        slice.end.into_iter().chain(idle_until).min()
    }

    fn why(&self) -> Option<Why> {
        self.why
    }

    fn queued(&self, op: Op) -> usize {
        self.members.values().map(|member| member.queue.count(op)).sum()
    }

    fn adopt(&mut self, origin: Origin, _arrival: Nanos) {
        member_of(&mut self.members, owner(origin), self.max).in_flight += 1;
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), InvalidSetting> {
        self.settings.set(name, value)
    }

    fn tunables(&self) -> (&'static str, Vec<(&'static str, String)>) {
        ("cfq", self.settings.list())
    }
}

/// Returns the member of an owner, creating it if necessary.
fn member_of<L: Payload>(
    members: &mut BTreeMap<Owner, Member<L>>,
    owner: Owner,
    max: Sectors,
) -> &mut Member<L> {
    members.entry(owner).or_insert_with(|| Member {
        queue: Queue::new(max, Grouping { by_class: false, is_circle: false }),
        in_flight: 0,
        has_turn: false,
        think: ThinkTime::default(),
    })
}

/// Continuation of the active slice.
enum GoOn {
    Send,
    Wait,
    Next,
}

fn owner(origin: Origin) -> Owner {
    (origin.op == Op::Read).then_some(origin.submitter)
}

fn op_of(owner: Owner) -> Op {
    if owner.is_some() { Op::Read } else { Op::Write }
}

fn after(now: Nanos, ms: u64) -> Nanos {
    Nanos(now.0.saturating_add(setting::ns(ms)))
}

const SECTORS_PER_KIB: u64 = 2;

/// All requests of a queue share one lane.
const CLASS: Class = Class::BestEffort;

/// Largest number of remembered readers; each costs some hundred bytes.
const MOST_REMEMBERED: usize = 4096;
