//! Runs random programs over devices with a volatile cache: `./dev durability files [RUNS [SEED]]`.
//!
//! In:    the number of runs and the first seed.
//! Out:   totals, or the first failing seed and its violation.
//! Never: part of a test; `tests/durability.rs` runs ten thousand.

use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant as Clock;

use foreread_sim::durability::{DurabilityOutcome, Sabotage, run};

fn main() {
    let mut args = std::env::args().skip(1);
    let mut number = |unless_given: u64| {
        let text = args.next().map(|text| text.replace('_', ""));
        text.map_or(unless_given, |text| {
            text.parse().unwrap_or_else(|_| {
                eprintln!("'{text}' is not a number; usage: durability [RUNS [FIRST_SEED]]");
                std::process::exit(2)
            })
        })
    };
    let (runs, first) = (number(100_000), number(0));
    #[expect(clippy::disallowed_methods, reason = "a measurement takes the time")]
    let began = Clock::now();
    match run_all(first, runs) {
        Ok(sum) => {
            let seconds = began.elapsed().as_secs_f64();
            println!("{runs} runs, seeds {first} to {}: every invariant held", first + runs - 1);
            println!("  steps                         {:>14}", sum.steps);
            println!("  flushes and FUA writes acked  {:>14}", sum.acknowledged);
            println!("  device flushes that failed    {:>14}", sum.flush_failures);
            println!("  pages written again           {:>14}", sum.pages_rewritten);
            println!("  flushes that reported a loss  {:>14}", sum.lost);
            println!("  changes of a length           {:>14}", sum.length_changes);
            println!("  appends, and writes past end  {:>14}", sum.appends);
            println!("  of them left half-way         {:>14}", sum.dropped_appends);
            println!("  FUA writes acked on FUSE      {:>14}", sum.fuse_acknowledged);
            println!("  faults injected               {:>14}", sum.injected);
            println!("  seconds                       {seconds:>14.1}");
        }
        Err((seed, why)) => {
            println!("seed {seed}: {why}");
            println!("again: ./dev durability files 1 {seed}");
            std::process::exit(1);
        }
    }
}

/// Runs the seeds on all cores. Returns the lowest failing seed that was found, if any fails.
fn run_all(first: u64, runs: u64) -> Result<DurabilityOutcome, (u64, String)> {
    let (next, done) = (AtomicU64::new(first), AtomicU64::new(0));
    let end = first.saturating_add(runs);
    let shows = std::io::stderr().is_terminal();
    let work = || {
        let mut sum = DurabilityOutcome::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return Ok(sum);
            }
            match std::panic::catch_unwind(|| run(seed, Sabotage::None)) {
                Ok(Ok(outcome)) => sum.add(outcome),
                Ok(Err(why)) => return Err((seed, why)),
                Err(_) => return Err((seed, "a panic; its message is above".to_string())),
            }
            let count = done.fetch_add(1, Ordering::Relaxed) + 1;
            if shows && count.is_multiple_of(1000) {
                eprint!("\r{count} of {runs} runs");
                let _ = std::io::stderr().flush();
            } else if count.is_multiple_of(50_000) {
                eprintln!("{count} of {runs} runs");
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let results: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|it| it.join().expect("its panics are caught")).collect()
    });
    if shows {
        eprintln!();
    }
    let mut sum = DurabilityOutcome::default();
    let mut failed: Option<(u64, String)> = None;
    for result in results {
        match result {
            Ok(outcome) => sum.add(outcome),
            Err(found) if failed.as_ref().is_none_or(|(seed, _)| found.0 < *seed) => {
                failed = Some(found);
            }
            Err(_) => {}
        }
    }
    failed.map_or(Ok(sum), Err)
}
