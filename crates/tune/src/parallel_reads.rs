//! Reads of one size, anywhere, several at a time: how many a device serves at once.
//!
//! In:    a probe; how much time there is.
//! Out:   reads a second by how many are in flight.
//! Never: more in flight where twice as many, and four times as many, gave nothing; a step that
//!        would end too late.
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

/// The size of these reads.
pub const PARALLEL_READ: ByteCount = ByteCount(PAGE_SIZE);

/// A device that can be asked for several reads at a time.
pub trait ParallelProbe: Probe {
    /// Reads anywhere, so many in flight.
    ///
    /// # Errors
    ///
    /// If it cannot go on.
    fn at_once(&mut self, ask: &ReadsAtOnce) -> Result<AtOnceSample, Stopped>;
}

/// Reads anywhere, several in flight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadsAtOnce {
    /// The size of each.
    pub size: ByteCount,
    /// How many are in flight.
    pub at_once: u32,
    /// None begins later than this; each of those in flight then is waited for.
    pub time: Duration,
}

/// What they took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AtOnceSample {
    /// How many were made.
    pub reads: u64,
    /// From the first request to the last answer, in nanoseconds.
    pub ns: u64,
}

impl AtOnceSample {
    /// Reads a second.
    #[must_use]
    pub fn reads_per_s(&self) -> f64 {
        self.reads as f64 * 1e9 / self.ns.max(1) as f64
    }
}

/// Measures within `budget`, and returns what is known when it ended, with why if that was early.
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
    /// Numbers in flight, the smallest first, with the rates that were measured.
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

    /// Reads with one number in flight; false if there is no time for it.
    fn step(&mut self, index: usize) -> Result<bool, Stopped> {
        let at_once = self.points[index].0;
        let time = self.budget / STEPS;
        // The last ones in flight come after the time is over: no slower than those before.
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

    /// Whether twice as many in flight gave nothing, twice in a row.
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

/// What one client has in flight; more say nothing that these do not.
const AT_ONCE_MAX: u32 = 64;

/// The climb is the first.
const ROUNDS: u32 = 3;

/// So many steps fit the budget: those of all rounds, and what they wait for at their ends.
const STEPS: u32 = 28;

/// What four times as many in flight have to give.
const GAIN_MIN: f64 = 1.05;
