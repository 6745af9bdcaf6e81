//! `linux-2.6.31`: the page cache's history replaces lost stream state.
//!
//! It gives the windows of linux-2.6.28 for one stream, and finds interleaved and cooperating
//! streams from their second page on. Searches cover one window at most.

use super::linux_2_6_28::{follows_previous_read, initial, is_expected, subsequent};
use foreread_core::prefetch::sizes;
use foreread_core::prefetch::{
    Ask, CustomPolicy, Decision, Pattern, Residency, StreamState, Trigger, Window, WindowLimits,
};
use foreread_core::units::{PageIndex, Pages};

/// The policy `linux-2.6.31`.
#[derive(Debug)]
pub(super) struct Linux2_6_31;

impl CustomPolicy for Linux2_6_31 {
    fn name(&self) -> &'static str {
        "linux-2.6.31"
    }

    fn largest(&self, ask: Ask, limits: WindowLimits) -> Pages {
        largest_when_merged(ask, limits)
    }

    /// The first rule that matches decides.
    ///
    /// ```text
    ///   1  page 0                                              initial0
    ///   2  the page where the last window expects its reader   subsequent
    ///   3  a marker, but not where the state expects one       interleaved
    ///   4  a read larger than any window                       oversize
    ///   5  a miss in or next to the last read                  initial
    ///   6  a miss with resident pages just before it           context
    ///   7  anything else                                       random
    /// ```
    fn decide(
        &self,
        state: &mut StreamState,
        ask: Ask,
        limits: WindowLimits,
        cache: &dyn Residency,
    ) -> Option<Decision> {
        let (last, max) = (state.window, limits.max);
        let decision = if ask.page == PageIndex(0) {
            Decision { pattern: Pattern::Initial0, window: initial(ask, max) }
        } else if is_expected(last, ask.page) {
            subsequent(last, max)
        } else if ask.trigger == Trigger::Marker {
            Decision { pattern: Pattern::Interleaved, window: after_hole(ask, max, cache)? }
        } else if ask.count > max {
            Decision { pattern: Pattern::Oversize, window: initial(ask, max) }
        } else if follows_previous_read(ask) {
            Decision { pattern: Pattern::Initial, window: initial(ask, max) }
        } else if let Some(window) = context(ask, max, cache) {
            Decision { pattern: Pattern::Context, window }
        } else {
            return Some(Decision::random(ask, ask.count));
        };
        Some(Decision {
            window: merged_with_its_successor(decision.window, ask.page, max),
            ..decision
        })
    }
}

/// Returns the window of a stream with lost state but a marker.
///
/// ```text
///          |<- ahead: the old window ->|<----- new window ----->|
///   -------#===========================|------------------------|
///          ^page                       ^hole
/// ```
///
/// The pages from the marker to the first hole were put there by this reader's own, forgotten
/// window: their number, plus the current read, shows how large that window was.
fn after_hole(ask: Ask, max: Pages, cache: &dyn Residency) -> Option<Window> {
    let start = cache.next_hole(ask.page + Pages(1), max)?;
    debug_assert!(start > ask.page, "a page with a marker is resident");
    let size = sizes::next(start - ask.page + ask.count, max);
    Some(Window { start, size, async_size: size })
}

/// Returns the window of a stream without state, recognised by its history.
///
/// ```text
///    |<- history ->|<--- size = initial(history + count) --->|
///   -|=============|=========================================|
///                  ^page
/// ```
///
/// The pages still resident behind a reader have survived since it passed them, so as many ahead of
/// it will survive until it arrives. A history that reaches the start of the file was cut off
/// there, not by eviction, and counts twice.
fn context(ask: Ask, max: Pages, cache: &dyn Residency) -> Option<Window> {
    let mut history = cache.history(ask.page, max);
    if history == Pages::ZERO {
        return None;
    }
    if history.0 >= ask.page.0 {
        history += history;
    }
    let size = sizes::initial(history + ask.count, max);
    Some(Window { start: ask.page, size, async_size: size })
}

/// Returns the largest window: one of the limit and its successor.
pub(super) fn largest_when_merged(ask: Ask, limits: WindowLimits) -> Pages {
    (limits.max + limits.max).max(ask.count)
}

/// Extends a window by its successor if the reader would meet the marker on the page it is reading:
/// a second request for the same page would only split the first. The sum may exceed `max`.
pub(super) fn merged_with_its_successor(window: Window, page: PageIndex, max: Pages) -> Window {
    if window.start != page || window.size != window.async_size {
        return window;
    }
    let next = sizes::next(window.size, max);
    Window { size: window.size + next, async_size: next, ..window }
}
