//! Measures how many reads a device serves in parallel: random reads of one size at several depths.
//!
//! The depth stops growing once two doublings gave nothing. A step that would end too late is not
//! started.
//!
//! ```text
//!   climb: 1, 2, 4 .. 64 in flight --> two rounds over all of them, shuffled --> medians
//! ```

use std::time::Duration;

use foreread_core::units::{ByteCount, PAGE_SIZE};

use crate::plateau::robust::median;
use crate::probe::{Probe, Stopped};
use crate::report::ParallelResult;
use crate::rng::Rng;

/// Size of these reads.
pub const PARALLEL_READ: ByteCount = ByteCount(PAGE_SIZE);

/// A device that accepts several reads in flight.
pub trait ParallelProbe: Probe {
    /// Reads at random offsets with `at_once` requests in flight.
    ///
    /// # Errors
    ///
    /// If it cannot continue.
    fn at_once(&mut self, ask: &ReadsAtOnce) -> Result<AtOnceSample, Stopped>;
}

/// Random reads, several in flight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadsAtOnce {
    /// Size of each read.
    pub size: ByteCount,
    /// Number in flight.
    pub at_once: u32,
    /// No read begins after this time; those in flight are waited for.
    pub time: Duration,
}

/// Result of parallel reads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AtOnceSample {
    /// Number of reads.
    pub reads: u64,
    /// Time from the first request to the last completion, in nanoseconds.
    pub ns: u64,
}

impl AtOnceSample {
    /// Returns the reads per second.
    #[must_use]
    pub fn reads_per_s(&self) -> f64 {
        self.reads as f64 * 1e9 / self.ns.max(1) as f64
    }
}

/// Measures within `budget`. Returns the results so far, and the reason if it ended early.
pub fn parallel_reads(
    probe: &mut dyn ParallelProbe,
    budget: Duration,
    seed: u64,
) -> (Vec<ParallelResult>, Option<Stopped>) {
    let mut run = ParallelRun { budget, began: probe.now().0, probe, points: Vec::new() };
    let stopped = run.all(&mut Rng(seed)).err();
    (run.results(), stopped)
}

struct ParallelRun<'r> {
    probe: &'r mut dyn ParallelProbe,
    budget: Duration,
    began: u64,
    /// Depths in ascending order, with the rates measured at each.
    points: Vec<(u32, Vec<f64>)>,
}

impl ParallelRun<'_> {
    fn all(&mut self, rng: &mut Rng) -> Result<(), Stopped> {
        let doubled = std::iter::successors(Some(1_u32), |number| Some(number * 2));
        for at_once in doubled.take_while(|number| *number <= AT_ONCE_MAX) {
            self.points.push((at_once, Vec::new()));
            if !self.step(self.points.len() - 1)? || self.is_flat() {
                break;
            }
        }
        for _ in 1..ROUNDS {
            let mut order: Vec<usize> = (0..self.points.len()).collect();
            rng.shuffle(&mut order);
            for index in order {
                if !self.step(index)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Reads at one depth; returns false if there is no time for it.
    fn step(&mut self, index: usize) -> Result<bool, Stopped> {
        let at_once = self.points[index].0;
        let time = self.budget / STEPS;
        // The last reads in flight complete after the time limit; assume they are no slower than
        // the others.
        let known = self.points[..=index].iter().rev().find_map(|(_, rates)| rates.last());
        let tail_s = known.map_or(0.0, |rate| f64::from(at_once) / rate);
        let took = Duration::from_nanos(self.probe.now().0.saturating_sub(self.began));
        let end_s = took.as_secs_f64() + time.as_secs_f64() + tail_s;
        if end_s > self.budget.as_secs_f64() {
            return Ok(false);
        }
        let sample = self.probe.at_once(&ReadsAtOnce { size: PARALLEL_READ, at_once, time })?;
        if sample.reads > 0 {
            self.points[index].1.push(sample.reads_per_s());
        }
        Ok(true)
    }

    /// Returns whether the last two doublings of the depth gave nothing.
    fn is_flat(&self) -> bool {
        let rate = |back: usize| self.points.iter().rev().nth(back)?.1.last().copied();
        rate(0).zip(rate(2)).is_some_and(|(now, before)| now < GAIN_MIN * before)
    }

    fn results(&self) -> Vec<ParallelResult> {
        let measured = self.points.iter().filter(|(_, rates)| !rates.is_empty());
        let result = |(at_once, rates): &(u32, Vec<f64>)| ParallelResult {
            at_once: *at_once,
            reads_per_s: median(&mut rates.clone()),
            samples: u32::try_from(rates.len()).unwrap_or(u32::MAX),
        };
        measured.map(result).collect()
    }
}

/// Depth of one client; larger depths add no information.
const AT_ONCE_MAX: u32 = 64;

/// Rounds, including the climb.
const ROUNDS: u32 = 3;

/// Steps that fit the budget: those of all rounds, including the waits at their ends.
const STEPS: u32 = 28;

/// Smallest gain that fourfold depth has to give.
const GAIN_MIN: f64 = 1.05;
