//! `fixed`: windows of one size, each requested when the reader enters the previous one.
//!
//! There is no ramp and no history, and memory does not limit the window.

use foreread_core::prefetch::{
    Ask, CustomPolicy, Decision, Pattern, Residency, StreamState, Trigger, Window, WindowLimits,
};
use foreread_core::units::{PageIndex, Pages};

use super::continues;

/// The policy `fixed`.
#[derive(Debug)]
pub(super) struct Fixed;

impl CustomPolicy for Fixed {
    fn name(&self) -> &'static str {
        "fixed"
    }

    /// The first rule that matches decides.
    ///
    /// ```text
    ///   miss    1  page 0                                           initial0
    ///           2  one past the end of the last window              subsequent
    ///           3  in or next to the last read                      initial
    ///           4  anything else                                    random
    ///   marker  1  where the last window expects its reader         subsequent
    ///           2  elsewhere                                        interleaved, at the first hole
    ///
    ///   |<------ max ------>|<------ max ------>|
    ///   #===================#===================|
    ///   ^page               ^brought by the marker on its first page, at once
    /// ```
    ///
    /// The behaviour of a program that only knows how many bytes to read ahead.
    fn decide(
        &self,
        state: &mut StreamState,
        ask: Ask,
        limits: WindowLimits,
        cache: &dyn Residency,
    ) -> Option<Decision> {
        let last = state.window;
        let size = limits.max;
        debug_assert!(size > Pages::ZERO, "switched off, no window is decided");
        let goes_on = last.size > Pages::ZERO && ask.page == last.end();
        let (pattern, start) = match ask.trigger {
            Trigger::Miss if ask.page == PageIndex(0) => (Pattern::Initial0, ask.page),
            Trigger::Miss if goes_on => (Pattern::Subsequent, ask.page),
            Trigger::Miss if continues(ask) => (Pattern::Initial, ask.page),
            Trigger::Miss => return Some(Decision::random(ask, ask.count)),
            Trigger::Marker if last.marker() == Some(ask.page) => (Pattern::Subsequent, last.end()),
            Trigger::Marker => (Pattern::Interleaved, cache.next_hole(ask.page + Pages(1), size)?),
        };
        Some(Decision { pattern, window: Window { start, size, async_size: size } })
    }
}
