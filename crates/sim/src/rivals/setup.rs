//! A policy and its settings, for a run of a scenario.

use foreread_core::prefetch::{AdaptivePart, Policy, Without};
use foreread_core::units::ByteCount;

use crate::scenario::{PolicyName, Scenario};

/// How a scenario is run.
#[derive(Clone, Debug)]
pub struct PolicySetup {
    /// The read-ahead policy.
    pub policy: Policy,
    /// The largest window; None: learnt.
    pub max_window: Option<ByteCount>,
    /// Parts that are left out.
    pub without: Without,
}

impl PolicySetup {
    /// Sets it in a scenario.
    pub fn set(&self, scenario: &mut Scenario) {
        scenario.cache.policy = PolicyName(self.policy);
        scenario.cache.max_window = Some(self.max_window.into());
        scenario.cache.without = self.without;
    }

    /// `adaptive`, and what is left of it without some of its parts: each combination of those that
    /// decide the sizes of windows, each of the others, and all of them. Few parts come first.
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

/// The first of [`AdaptivePart::ALL`] decide how large windows are, and change what each other
/// brings. The last decide how requests go to the device, and where they end.
const OF_WINDOWS: usize = 4;
