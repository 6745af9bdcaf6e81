//! Twice the read: a window covers the read, and the same amount again ahead.
//!
//! Source: none, this is the example of docs/lab/simulator.md.

use foreread_core::prefetch::{Ask, CustomPolicy, Decision, Residency, StreamState, WindowLimits};

use super::{continues, first, is_of, only_the_read, subsequent};

#[derive(Debug)]
pub(super) struct Twice;

impl CustomPolicy for Twice {
    fn name(&self) -> &'static str {
        "twice"
    }

    fn decide(
        &self,
        state: &mut StreamState,
        ask: Ask,
        limits: WindowLimits,
        _cache: &dyn Residency,
    ) -> Option<Decision> {
        let (last, read) = (state.window, ask.count.0);
        if is_of(last, ask.page) {
            return subsequent(ask, last, 2 * read, read, limits.max);
        }
        if continues(ask) {
            return first(ask, 2 * read, read, limits.max);
        }
        only_the_read(ask)
    }
}
