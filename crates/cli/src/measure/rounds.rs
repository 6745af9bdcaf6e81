//! Rounds: each pattern by each access method, in turns.

use std::io;
use std::time::Duration;

use indicatif::ProgressBar;

use super::figures::BenchRow;
use super::method::{AccessMethod, can};
use super::run::{BenchWork, TimedRun};
use super::testbed::Testbed;

/// Repetitions and access methods.
#[derive(Clone, Debug)]
pub struct Rounds<'a> {
    pub methods: &'a [AccessMethod],
    pub runs: u32,
    /// Rounds before them that do not count.
    pub warm_ups: u32,
    /// True if each method gets different random pages, false if all methods of a round get the
    /// same.
    pub own_pages: bool,
    /// Time limit of a run of [`AccessMethod::Direct`].
    pub direct_time: Duration,
}

/// Measures one pattern by all methods, in rounds that begin with another method each: A B C B C A
/// C A B ..
///
/// All methods thus see the same load on the machine, and a cache below the kernel favours each in
/// turn. For the same reason, random pages differ between rounds.
pub fn measure(
    testbed: &Testbed<'_>,
    work: &BenchWork,
    rounds: &Rounds<'_>,
    bar: &ProgressBar,
) -> io::Result<Vec<BenchRow>> {
    let Rounds { methods, runs, warm_ups, own_pages, direct_time } = *rounds;
    let mut taken = AccessMethod::ALL.map(|_| Vec::<TimedRun>::new());
    for round in 0..(runs + warm_ups) as usize {
        for turn in 0..methods.len() {
            let method = methods[(round + turn) % methods.len()];
            bar.inc(1);
            if !can(method, work.pattern) {
                continue;
            }
            let Some(mut opened) = testbed.open(method, work.readers())? else { continue };
            let pages = if own_pages { method as u64 } else { 0 };
            let seed = ((round as u64) << 8 | pages) << 32;
            let mut work = BenchWork { seed, ..*work };
            if method == AccessMethod::Direct {
                work.limit.time = work.limit.time.min(direct_time);
            }
            let run = work.run(&mut opened)?;
            if round >= warm_ups as usize {
                taken[method as usize].push(run);
            }
        }
    }
    let rows = AccessMethod::ALL.into_iter().zip(taken).filter(|(_, taken)| !taken.is_empty());
    Ok(rows.map(|(method, taken)| BenchRow::new(testbed, work.pattern, method, taken)).collect())
}
