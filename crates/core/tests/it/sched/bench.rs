//! A device that does everything at once, for tests of schedulers.
//!
//! In:    requests as text: `R300@0`, `rt:W50+16@5`.
//! Out:   their ids in the order of dispatch.

use foreread_core::sched::{
    Class, Op, Origin, Payload, Request, Scheduler, SchedulerKind, Submitter,
};
use foreread_core::units::{Nanos, Sector, Sectors};

/// Names of the merged requests.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Names(pub(crate) Vec<String>);

impl Payload for Names {
    fn can_take(&self, _next: &Self) -> bool {
        true
    }

    fn append(&mut self, mut next: Self) {
        self.0.append(&mut next.0);
    }
}

pub(crate) type Settings = [(&'static str, String)];

/// Returns `deadline` with these settings.
pub(crate) fn choice(settings: &Settings) -> SchedulerKind {
    let mut choice = SchedulerKind::from_name("deadline").unwrap();
    for (name, value) in settings {
        choice.set(name, value).unwrap();
    }
    choice
}

/// Returns the ids in the order of dispatch: the first at `t0_ms`, then one each `step_ms`. With a
/// step of 0, dispatches everything that has arrived, then continues at the next arrival.
pub(crate) fn dispatched(
    settings: &Settings,
    requests: &str,
    t0_ms: u64,
    step_ms: u64,
) -> Vec<String> {
    let mut queue = choice(settings).queue(Sectors(8));
    let mut arriving: Vec<_> = requests.split(' ').map(request).collect();
    let mut order = Vec::new();
    let mut now_ms = t0_ms;
    loop {
        let now = Nanos(now_ms * 1_000_000);
        for request in arriving.extract_if(.., |request| request.arrival <= now) {
            queue.add(now, request);
        }
        while let Some(mut request) = queue.take(now) {
            order.append(&mut request.load.0);
            queue.completed(now, request.origin, request.arrival);
            if step_ms > 0 {
                break;
            }
        }
        if queue.is_empty() && arriving.is_empty() {
            return order;
        }
        let next_ms = arriving.iter().map(|request| request.arrival.0 / 1_000_000).min();
        now_ms = if step_ms > 0 { now_ms + step_ms } else { next_ms.expect("all were sent") };
    }
}

/// A queue whose requests stay in flight until they are completed explicitly.
pub(crate) struct Bench {
    pub(crate) queue: Box<dyn Scheduler<Names>>,
    flying: Vec<Request<Names>>,
}

impl Bench {
    pub(crate) fn new(choice: &SchedulerKind, max: u64) -> Self {
        Self { queue: choice.queue(Sectors(max)), flying: Vec::new() }
    }

    pub(crate) fn add(&mut self, requests: &str) {
        for request in requests.split(' ').map(request) {
            self.queue.add(request.arrival, request);
        }
    }

    /// Returns the names dispatched as one request: `R100 R108`.
    pub(crate) fn take(&mut self, now_ms: u64) -> Option<String> {
        let request = self.queue.take(Nanos(now_ms * 1_000_000))?;
        let names = request.load.0.join(" ");
        self.flying.push(request);
        Some(names)
    }

    pub(crate) fn complete(&mut self, names: &str) {
        let is_it = |request: &Request<Names>| request.load.0.join(" ") == names;
        let index = self.flying.iter().position(is_it).expect("it is in flight");
        let request = self.flying.swap_remove(index);
        self.queue.completed(Nanos(0), request.origin, request.arrival);
    }

    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.queue.set(name, value).unwrap();
    }

    /// Dispatches everything at a time, each completed at once.
    pub(crate) fn all(&mut self, now_ms: u64) -> Vec<String> {
        let mut all = Vec::new();
        while let Some(names) = self.take(now_ms) {
            self.complete(&names);
            all.push(names);
        }
        all
    }
}

/// `[CLASS:]DIRECTION SECTOR[+SECTORS]@MS`, without blanks; 8 sectors by default.
pub(crate) fn request(text: &str) -> Request<Names> {
    let (class, text) = text.split_once(':').unwrap_or(("be", text));
    let class = match class {
        "rt" => Class::RealTime,
        "be" => Class::BestEffort,
        "idle" => Class::Idle,
        _ => panic!("no class {class}"),
    };
    let (name, ms) = text.split_once('@').unwrap();
    let op = if name.starts_with('R') { Op::Read } else { Op::Write };
    let (start, sectors) = name[1..].split_once('+').unwrap_or((&name[1..], "8"));
    Request {
        start: Sector(start.parse().unwrap()),
        sectors: Sectors(sectors.parse().unwrap()),
        origin: Origin { op, class, submitter: Submitter(0) },
        arrival: Nanos(ms.parse::<u64>().unwrap() * 1_000_000),
        load: Names(vec![name.split('+').next().unwrap().to_owned()]),
    }
}
