//! A policy and its settings, for a run of a scenario.

use foreread_core::prefetch::{AdaptivePart, Policy, Without};
use foreread_core::units::ByteCount;

use crate::scenario::{PolicyName, Scenario};

/// Policy and settings of a run.
#[derive(Clone, Debug)]
pub struct PolicySetup {
    /// Read-ahead policy.
    pub policy: Policy,
    /// Largest window; None: learnt.
    pub max_window: Option<ByteCount>,
    /// Disabled parts.
    pub without: Without,
}

impl PolicySetup {
    /// Applies the setup to a scenario.
    pub fn set(&self, scenario: &mut Scenario) {
        scenario.cache.policy = PolicyName(self.policy);
        scenario.cache.max_window = Some(self.max_window.into());
        scenario.cache.without = self.without;
    }

    /// Returns `adaptive` and its ablations: each combination of the parts that determine window
    /// sizes, each of the other parts alone, and all of them. Few disabled parts come first.
    #[must_use]
    pub fn ablations() -> Vec<Self> {
        let (of_windows, others) = AdaptivePart::ALL.split_at(OF_WINDOWS);
        let combination = |bits: u32| {
            let is_out = |at: &usize| bits & 1 << at != 0;
            (0..OF_WINDOWS).filter(is_out).map(|at| of_windows[at]).collect()
        };
        let mut all: Vec<Without> = (0..1 << OF_WINDOWS).map(combination).collect();
        all.extend(others.iter().map(|part| Without::from_iter([*part])));
        all.push(AdaptivePart::ALL.into_iter().collect());
        all.sort_by_key(|without| without.parts().count());
        let how = |without| Self { policy: Policy::Adaptive, max_window: None, without };
        all.into_iter().map(how).collect()
    }
}

/// The first parts of [`AdaptivePart::ALL`] determine window sizes, and interact. The others
/// determine the dispatch of requests and the ends of windows.
const OF_WINDOWS: usize = 4;
