//! A policy from outside of this crate: what the simulator compares `adaptive` with.
//!
//! In:    the questions of the built-in policies.
//! Out:   their answers.
//! Never: a policy that the library offers by name: [`Policy::from_name`] knows the built-in ones.
//!
//! [`Policy::from_name`]: super::Policy::from_name

use core::fmt;
use core::hash::{Hash, Hasher};

use crate::prefetch::decision::{Ask, Decision, Residency, WindowLimits};
use crate::prefetch::stream_state::StreamState;

/// A read-ahead policy that is not one of this crate's.
///
/// What it remembers of a stream is in [`StreamState`]: its last window, and
/// [`memory`](StreamState::memory), which is all zeros before its first question.
pub trait CustomPolicy: fmt::Debug + Send + Sync {
    /// The name in tables. Policies of the same name count as equal.
    fn name(&self) -> &'static str;

    /// Decides the next window of a stream; None: nothing to read ahead. `limits.max` is not 0, and
    /// a window that is larger is cut.
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
