//! Nothing acknowledged is lost: ten thousand random programs over devices whose flushes fail, with
//! power cuts and kills at every step. docs/guide/durability.md has the invariants; `./dev
//! durability` runs any number of seeds.

use foreread_sim::durability::{DurabilityOutcome, Sabotage, run};

const RUNS: u64 = 10_000;

/// Runs seeds on as many threads as there are cores: the same outcome in any order.
fn run_all(seeds: std::ops::Range<u64>) -> DurabilityOutcome {
    let half = seeds.start + (seeds.end - seeds.start) / 2;
    let run_some = |seeds: std::ops::Range<u64>| {
        let mut sum = DurabilityOutcome::default();
        for seed in seeds {
            match run(seed, Sabotage::None) {
                Ok(outcome) => sum.add(outcome),
                Err(why) => panic!("seed {seed}: {why}"),
            }
        }
        sum
    };
    std::thread::scope(|scope| {
        let first = scope.spawn(|| run_some(seeds.start..half));
        let mut sum = run_some(half..seeds.end);
        sum.add(first.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        sum
    })
}

#[test]
fn nothing_acknowledged_is_lost_in_ten_thousand_runs() {
    let sum = run_all(0..RUNS);
    // A test that no longer meets what it is about would pass, too.
    assert!(sum.acknowledged > RUNS, "{sum:?}");
    assert!(sum.flush_failures > RUNS / 2, "{sum:?}");
    assert!(sum.pages_rewritten > RUNS / 4, "{sum:?}");
    assert!(sum.lost > RUNS / 100, "{sum:?}");
    assert!(sum.length_changes > RUNS / 2, "{sum:?}");
    assert!(sum.appends > RUNS && sum.dropped_appends > RUNS / 4, "{sum:?}");
    assert!(sum.fuse_acknowledged > RUNS / 10 && sum.injected > RUNS, "{sum:?}");
}

/// A disk has dropped the length of a file, whose last block ends off its device's blocks. Each
/// write of that block contains a flush and fails, and the dirty budget is smaller than the pages
/// that have to be written again after it.
#[test]
fn a_block_that_fails_each_time_is_not_sent_again_with_every_rewrite() {
    let outcome = run(2_215_180, Sabotage::None).expect("every call ends");
    assert!(outcome.flush_failures > 0 && outcome.lost > 0, "{outcome:?}");
}

#[test]
fn a_seed_is_the_same_run_each_time() {
    for seed in 0..20 {
        assert_eq!(run(seed, Sabotage::None), run(seed, Sabotage::None));
    }
}

#[test]
fn what_a_driver_or_a_device_does_wrong_is_found_out() {
    for sabotage in [
        Sabotage::NoFlush,
        Sabotage::NoFua,
        Sabotage::HiddenFailure,
        Sabotage::RepairedFua,
        Sabotage::NoLength,
        Sabotage::LengthFirst,
        Sabotage::TrustFua,
    ] {
        let promise = match sabotage {
            Sabotage::NoLength => "promised length",
            Sabotage::LengthFirst => "promised all bytes below the end of an append",
            Sabotage::None
            | Sabotage::NoFlush
            | Sabotage::NoFua
            | Sabotage::HiddenFailure
            | Sabotage::RepairedFua
            | Sabotage::TrustFua => "promised version",
        };
        let breaks = |seed| run(seed, sabotage).err().filter(|why| why.contains(promise));
        let found = (0..3000).find_map(breaks);
        assert!(found.is_some(), "{sabotage:?} is not found out");
    }
}
