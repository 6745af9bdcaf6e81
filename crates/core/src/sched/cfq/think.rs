//! How long a submitter thinks between the end of a request and its next one.
//!
//! In:    ends and beginnings.
//! Out:   whether the mean is below a bound.
//! Never: more memory than three numbers: each sample weighs an eighth, the older ones the rest.

use crate::units::Nanos;

/// A mean that forgets.
#[derive(Debug, Default)]
pub(super) struct ThinkTime {
    left: Option<Nanos>,
    /// The weights of all samples, in 256ths.
    weight: u64,
    /// The weighted samples, in 256ths of a nanosecond.
    total: u64,
}

impl ThinkTime {
    /// A request has ended.
    pub(super) fn left(&mut self, now: Nanos) {
        self.left = Some(now);
    }

    /// A request came; a longer time than `longest_ns` counts as that, lest one pause decide.
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

    /// Whether the mean is at most this; true with too few samples.
    pub(super) fn is_at_most(&self, ns: u64) -> bool {
        self.weight <= KNOWN || self.total / self.weight <= ns
    }
}

/// Three samples have more weight.
const KNOWN: u64 = 80;
