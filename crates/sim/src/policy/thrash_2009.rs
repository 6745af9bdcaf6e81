//! `thrash-2009`: prefetch no more than the surviving history proves safe.
//!
//! It ignores the stream's state while the previous page is resident; otherwise it is linux-2.6.31.

use super::linux_2_6_31::{Linux2_6_31, largest_when_merged};
use foreread_core::prefetch::{
    Ask, CustomPolicy, Decision, Pattern, Residency, StreamState, Window, WindowLimits,
};
use foreread_core::units::Pages;

/// The policy `thrash-2009`.
#[derive(Debug)]
pub(super) struct Thrash2009;

impl CustomPolicy for Thrash2009 {
    fn name(&self) -> &'static str {
        "thrash-2009"
    }

    fn largest(&self, ask: Ask, limits: WindowLimits) -> Pages {
        largest_when_merged(ask, limits)
    }

    /// ```text
    ///   |<------- reach: 27 ------->|<------- reach: 27 ------->|
    ///   |<---- history: 26 ---->|pg |<- ahead: 12 ->|<- new: 14 ->|
    ///   |=======================|===|===============|-------------|
    ///   0                       26                  39            53
    /// ```
    ///
    /// The pages behind `page` have survived since the reader passed them, so as many ahead of it
    /// will survive until the reader arrives. Pages already ahead count.
    fn decide(
        &self,
        state: &mut StreamState,
        ask: Ask,
        limits: WindowLimits,
        cache: &dyn Residency,
    ) -> Option<Decision> {
        let max = limits.max;
        let history = cache.history(ask.page, Pages(max.0 * LOOK_BACK));
        if history == Pages::ZERO {
            return Linux2_6_31.decide(state, ask, limits, cache);
        }
        let start = cache.next_hole(ask.page, max)?;
        let reach = history + Pages(1);
        let end = ask.page + reach;
        if end <= start {
            return None;
        }
        debug_assert!(start >= ask.page, "a window begins at the page or behind it");
        let size = (end - start).min(max);
        let window = Window { start, size, async_size: size };
        Some(Decision { pattern: Pattern::Context, window })
    }
}

/// Windows to look back: the one being read, and one before it.
const LOOK_BACK: u64 = 2;
