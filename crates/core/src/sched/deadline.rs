//! `deadline`: requests in device order, until one has waited too long.
//!
//! It dispatches batches of one direction in `sort` order, reads before writes, without starvation.
//! Expiry is only checked at the start of a batch, so it does not bound a request's latency.
//!
//! Three historical rules, chosen by one setting: [`DeadlineRule`]. Design, tunables and worked
//! examples: docs/design/deadline.md. Golden traces: tests/golden/deadline.csv.

mod direction;
mod linux_4;
mod mq;
mod rule_2002;
mod settings;

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

pub use settings::{DeadlineRule, DeadlineSettings, WriteLimit};

use self::direction::Both;
use super::queue::{Grouping, Queue};
use super::{Class, InvalidSetting, Op, Origin, Payload, Request, Scheduler, Why, setting};
use crate::units::{Nanos, Sector, Sectors};

/// A `deadline` queue.
///
/// ```text
///            line                    queue                  moved
///   add ---> [ writes over     ] --> [ sort, fifo,    ] --> [ the rest of      ] ---> take
///            [ async_depth     ]     [ merged         ]     [ a batch of 2002  ]
/// ```
#[derive(Debug)]
pub struct Deadline<L> {
    settings: DeadlineSettings,
    line: VecDeque<Request<L>>,
    queue: Queue<L>,
    moved: VecDeque<Request<L>>,
    in_flight: [Both<u32>; 3],
    /// Learnt limit of writes in flight; None until [`Scheduler::limit_writes`] sets one.
    learnt: Option<u32>,
    /// Arrival times of the reads in flight, for `read_drain`; only kept while that is set.
    arrivals: Vec<Nanos>,
    /// First sector after the last dispatched request.
    head: Sector,
    /// Batches that passed over the other direction.
    starved: u32,
    /// Rule 4.x: requests dispatched in the current batch.
    batching: u32,
    mq: mq::MqState,
    /// No request has been dispatched yet.
    is_fresh: bool,
    why: Option<Why>,
}

impl<L: Payload> Deadline<L> {
    /// Creates a queue for a device with requests of at most `max` sectors.
    ///
    /// # Panics
    ///
    /// If `max` is 0.
    #[must_use]
    pub fn new(settings: &DeadlineSettings, max: Sectors) -> Self {
        assert!(max > Sectors::ZERO, "a device takes at least one sector at once");
        Self {
            settings: settings.clone(),
            line: VecDeque::new(),
            queue: Queue::new(max, grouping(settings.rule)),
            moved: VecDeque::new(),
            in_flight: [Both::default(); 3],
            learnt: None,
            arrivals: Vec::new(),
            head: Sector(0),
            starved: 0,
            batching: 0,
            mq: mq::MqState::new(settings),
            is_fresh: true,
            why: None,
        }
    }

    /// Returns the current settings.
    #[must_use]
    pub const fn settings(&self) -> &DeadlineSettings {
        &self.settings
    }

    fn insert(&mut self, request: Request<L>) {
        let op = request.origin.op;
        let id = self.queue.insert(request);
        if self.settings.rule == DeadlineRule::R2002 {
            let head = self.moved.back().map_or(self.head, Request::end);
            rule_2002::queued(&mut self.queue, id, op, head);
        }
    }

    /// Admits writes from the line up to the limit.
    ///
    /// In Linux a writer without a free request sleeps. A submitter cannot be made to sleep here,
    /// so its requests wait in the line, neither sorted nor merged until they are admitted.
    fn admit(&mut self) {
        while self.has_room()
            && let Some(request) = self.line.pop_front()
        {
            debug_assert!(request.origin.op == Op::Write, "only writes wait in the line");
            if let Some(alone) = self.queue.merge(request, self.settings.front_merges) {
                self.insert(alone);
            }
        }
    }

    fn has_room(&self) -> bool {
        let depth = self.settings.async_depth as usize;
        let moved = || self.moved.iter().filter(|each| each.origin.op == Op::Write).count();
        let in_flight = || self.in_flight_of(Op::Write) as usize;
        depth == 0 || self.queue.count(Op::Write) + moved() + in_flight() < depth
    }

    /// Returns the directions that may be dispatched.
    ///
    /// The limits apply even while the other direction is empty: a chain of dependent reads has
    /// nothing queued most of the time, and would find the device full of writes.
    fn open(&self) -> Both<bool> {
        let is_open =
            |limit: Option<u32>, op| limit.is_none_or(|most| self.in_flight_of(op) < most);
        let most_reads = self.settings.reads_in_flight;
        Both {
            reads: is_open((most_reads > 0).then_some(most_reads), Op::Read),
            writes: is_open(self.write_limit(), Op::Write),
        }
    }

    fn in_flight_mut(&mut self, origin: Origin) -> &mut u32 {
        let in_flight = &mut self.in_flight[origin.class as usize];
        match origin.op {
            Op::Read => &mut in_flight.reads,
            Op::Write => &mut in_flight.writes,
        }
    }

    fn sent(&mut self, origin: Origin, arrival: Nanos) {
        *self.in_flight_mut(origin) += 1;
        if origin.op == Op::Read && self.settings.read_drain_ms > 0 {
            self.arrivals.push(arrival);
        }
        debug_assert!(
            self.arrivals.len() <= self.in_flight_of(Op::Read) as usize,
            "only reads in flight have an arrival"
        );
    }

    fn in_flight_of(&self, op: Op) -> u32 {
        self.in_flight.iter().map(|class| class.of(op)).sum()
    }

    /// Returns true if a read has been in flight for so long that dispatching stops: a drive that
    /// picks requests by position would serve later ones first.
    fn is_draining(&self, now: Nanos) -> bool {
        let limit_ns = setting::ns(self.settings.read_drain_ms);
        limit_ns > 0 && self.arrivals.iter().any(|at| now.0.saturating_sub(at.0) >= limit_ns)
    }

    fn next(&mut self, now: Nanos) -> Option<(Request<L>, Why)> {
        let open = self.open();
        if let Some(index) = self.moved.iter().position(|request| open.of(request.origin.op)) {
            return self.moved.remove(index).map(|request| (request, Why::Batch));
        }
        let Self { settings, queue, moved, starved, head, .. } = self;
        let (id, why) = match settings.rule {
            DeadlineRule::R2002 => {
                let blocked = moved.len();
                let why = rule_2002::move_batch(queue, moved, settings, open, starved, *head, now)?;
                return moved.remove(blocked).map(|request| (request, why));
            }
            DeadlineRule::Linux4 => {
                linux_4::next(queue, settings, open, starved, &mut self.batching, now)?
            }
            DeadlineRule::Mq => {
                let is_busy = [Class::RealTime, Class::BestEffort, Class::Idle].map(|class| {
                    let Both { reads, writes } = self.in_flight[class as usize];
                    let is_queued = queue.has(class, Op::Read) || queue.has(class, Op::Write);
                    is_queued || reads + writes > 0
                });
                let ask = mq::Ask { settings, open, is_busy, now };
                self.mq.next(queue, &ask, starved)?
            }
        };
        Some((queue.remove(id), why))
    }
}

impl<L: Payload> Scheduler<L> for Deadline<L> {
    fn add(&mut self, _now: Nanos, request: Request<L>) {
        let Some(alone) = self.queue.merge(request, self.settings.front_merges) else {
            // Coalescing frees a slot.
            return self.admit();
        };
        if alone.origin.op == Op::Write && !(self.line.is_empty() && self.has_room()) {
            self.line.push_back(alone);
        } else {
            self.insert(alone);
        }
    }

    fn take(&mut self, now: Nanos) -> Option<Request<L>> {
        if self.is_draining(now) {
            return None;
        }
        let (request, why) = self.next(now)?;
        debug_assert!(self.open().of(request.origin.op), "a direction at its limit gives none");
        self.sent(request.origin, request.arrival);
        self.head = request.end();
        self.is_fresh = false;
        self.why = Some(why);
        Some(request)
    }

    fn completed(&mut self, _now: Nanos, origin: Origin, arrival: Nanos) {
        let count = self.in_flight_mut(origin);
        assert!(*count > 0, "a request that ends was taken");
        *count -= 1;
        // Reads dispatched before `read_drain` was set are not in the list.
        if origin.op == Op::Read
            && let Some(index) = self.arrivals.iter().position(|each| *each == arrival)
        {
            self.arrivals.swap_remove(index);
        }
        self.admit();
    }

    fn drain(&mut self) -> Vec<Request<L>> {
        let moved = self.moved.drain(..).chain(self.queue.drain());
        let all: Vec<_> = moved.chain(self.line.drain(..)).collect();
        debug_assert!(self.is_empty(), "all requests are given back");
        all
    }

    fn is_empty(&self) -> bool {
        // Requests in the line count as queued.
        self.queue.is_empty() && self.moved.is_empty() && self.line.is_empty()
    }

    fn queued(&self, op: Op) -> usize {
        let moved = self.moved.iter().chain(&self.line).filter(|each| each.origin.op == op).count();
        self.queue.count(op) + moved
    }

    fn adopt(&mut self, origin: Origin, arrival: Nanos) {
        self.sent(origin, arrival);
    }

    fn why(&self) -> Option<Why> {
        self.why
    }

    fn wants_limit(&self) -> Option<u64> {
        let is_learnt = self.settings.writes_in_flight == WriteLimit::Learnt;
        is_learnt.then(|| setting::ns(self.settings.read_hold_ms))
    }

    fn limit_writes(&mut self, limit: Option<u32>) {
        self.learnt = limit;
    }

    fn write_limit(&self) -> Option<u32> {
        match self.settings.writes_in_flight {
            WriteLimit::Fixed(0) => None,
            WriteLimit::Fixed(most) => Some(most),
            WriteLimit::Learnt => self.learnt,
        }
    }

    fn tunables(&self) -> (&'static str, Vec<(&'static str, String)>) {
        ("deadline", self.settings.list())
    }

    /// Applies a setting. A new rule starts as if nothing had been dispatched. Queued requests keep
    /// their age, and those in the dispatch queue go first.
    fn set(&mut self, name: &str, value: &str) -> Result<(), InvalidSetting> {
        let rule = self.settings.rule;
        self.settings.set(name, value)?;
        let settings = &self.settings;
        if settings.rule != rule {
            self.queue.regroup(grouping(settings.rule));
            (self.starved, self.batching) = (0, 0);
            if settings.rule == DeadlineRule::R2002 {
                rule_2002::start(&mut self.queue, self.head);
            }
        }
        if self.is_fresh || settings.rule != rule {
            self.mq = mq::MqState::new(settings);
        }
        if settings.read_drain_ms == 0 {
            self.arrivals.clear();
        }
        self.admit();
        Ok(())
    }
}

/// Class of all requests under a rule without classes.
const CLASS: Class = Class::BestEffort;

const fn grouping(rule: DeadlineRule) -> Grouping {
    match rule {
        DeadlineRule::R2002 => rule_2002::GROUPING,
        DeadlineRule::Linux4 => linux_4::GROUPING,
        DeadlineRule::Mq => mq::GROUPING,
    }
}
