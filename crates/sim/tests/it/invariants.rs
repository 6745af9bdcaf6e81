//! What holds in every run, over random scenarios.
//!
//! ```text
//!   each read ends once, with the length that the file has for it       in the process, in the log
//!   each direct request ends once, in a request that covers it          in the log
//!   an expired read goes within a bounded number of dispatches          in the log, by rule
//!   no frame is lost: at the end all are idle                           in the cache
//!   a pinned page stays where it is, whatever else is read              in the table
//!   the same seed is the same run, another seed is another              in the hash
//!   all that happened follows from what was done to the path            replayed
//! ```
//!
//! A failure prints the line that repeats it.

mod expiry;
mod log;
mod process;
mod scenario;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use foreread_sim::record::RecordMode;
use scenario::Shape;

/// What the scenarios of one test came to: those that never meet a rule would prove nothing.
#[derive(Debug, Default)]
struct Met {
    reads: u64,
    waited_for_frames: u64,
    evicted: u64,
    pins: u64,
    pins_forgotten: u64,
    directs: u64,
    merged: u64,
    expired: expiry::Met,
}

#[test]
fn runs_hold_what_they_must() {
    let one = std::env::var("SEED").ok().map(|seed| seed.parse::<u64>().expect("a number"));
    let mut met = Met::default();
    std::thread::scope(|scope| {
        let part = |part: u64| {
            let seeds = (part..SCENARIOS).step_by(THREADS);
            let seeds = seeds.filter(|seed| one.is_none_or(|one| one == *seed));
            scope.spawn(|| hold(seeds))
        };
        let parts: Vec<_> = (0..THREADS as u64).map(part).collect();
        for part in parts {
            met.add(&part.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
    });
    println!("{met:?}");
    if one.is_none() {
        met.check();
    }
}

fn hold(seeds: impl Iterator<Item = u64>) -> Met {
    let mut met = Met::default();
    for seed in seeds {
        let held = catch_unwind(AssertUnwindSafe(|| holds(seed, &mut met)));
        if let Err(panic) = held {
            eprintln!("{:?}", Shape::new(seed));
            eprintln!("to repeat: SEED={seed} cargo test -p foreread-sim --test it invariants::");
            resume_unwind(panic);
        }
    }
    met
}

impl Met {
    fn add(&mut self, part: &Self) {
        self.reads += part.reads;
        self.waited_for_frames += part.waited_for_frames;
        self.evicted += part.evicted;
        self.pins += part.pins;
        self.pins_forgotten += part.pins_forgotten;
        self.directs += part.directs;
        self.merged += part.merged;
        self.expired.add(&part.expired);
    }

    fn check(&self) {
        let met = [
            (self.reads, 10_000),
            (self.evicted, 100_000),
            (self.waited_for_frames, 20),
            (self.pins, 1000),
            (self.pins_forgotten, 20),
            (self.directs, 10_000),
            (self.merged, 1000),
        ];
        assert!(met.iter().all(|(times, least)| times > least), "{self:?}");
        self.expired.check();
    }
}

fn holds(seed: u64, met: &mut Met) {
    let shape = Shape::new(seed);
    let (ran, tally) = shape.run(seed, RecordMode::Log);
    assert_eq!(ran.unfinished, 0, "each process ends");
    assert_eq!(tally.begun.get(), tally.ended.get(), "each read and each direct request ends");
    assert_eq!(ran.idle_frames, u64::from(ran.frames), "no frame is lost");
    ran.replay().unwrap_or_else(|mismatch| panic!("the replay differs: {mismatch}"));

    let log = log::Log::of(&ran.log);
    log.check();
    shape.devices.iter().enumerate().for_each(|(index, device)| {
        if let Some(limit) = expiry::Limit::of(device, shape.turns_knobs) {
            expiry::check(&log, u32::try_from(index).expect("few"), &limit, &mut met.expired);
        }
    });

    let again = shape.run(seed, RecordMode::Hash).0;
    assert_eq!((again.hash, again.events), (ran.hash, ran.events), "the same seed, the same run");
    let other = shape.run(seed + SCENARIOS, RecordMode::Hash).0;
    assert_ne!(other.hash, ran.hash, "another seed, another run");

    met.reads += ran.stats.reads;
    met.waited_for_frames += ran.stats.waited_for_frames;
    met.evicted += ran.cache.evictions;
    met.pins += tally.pins.get();
    met.pins_forgotten += tally.pins_forgotten.get();
    met.directs += log.directs.len() as u64;
    met.merged += log.merged;
}

const SCENARIOS: u64 = 200;

const THREADS: usize = 2;
