//! Think time of a submitter between a completion and its next request, as a moving mean.

use crate::units::Nanos;

/// A moving mean, in which each new sample weighs an eighth.
#[derive(Debug, Default)]
pub(super) struct ThinkTime {
    left: Option<Nanos>,
    /// Weights of all samples, in 256ths.
    weight: u64,
    /// Weighted samples, in 256ths of a nanosecond.
    total: u64,
}

impl ThinkTime {
    /// Records a completion.
    pub(super) fn left(&mut self, now: Nanos) {
        self.left = Some(now);
    }

    /// Records the next request. Times are capped at `longest_ns`, so that one pause does not
    /// dominate.
    pub(super) fn came_back(&mut self, now: Nanos, longest_ns: u64) {
        let Some(left) = self.left else { return };
        let ns = now.0.saturating_sub(left.0).min(longest_ns);
        self.weight = (7 * self.weight + 256) / 8;
        debug_assert!(self.weight <= 256, "the weights of all samples are at most one");
        self.total = (7 * u128::from(self.total) + 256 * u128::from(ns))
            .div_ceil(8)
            .try_into()
            .unwrap_or(u64::MAX);
    }

    /// Returns true if the mean is at most `ns`, or there are too few samples.
    pub(super) fn is_at_most(&self, ns: u64) -> bool {
        self.weight <= KNOWN || self.total / self.weight <= ns
    }
}

/// Weight that three samples exceed.
const KNOWN: u64 = 80;
