//! Policies from outside this crate: those of old kernels and of other software in the simulator.
//!
//! They have no built-in name, so [`Policy::from_name`] does not find them.
//!
//! [`Policy::from_name`]: super::Policy::from_name

use core::fmt;
use core::hash::{Hash, Hasher};

use crate::prefetch::decision::{Ask, Decision, Residency, WindowLimits};
use crate::prefetch::stream_state::StreamState;
use crate::units::Pages;

/// A read-ahead policy from outside this crate.
///
/// Its state for a stream is in [`StreamState`]: the last window, and
/// [`memory`](StreamState::memory), which is all zeros before the first question.
pub trait CustomPolicy: fmt::Debug + Send + Sync {
    /// Returns the name in tables. Policies of the same name count as equal.
    fn name(&self) -> &'static str;

    /// Returns the largest window for a question; a larger one is cut.
    fn largest(&self, ask: Ask, limits: WindowLimits) -> Pages {
        limits.max.max(ask.count)
    }

    /// Decides the next window of a stream, or None for no read-ahead. `limits.max` is not 0.
    fn decide(
        &self,
        state: &mut StreamState,
        ask: Ask,
        limits: WindowLimits,
        cache: &dyn Residency,
    ) -> Option<Decision>;
}

impl PartialEq for dyn CustomPolicy {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for dyn CustomPolicy {}

impl Hash for dyn CustomPolicy {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}
