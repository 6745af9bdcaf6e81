//! A policy and its settings, for a run of a scenario.

use foreread_core::prefetch::Policy;
use foreread_core::units::ByteCount;

use crate::scenario::{PartName, PolicyName, Scenario};

/// How a scenario is run.
#[derive(Clone, Debug)]
pub struct PolicySetup {
    /// The read-ahead policy.
    pub policy: Policy,
    /// The largest window; None: learnt.
    pub max_window: Option<ByteCount>,
    /// Parts that are left out.
    pub without: Vec<PartName>,
}

impl PolicySetup {
    /// Sets it in a scenario.
    pub fn set(&self, scenario: &mut Scenario) {
        scenario.cache.policy = PolicyName(self.policy);
        scenario.cache.max_window = self.max_window.into();
        scenario.cache.without.clone_from(&self.without);
    }
}
