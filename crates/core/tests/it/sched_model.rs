//! `deadline` against a slow and obvious model, request by request: same requests in the same
//! order. With any settings, nothing is lost or sent twice, and an expired request begins its
//! batch. Requests do not overlap, because merging is unspecified for those.
//!
//! The model is in sched_model/model.rs; golden traces are in sched.rs.

#![cfg(not(loom))]

mod model;

use foreread_core::sched::deadline::{Deadline, DeadlineSettings as CoreSettings};
use foreread_core::sched::{Class, Op, Origin, Payload, Request, Scheduler, Submitter, Why};
use foreread_core::units::{Nanos, Sector, Sectors};
use model::{Item, Model, Settings};
use proptest::prelude::*;
use proptest::sample::select;

/// Numbers of the merged requests.
#[derive(Debug)]
struct Names(Vec<usize>);

impl Payload for Names {
    fn can_take(&self, _next: &Self) -> bool {
        true
    }

    fn append(&mut self, mut next: Self) {
        self.0.append(&mut next.0);
    }
}

/// One step. A place in use, or a missing request, skips it.
#[derive(Clone, Debug)]
enum Step {
    Add { place: u64, places: u64, op: Op, class: Class },
    Take,
    Complete(usize),
    Wait(u64),
    Set(&'static str, &'static str),
}

/// Sectors of a place; places do not overlap.
const PLACE: u64 = 8;

fn step() -> impl Strategy<Value = Step> {
    let op = select(vec![Op::Read, Op::Write]);
    let class = select(vec![Class::RealTime, Class::BestEffort, Class::BestEffort, Class::Idle]);
    let setting = select(vec![
        ("read_expire", "0"),
        ("read_expire", "500"),
        ("write_expire", "300"),
        ("write_expire", "5000"),
        ("writes_starved", "0"),
        ("writes_starved", "1"),
        ("writes_starved", "2"),
        ("writes_starved", "-2"),
        ("fifo_batch", "0"),
        ("fifo_batch", "2"),
        ("fifo_batch", "16"),
        ("front_merges", "off"),
        ("front_merges", "on"),
        ("seek_cost", "1"),
        ("seek_cost", "16"),
        ("prio_aging_expire", "600"),
        ("prio_aging_expire", "10000"),
        ("async_depth", "0"),
        ("async_depth", "3"),
        ("reads_in_flight", "0"),
        ("reads_in_flight", "2"),
        ("writes_in_flight", "0"),
        ("writes_in_flight", "1"),
    ]);
    prop_oneof![
        8 => (0..40_u64, 1..3_u64, op, class)
            .prop_map(|(place, places, op, class)| Step::Add { place, places, op, class }),
        6 => Just(Step::Take),
        4 => (0..8_usize).prop_map(Step::Complete),
        2 => select(vec![1, 50, 499, 500, 3000]).prop_map(Step::Wait),
        1 => setting.prop_map(|(name, value)| Step::Set(name, value)),
    ]
}

/// Model and core, in parallel.
struct Pair {
    model: Model,
    core: Deadline<Names>,
    now_ms: u64,
    added: Vec<u64>,
    sent: Vec<usize>,
}

impl Pair {
    fn new(rule: &'static str, quirks: bool, warm: bool, max: u64) -> Self {
        let settings = Settings {
            rule,
            read_expire: 500,
            write_expire: 5000,
            writes_starved: 2,
            fifo_batch: 16,
            front_merges: true,
            seek_cost: 16,
            quirks,
            prio_aging_expire: 10_000,
            async_depth: 0,
            reads_in_flight: 0,
            writes_in_flight: 0,
            warm,
        };
        let mut of_core = CoreSettings { quirks, warm, ..CoreSettings::default() };
        of_core.set("rule", rule).unwrap();
        let core = Deadline::new(&of_core, Sectors(max));
        let model = Model::new(settings, max);
        Self { model, core, now_ms: 0, added: Vec::new(), sent: Vec::new() }
    }

    fn now(&self) -> Nanos {
        Nanos(self.now_ms * 1_000_000)
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Add { place, places, op, class } => self.add(place, places, op, class),
            Step::Take => {
                self.take();
            }
            Step::Complete(index) => {
                if index < self.model.flying.len() {
                    let item = self.model.complete(index);
                    let now = self.now();
                    let arrival = Nanos(item.arrival_ms * 1_000_000);
                    self.core.completed(now, origin(item.op, item.class), arrival);
                }
            }
            Step::Wait(ms) => self.now_ms += ms,
            Step::Set(name, value) => {
                self.core.set(name, value).unwrap();
                set(&mut self.model.settings, name, value);
                self.model.changed();
            }
        }
        assert_eq!(self.core.is_empty(), self.model.is_empty());
    }

    fn add(&mut self, place: u64, places: u64, op: Op, class: Class) {
        let (start, end) = (place * PLACE, (place + places) * PLACE);
        if self.model.queued().any(|item| item.start < end && start < item.end) {
            return;
        }
        let name = self.added.len();
        self.added.push(end - start);
        let names = vec![name];
        self.model.add(Item { names, start, end, op, class, arrival_ms: self.now_ms });
        let request = Request {
            start: Sector(start),
            sectors: Sectors(end - start),
            origin: origin(op, class),
            arrival: self.now(),
            load: Names(vec![name]),
        };
        self.core.add(self.now(), request);
    }

    /// Returns true if a request was dispatched.
    fn take(&mut self) -> bool {
        let (want, got) = (self.model.take(self.now_ms), self.core.take(self.now()));
        let got = got.map(|request| Item {
            start: request.start.0,
            end: request.end().0,
            op: request.origin.op,
            class: request.origin.class,
            arrival_ms: request.arrival.0 / 1_000_000,
            names: request.load.0,
        });
        assert_eq!(got, want, "at {} ms", self.now_ms);
        let Some(item) = got else { return false };
        let sectors: u64 = item.names.iter().map(|name| self.added[*name]).sum();
        assert_eq!(item.end - item.start, sectors, "merging keeps sectors");
        self.sent.extend(item.names);
        true
    }

    /// Drains everything, with all limits lifted.
    fn finish(mut self) {
        for limit in ["async_depth", "reads_in_flight", "writes_in_flight"] {
            self.step(&Step::Set(limit, "0"));
        }
        loop {
            while !self.model.flying.is_empty() {
                self.step(&Step::Complete(0));
            }
            if !self.take() {
                break;
            }
        }
        assert!(self.core.is_empty());
        self.sent.sort_unstable();
        assert!(self.sent.iter().copied().eq(0..self.added.len()), "each comes out exactly once");
    }
}

fn set(settings: &mut Settings, name: &str, value: &str) {
    let number = || value.parse().unwrap();
    match name {
        "read_expire" => settings.read_expire = number(),
        "write_expire" => settings.write_expire = number(),
        "writes_starved" => settings.writes_starved = value.parse().unwrap(),
        "fifo_batch" => settings.fifo_batch = value.parse().unwrap(),
        "seek_cost" => settings.seek_cost = value.parse().unwrap(),
        "front_merges" => settings.front_merges = value == "on",
        "prio_aging_expire" => settings.prio_aging_expire = number(),
        "async_depth" => settings.async_depth = value.parse().unwrap(),
        "reads_in_flight" => settings.reads_in_flight = value.parse().unwrap(),
        "writes_in_flight" => settings.writes_in_flight = value.parse().unwrap(),
        _ => panic!("no setting {name}"),
    }
}

fn origin(op: Op, class: Class) -> Origin {
    Origin { op, class, submitter: Submitter(0) }
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(1000))]

    #[test]
    fn each_rule_sends_what_its_model_sends(
        rule in select(vec!["2002", "4.x", "mq"]),
        (quirks, warm) in (any::<bool>(), any::<bool>()),
        max_places in 2..6_u64,
        steps in prop::collection::vec(step(), 1..300),
    ) {
        let mut pair = Pair::new(rule, quirks, warm, max_places * PLACE);
        for step in &steps {
            pair.step(step);
        }
        pair.finish();
    }

    /// Once a direction is chosen and its oldest request has expired, the batch begins with that
    /// one. Therefore at most one batch of its direction begins between its expiry and its
    /// dispatch.
    #[test]
    fn an_expired_request_begins_the_next_batch_of_its_direction(
        rule in select(vec!["2002", "4.x", "mq"]),
        steps in prop::collection::vec(step(), 1..300),
    ) {
        let mut settings = CoreSettings::default();
        settings.set("rule", rule).unwrap();
        let mut core = Deadline::new(&settings, Sectors(8));
        let (mut now_ms, mut oldest) = (0, Vec::new());
        for step in &steps {
            match *step {
                Step::Wait(ms) => now_ms += ms,
                Step::Add { place, op, .. } => {
                    let request = Request {
                        start: Sector(place * PLACE),
                        sectors: Sectors(PLACE),
                        origin: origin(op, Class::BestEffort),
                        arrival: Nanos(now_ms * 1_000_000),
                        load: Names(vec![]),
                    };
                    oldest.push((op, now_ms));
                    core.add(Nanos(now_ms * 1_000_000), request);
                }
                Step::Take => {
                    let Some(request) = core.take(Nanos(now_ms * 1_000_000)) else { continue };
                    core.completed(Nanos(0), request.origin, request.arrival);
                    let (op, arrival_ms) = (request.origin.op, request.arrival.0 / 1_000_000);
                    let expire_ms = if op == Op::Read { 500 } else { 5000 };
                    let first = oldest.iter().find(|(each, _)| *each == op).unwrap().1;
                    let begins = core.why() != Some(Why::Batch);
                    let has_expiry = rule != "2002" || op == Op::Read;
                    if begins && has_expiry && now_ms > first + expire_ms {
                        prop_assert_eq!(core.why(), Some(Why::Expired));
                        prop_assert_eq!(arrival_ms, first);
                    }
                    let index = oldest.iter().position(|each| *each == (op, arrival_ms)).unwrap();
                    oldest.remove(index);
                }
                Step::Complete(_) | Step::Set(..) => {}
            }
        }
    }
}
