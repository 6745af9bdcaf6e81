//! Compares policies, windows and memory sizes on one scenario or trace, each with the same seeds.
//!
//! In:    the scenario, the combinations, the seeds; for a trace, the rows of its replays.
//! Out:   a row per combination: the mean of each figure with its interval over the seeds, and its
//!        ratio to the first policy, over the same seeds. Independent of the number of threads.

mod figure;
mod replays;
mod row;
mod run;

pub use figure::ComparedFigure;
pub use replays::ReplayComparisonRow;
pub use row::ComparisonRow;
pub use run::ComparedRun;

use std::sync::Mutex;

use foreread_core::prefetch::Policy;
use foreread_core::units::ByteCount;

use crate::parallel::run_in_order;
use crate::rivals::RunKeeps;
use crate::scenario::{PolicyName, Scenario};
use crate::size::Size;

/// A policy, a largest window and a memory size to run together.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Combination {
    /// The policy.
    pub policy: Policy,
    /// Largest window; None: learnt.
    pub max_window: Option<ByteCount>,
    /// The memory bound.
    pub memory: ByteCount,
    /// Index of the baseline: the first policy with the same memory and, if it was given several
    /// windows, the same window. None for the first policy itself.
    pub base: Option<usize>,
}

impl Combination {
    /// Returns the cross product of these policies with their windows and the memory sizes.
    ///
    /// # Panics
    ///
    /// If there is no policy, or if a policy reappears after another one.
    #[must_use]
    pub fn all(policies: &[(Policy, Option<ByteCount>)], memories: &[ByteCount]) -> Vec<Self> {
        let windows: Vec<&[(Policy, Option<ByteCount>)]> =
            policies.chunk_by(|one, next| one.0 == next.0).collect();
        let of_first = windows.first().expect("something is compared").len();
        let mut all = Vec::new();
        for memory in memories {
            let first = all.len();
            for (at, windows) in windows.iter().enumerate() {
                assert!(at == 0 || windows[0].0 != policies[0].0, "a policy comes once");
                for (nth, (policy, max_window)) in windows.iter().enumerate() {
                    let base = (at > 0).then(|| first + nth.min(of_first - 1));
                    let (policy, max_window, memory) = (*policy, *max_window, *memory);
                    all.push(Self { policy, max_window, memory, base });
                }
            }
        }
        all
    }

    /// Applies the combination to a scenario.
    pub fn set(&self, scenario: &mut Scenario) {
        scenario.cache.policy = PolicyName(self.policy);
        scenario.cache.max_window = Some(self.max_window.into());
        scenario.cache.memory = Size(self.memory);
    }
}

/// Runs each combination with each seed, on the given number of threads. Rows are in the order of
/// the combinations. `keeps` selects the data kept per run; `begun` receives the number of runs
/// that have begun, and the combination and seed of the latest.
///
/// # Panics
///
/// If there is no seed, or a combination does not fit the scenario: see [`Scenario::check`].
pub fn run_all(
    scenario: &Scenario,
    combinations: &[Combination],
    seeds: &[u64],
    keeps: RunKeeps,
    threads: usize,
    begun: &(dyn Fn(usize, &Combination, u64) + Sync),
) -> Vec<ComparisonRow> {
    let with_each = |combination| seeds.iter().map(move |seed| (combination, *seed));
    let jobs: Vec<(&Combination, u64)> = combinations.iter().flat_map(with_each).collect();
    let begun = |count: usize, (combination, seed): &(&Combination, u64)| {
        begun(count, combination, *seed);
    };
    let bounding = Mutex::new(());
    let runs = run_in_order(&jobs, threads, &begun, &|(combination, seed)| {
        let mut scenario = scenario.clone();
        combination.set(&mut scenario);
        scenario.seed = *seed;
        ComparedRun::of(&scenario, keeps, &bounding)
    });
    let runs: Vec<&[ComparedRun]> = runs.chunks(seeds.len()).collect();
    let row = |(combination, own): (&Combination, &&[ComparedRun])| {
        let base = combination.base.map(|base| runs[base]);
        ComparisonRow::new(&scenario.name, combination, own, base)
    };
    combinations.iter().zip(&runs).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Option<ByteCount> = Some(ByteCount(128 << 10));
    const LARGE: Option<ByteCount> = Some(ByteCount(1 << 20));

    fn bases(policies: &[(Policy, Option<ByteCount>)], memories: usize) -> Vec<Option<usize>> {
        let memories: Vec<_> = (1..=memories as u64).map(|mib| ByteCount(mib << 20)).collect();
        Combination::all(policies, &memories).iter().map(|of| of.base).collect()
    }

    #[test]
    fn each_policy_is_compared_with_the_first_at_the_same_memory_and_window() {
        let (linux, adaptive) = (Policy::Linux6, Policy::Adaptive);
        let two = [(linux, SMALL), (linux, LARGE), (adaptive, SMALL), (adaptive, LARGE)];
        let of_first = [None, None, Some(0), Some(1)];
        assert_eq!(bases(&two, 2), [&of_first[..], &[None, None, Some(4), Some(5)]].concat());
        // `none` ignores the window, so its single run is the baseline for both windows.
        let first = [(Policy::None, SMALL), (linux, SMALL), (linux, LARGE)];
        assert_eq!(bases(&first, 1), [None, Some(0), Some(0)]);
        let last = [(linux, SMALL), (linux, LARGE), (Policy::None, SMALL)];
        assert_eq!(bases(&last, 1), [None, None, Some(0)]);
        assert_eq!(bases(&two[..2], 2), [None; 4], "there is nothing to compare one policy with");
    }
}
