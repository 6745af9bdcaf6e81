//! Random programs of several clients over an overlay in virtual time: the overlay's own code, on
//! the core's write path, on a device with a volatile cache whose flushes fail.
//!
//! In:    a seed.
//! Out:   the first sector of which a read or a power cut finds less than was acknowledged.
//! Never: a program that differs from one run of a seed to the next; a real file.
//!
//! ```text
//!   3 clients --> OverlayBlocks --> IoPath --> device: cache, medium
//!      |  one runs at a time             '-- each turn is a few events --'
//!      v
//!   oracle: versions of each sector ....... compared with what a power cut leaves, at any event
//! ```

mod clients;
mod oracle;
mod stepped;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foreread_sim::durability::{RunEnd, Sabotage};
use foreread_sim::rng::Rng;

use super::blocks::OverlayBlocks;
use super::turns;
use clients::OverlayClient;
use stepped::{SimFile, SimWorld};

/// What is deliberately wrong.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Wrong {
    Nothing,
    /// The device or its driver.
    Device(Sabotage),
    /// Bits are written before the flush of their blocks.
    BitsFirst,
    /// Both copies of the bits are written without a flush between them.
    BothCopies,
    /// The overlay does not hear of lost writes.
    DeafToLosses,
    /// A server leaves copies of the bits that differ as it finds them.
    NoRepair,
}

/// What programs did.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct OverlayTally {
    calls: u64,
    failed: u64,
    /// Flushes and FUA writes.
    acknowledged: u64,
    cuts: u64,
    /// Pages of bits that a server repaired before its first request.
    repairs: u64,
    injected: u64,
    flush_failures: u64,
    losses: u64,
}

impl OverlayTally {
    fn count(&mut self, is_durable: bool, is_done: bool) {
        self.acknowledged += u64::from(is_durable && is_done);
        self.failed += u64::from(!is_done);
    }

    fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.failed += other.failed;
        self.acknowledged += other.acknowledged;
        self.cuts += other.cuts;
        self.repairs += other.repairs;
        self.injected += other.injected;
        self.flush_failures += other.flush_failures;
        self.losses += other.losses;
    }
}

/// Runs the program of a seed: two or three servers after one another, each ended by a power cut or
/// a kill.
fn run(seed: u64, wrong: Wrong) -> Result<OverlayTally, String> {
    let mut rng = Rng::named(seed, "overlay program");
    let world = Arc::new(Mutex::new(SimWorld::new(seed, wrong)));
    for life in 0..2 + rng.below(2) {
        run_life(rng.any(), wrong, &world)
            .and_then(|()| {
                let end = if rng.below(2) == 0 { RunEnd::PowerCut } else { RunEnd::Kill };
                locked(&world).restart(end).map_err(|why| format!("after {end:?}: {why}"))
            })
            .map_err(|why| format!("seed {seed}, server {life}: {why}"))?;
    }
    let tally = locked(&world).tally;
    Ok(tally)
}

fn run_life(seed: u64, wrong: Wrong, world: &Arc<Mutex<SimWorld>>) -> Result<(), String> {
    let map = locked(world).read_map()?;
    let (base, file) = (SimFile::new(world, true), SimFile::new(world, false));
    let overlay = OverlayBlocks::new(base, file, stepped::layout(), map, Box::new(|_| Ok(())));
    locked(world).begin_life(Arc::clone(&overlay.map));
    if wrong != Wrong::NoRepair {
        let Ok(repaired) = overlay.map.repair(&overlay.blocks) else {
            // The server does not start; the next one tries again.
            return locked(world).found.take().map_or(Ok(()), Err);
        };
        locked(world).tally.repairs += repaired as u64;
    }
    locked(world).open();
    let clients = (0..CLIENTS).map(|number| {
        let mut client = OverlayClient::new(number, seed, &overlay, world);
        move || client.run()
    });
    turns::run(seed, clients.collect());
    locked(world).found.take().map_or(Ok(()), Err)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs seeds on all cores.
fn run_all(first: u64, runs: u64) -> Result<OverlayTally, String> {
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let some = |thread: u64| -> Result<OverlayTally, String> {
        let mut sum = OverlayTally::default();
        for seed in (first + thread..first + runs).step_by(usize::try_from(threads).expect("few")) {
            sum.add(run(seed, Wrong::Nothing)?);
            if seed > first && (seed - first).is_multiple_of(5000) {
                eprintln!("{} of {runs} overlays", seed - first);
            }
        }
        Ok(sum)
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|it| scope.spawn(move || some(it))).collect();
        let mut sum = OverlayTally::default();
        for worker in workers {
            sum.add(worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        Ok(sum)
    })
}

#[test]
fn no_acknowledged_block_is_lost_in_random_programs_with_cuts() {
    let number = |name: &str| Some(std::env::var(name).ok()?.parse::<u64>().expect("a number"));
    let runs = number("OVERLAY_RUNS").unwrap_or(RUNS);
    let sum = run_all(number("SEED").unwrap_or(0), runs).unwrap_or_else(|why| panic!("{why}"));
    println!("{runs} overlays: every invariant held");
    for (name, count) in [
        ("requests of clients", sum.calls),
        ("requests that failed", sum.failed),
        ("flushes and FUA writes acked", sum.acknowledged),
        ("device flushes that failed", sum.flush_failures),
        ("faults injected", sum.injected),
        ("losses", sum.losses),
        ("power cuts looked at", sum.cuts),
        ("pages of bits repaired", sum.repairs),
    ] {
        println!("  {name:<28}{count:>16}");
    }
    if runs >= RUNS {
        assert!(sum.acknowledged > 3 * runs && sum.flush_failures > runs, "{sum:?}");
        assert!(sum.cuts > 5 * runs && sum.losses > runs / 10, "{sum:?}");
        assert!(sum.repairs > runs / 50, "{sum:?}");
    }
}

#[test]
fn a_seed_is_the_same_program_each_time() {
    for seed in 0..10 {
        assert_eq!(run(seed, Wrong::Nothing), run(seed, Wrong::Nothing));
    }
}

#[test]
fn what_an_overlay_or_its_device_does_wrong_is_found_out() {
    for wrong in [
        Wrong::Device(Sabotage::NoFlush),
        Wrong::Device(Sabotage::NoFua),
        Wrong::Device(Sabotage::HiddenFailure),
        Wrong::Device(Sabotage::TrustFua),
        Wrong::BitsFirst,
        Wrong::BothCopies,
        Wrong::DeafToLosses,
    ] {
        let found = (0..20 * RUNS).find_map(|seed| run(seed, wrong).err());
        println!("{wrong:?}: {found:?}");
        assert!(found.is_some(), "{wrong:?} is not found out");
    }
}

/// The program of this seed has a second torn write of the bits that completes a copy which a power
/// cut has torn: without a repair, a block comes back that clients have seen gone.
#[test]
fn a_server_that_repairs_no_torn_copy_is_found_out() {
    let found = run(TORN_TWICE, Wrong::NoRepair);
    assert!(found.is_err(), "{found:?}");
    assert!(run(TORN_TWICE, Wrong::Nothing).is_ok());
}

const TORN_TWICE: u64 = 3_040_596;

const CLIENTS: usize = 3;

/// Some seconds without optimisation.
const RUNS: u64 = 100;
