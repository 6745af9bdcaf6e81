//! `deadline` with rule mq against the `mq-deadline` of the running kernel, dispatch by dispatch.
//!
//! Seeded random loads go to a slow device behind the kernel's own scheduler. What its tracepoints
//! say was inserted, and when, goes through ours; both must come to the same order.
//!
//! The kernel picks ahead: while the device has no room it takes one more request out of the
//! scheduler and holds it until there is. So a pick belongs to the time at which it was made, not
//! to that of its issue:
//!
//! ```text
//!   device      |== a ==|== b ==|== c ==|      takes one at a time here
//!   issue       a       b       c
//!   pick        a b     c       d              b is held while a is at work
//!   insert   a b  c  d      e                  too late for b's place: c
//! ```

#[path = "../../engine/tests/common/mod.rs"]
mod common;
#[path = "kernel_dispatch/lab.rs"]
mod lab;

use std::fmt;

use common::{Need, needs, skip};
use foreread_core::sched::deadline::{Deadline, DeadlineRule, DeadlineSettings};
use foreread_core::sched::{Op, Origin, Payload, Request, Scheduler as _};
use foreread_core::units::{Nanos, Sector, Sectors};
use lab::{Event, Job, Lab, What};

const TEST: &str = "the_kernel_dispatches_as_rule_mq_does";

#[test]
fn the_kernel_dispatches_as_rule_mq_does() {
    let able = [Need::Root, Need::Loop, Need::Tracefs, Need::Fuse, Need::Tool("losetup")];
    if !able.into_iter().all(|need| needs(need, TEST)) {
        return;
    }
    if kernel_version() < FIRST_KERNEL {
        return skip(TEST, "the rule is that of Linux 6.0 and later");
    }
    let lab = Lab::new();
    let seeds = match std::env::var("SEED") {
        Ok(seed) => seed.parse().map(|seed| seed..seed + 1).expect("SEED is a number"),
        Err(_) => 0..MOST_LOADS,
    };
    let is_whole = seeds == (0..MOST_LOADS);
    let (mut clear, mut identical) = (0, 0);
    let (mut batched, mut expired) = (0, 0);
    for seed in seeds {
        if is_whole && seed >= LOADS && clear >= LEAST_CLEAR {
            break;
        }
        let mut trial = Trial::new(seed);
        let Some(compared) = trial.run(&lab) else { continue };
        clear += 1;
        batched += u64::from(compared.kernel != compared.arrived);
        expired += compared.expired;
        if compared.kernel == compared.ours {
            identical += 1;
            continue;
        }
        println!("{trial}\n{compared}");
        // Where the two differ by more, the kernel is asked again before it is believed: two of its
        // threads that dispatch at once change its order, but not each time.
        let is_near = |it: &Compared| it.kernel == it.ours || is_one_swap(&it.kernel, &it.ours);
        let mut again = (0..TRIES).filter_map(|_| trial.run(&lab));
        assert!(
            is_near(&compared) || again.any(|it| is_near(&it)),
            "{trial}\nto repeat: SEED={seed} cargo test -p foreread-cli {TEST}"
        );
    }
    println!("identical in {identical} of {clear} loads");
    println!("{batched} not in the order of arrival, {expired} batches began with an expired one");
    assert!(identical * 100 >= clear * 80, "identical in only {identical} of {clear}");
    if is_whole {
        assert!(clear >= LEAST_CLEAR, "only {clear} of {MOST_LOADS} loads were clear");
        assert!(batched * 2 >= clear, "loads in the order of arrival prove nothing");
        assert!(expired >= 20, "only {expired} batches began with an expired request");
    }
}

/// One load and the settings for it.
struct Trial {
    seed: u64,
    settings: DeadlineSettings,
    /// How long the clock by which requests expire stands still.
    tick_ms: u64,
    /// These fill the device, and one more is held.
    first: Vec<Job>,
    batches: Vec<Vec<Job>>,
}

/// The order of one load, each request by its direction and sector.
struct Compared {
    arrived: Vec<(Op, u64)>,
    kernel: Vec<(Op, u64)>,
    ours: Vec<(Op, u64)>,
    expired: u32,
}

impl Trial {
    fn new(seed: u64) -> Self {
        let mut rng = Rng(seed);
        let settings = DeadlineSettings {
            rule: DeadlineRule::Mq,
            read_expire_ms: rng.pick(&[30, 50, 100, 500, 5000]),
            write_expire_ms: rng.pick(&[30, 50, 100, 500, 5000]),
            writes_starved: rng.pick(&[0, 1, 2, 2, 3, 5]),
            fifo_batch: 1 + u32::try_from(rng.below(16)).expect("it is small"),
            ..DeadlineSettings::default()
        };
        let reads = 20 + rng.below(60);
        let mut sectors: Vec<u64> = (0..JOBS).map(|index| index * 4096).collect();
        for last in (1..sectors.len()).rev() {
            let other = usize::try_from(rng.below(last as u64 + 1)).expect("an index");
            sectors.swap(last, other);
        }
        let op = |draw| if draw < reads { Op::Read } else { Op::Write };
        let mut jobs: Vec<_> =
            sectors.into_iter().map(|sector| Job { op: op(rng.below(100)), sector }).collect();
        let first = jobs.drain(..TAGS as usize + 1).collect();
        // Never fewer than go meanwhile, so that the scheduler has something to choose from.
        let mut batches = vec![jobs.drain(..6).collect()];
        let most = rng.pick(&[2, 5, 12]);
        while !jobs.is_empty() {
            let count = 1 + rng.below(most);
            let count = jobs.len().min(usize::try_from(count).expect("it is small"));
            batches.push(jobs.drain(..count).collect());
        }
        Self { seed, settings, tick_ms: 0, first, batches }
    }

    /// Sends it to a scheduler that knows nothing yet.
    fn send(&mut self, lab: &Lab) -> Vec<Event> {
        lab.begin_anew(TAGS);
        // The kernel rounds one millisecond up to its tick.
        lab.set("iosched/read_expire", "1");
        self.tick_ms = lab.get("iosched/read_expire");
        let settings = &mut self.settings;
        lab.set("iosched/read_expire", &settings.read_expire_ms.to_string());
        lab.set("iosched/write_expire", &settings.write_expire_ms.to_string());
        lab.set("iosched/writes_starved", &settings.writes_starved.to_string());
        lab.set("iosched/fifo_batch", &settings.fifo_batch.to_string());
        settings.read_expire_ms = lab.get("iosched/read_expire");
        settings.write_expire_ms = lab.get("iosched/write_expire");
        lab.send(&self.first, &self.batches)
    }

    /// None if it was not clear what the kernel knew, however often it was sent. That is seen
    /// before anything is compared.
    fn run(&mut self, lab: &Lab) -> Option<Compared> {
        let sent = (0..TRIES).map(|_| self.send(lab)).find(|events| is_clear(events));
        let events = sent?;
        let of = |what| {
            let events = events.iter().filter(move |event| event.what == what);
            events.map(|event| (event.op, event.sector)).collect::<Vec<_>>()
        };
        let (arrived, kernel) = (of(What::Insert), of(What::Issue));
        let count = usize::try_from(JOBS).expect("few");
        assert_eq!((arrived.len(), kernel.len()), (count, count), "{self}");
        let (ours, expired) = self.replay(&events);
        Some(Compared { arrived, kernel, ours, expired })
    }

    /// What our scheduler gives if it is asked when the kernel's was; and how many batches began
    /// with an expired request.
    fn replay(&self, events: &[Event]) -> (Vec<(Op, u64)>, u32) {
        let mut replay = Replay {
            scheduler: Deadline::new(&self.settings, Sectors(8)),
            held: None,
            in_flight: 0,
            expired: 0,
        };
        let mut order = Vec::new();
        for event in events {
            // The clock of the scheduler goes by ticks.
            let tick_us = self.tick_ms * 1000;
            let now = Nanos(event.at_us / tick_us * tick_us * 1000);
            match event.what {
                What::Insert => replay.insert(now, event),
                What::Issue => order.extend(replay.issue(now)),
                What::Complete => replay.in_flight -= 1,
            }
        }
        (order, replay.expired)
    }
}

/// Our scheduler in the place of the kernel's.
struct Replay {
    scheduler: Deadline<Alone>,
    /// Picked, and without room on the device.
    held: Option<(Op, u64)>,
    in_flight: u32,
    expired: u32,
}

impl Replay {
    fn insert(&mut self, now: Nanos, event: &Event) {
        let origin = Origin { op: event.op, ..Origin::default() };
        let (start, sectors) = (Sector(event.sector), Sectors(8));
        let request = Request { start, sectors, origin, arrival: now, load: Alone };
        self.scheduler.add(now, request);
        self.hold(now);
    }

    /// The kernel issued something: what would we have? With room on the device the pick was made
    /// just now.
    fn issue(&mut self, now: Nanos) -> Option<(Op, u64)> {
        let issued = self.held.take().or_else(|| self.pick(now));
        self.in_flight += 1;
        self.hold(now);
        issued
    }

    /// Without room on the device the next one is picked as soon as there is one, and held.
    fn hold(&mut self, now: Nanos) {
        if self.held.is_none() && self.in_flight >= TAGS {
            self.held = self.pick(now);
        }
    }

    fn pick(&mut self, now: Nanos) -> Option<(Op, u64)> {
        let request = self.scheduler.take(now)?;
        self.scheduler.completed(now, request.origin, request.arrival);
        let why = self.scheduler.why();
        self.expired += u32::from(why == Some(foreread_core::sched::Why::Expired));
        Some((request.origin.op, request.start.0))
    }
}

/// Whether it is clear of each request whether the kernel knew of it when it picked another: on a
/// busy machine a batch may come late, and meet the next completion.
///
/// ```text
///   complete ----> issue of what was held, then the next is picked
///        |<---------->|<-- a little -->|           no insert here
/// ```
fn is_clear(events: &[Event]) -> bool {
    let inserts = || events.iter().filter(|event| event.what == What::Insert);
    let mut completed_us = None;
    for event in events {
        match event.what {
            What::Insert => {}
            What::Complete => completed_us = completed_us.or(Some(event.at_us)),
            What::Issue => {
                let from = completed_us.take().unwrap_or(event.at_us).min(event.at_us);
                let busy = from.saturating_sub(A_LITTLE_US)..event.at_us + A_LITTLE_US;
                let is_met =
                    |insert: &Event| busy.contains(&insert.at_us) && insert.sector != event.sector;
                if inserts().any(is_met) {
                    return false;
                }
            }
        }
    }
    true
}

/// Whether one order is the other but for two that changed places.
fn is_one_swap(one: &[(Op, u64)], other: &[(Op, u64)]) -> bool {
    let differ: Vec<_> = (0..one.len()).filter(|&at| one[at] != other[at]).collect();
    matches!(differ[..], [a, b] if one[a] == other[b] && one[b] == other[a])
}

/// A request of the test's: nothing travels along, and nothing merges.
#[derive(Debug)]
struct Alone;

impl Payload for Alone {
    fn can_take(&self, _: &Self) -> bool {
        false
    }

    fn append(&mut self, _: Self) {
        unreachable!("it merges with nothing")
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DeadlineSettings {
            read_expire_ms, write_expire_ms, writes_starved, fifo_batch, ..
        } = self.settings;
        write!(
            f,
            "seed {}: fifo_batch {fifo_batch}, writes_starved {writes_starved}, read_expire \
             {read_expire_ms} ms, write_expire {write_expire_ms} ms",
            self.seed
        )
    }
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut side = |name: &str, order: &[(Op, u64)]| {
            write!(f, "{name:>8}:")?;
            for (at, (op, sector)) in order.iter().enumerate() {
                let letter = if *op == Op::Read { 'R' } else { 'W' };
                let mark = if self.kernel[at] == self.ours[at] { "" } else { "*" };
                write!(f, " {mark}{letter}{}", sector / 4096)?;
            }
            writeln!(f)
        };
        side("arrived", &self.arrived)?;
        side("kernel", &self.kernel)?;
        side("ours", &self.ours)
    }
}

/// `SplitMix64`: a seed is a whole load.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as u64)).expect("an index fits")]
    }
}

/// `6.18.44-rc1` as (6, 18).
fn kernel_version() -> (u32, u32) {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("Linux has a release");
    let mut numbers =
        text.split(|c: char| !c.is_ascii_digit()).map(|word| word.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// The first release whose scheduler keeps its place in each direction, as the rule does.
const FIRST_KERNEL: (u32, u32) = (6, 0);

/// Commands that the device accepts at a time.
const TAGS: u32 = 4;

/// Most runs of a load before its result must be clear.
const TRIES: u32 = 5;

/// Time from an issue to the next pick, with a margin.
const A_LITTLE_US: u64 = 100;

/// Loads on a machine with little else to do.
const LOADS: u64 = 30;

/// More loads follow until this many results are clear: on a busy machine most are not.
const LEAST_CLEAR: u64 = 20;

/// Loads after which the test gives up.
const MOST_LOADS: u64 = 300;

const JOBS: u64 = 48;
