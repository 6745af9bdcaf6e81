//! A trial, the samples of its runs, and the figures derived from them.

use super::mixed_load::MixedSample;
use super::trial::Trial;
use crate::plateau::robust::median;
use crate::sysfs::Queue;

/// The index of the trial that changes nothing.
pub const IN_FORCE: usize = 0;

/// A trial and its results.
#[derive(Clone, Debug)]
pub struct TrialRuns {
    /// Settings of the trial.
    pub trial: Trial,
    /// All settings in force during the trial.
    pub queue: Queue,
    /// Runs with their rounds, at most one for each round; round 0 is the survey.
    pub runs: Vec<(u32, MixedSample)>,
    pub(super) is_dropped: bool,
}

/// Read latencies of a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ReadLatencies {
    pub(super) median_us: f64,
    pub(super) p99_us: f64,
    pub(super) reads: usize,
}

impl TrialRuns {
    /// Creates a trial without runs.
    #[must_use]
    pub fn new(trial: Trial) -> Self {
        Self { trial, queue: Queue::default(), runs: Vec::new(), is_dropped: false }
    }

    /// Returns the latencies of all its runs.
    pub(super) fn latencies(&self) -> ReadLatencies {
        let runs = self.runs.iter();
        let mut all: Vec<u64> = runs.flat_map(|(_, sample)| sample.reads_ns.clone()).collect();
        all.sort_unstable();
        let Some(last) = all.len().checked_sub(1) else { return ReadLatencies::default() };
        let at = |percent: usize| all[(all.len() * percent / 100).min(last)] as f64 / 1e3;
        ReadLatencies { median_us: at(50), p99_us: at(99), reads: all.len() }
    }
}

/// Returns the median of a figure over a trial's runs.
pub(super) fn middle(tried: &TrialRuns, figure: fn(&MixedSample) -> f64) -> Option<f64> {
    let mut figures: Vec<f64> = tried.runs.iter().map(|(_, sample)| figure(sample)).collect();
    (!figures.is_empty()).then(|| median(&mut figures))
}

/// Returns the number of changes of a trial. Another scheduler replaces all settings, so it counts
/// more.
pub(super) fn changes(tried: &[TrialRuns], index: usize) -> usize {
    let (trial, found) = (&tried[index].trial, &tried[IN_FORCE].trial);
    trial.changes.len() + if trial.scheduler == found.scheduler { 0 } else { 2 }
}
