//! `linux-2.6.31`: the page cache remembers what the stream's state forgot.
//!
//! In:    the same as linux-2.6.28, and the history: the resident pages just before a miss.
//! Out:   the same windows for one stream; for interleaved and cooperating ones a window from their
//!        second page on.
//! Never: a search longer than one window.

use super::linux_2_6_28::{follows_previous_read, initial, is_expected, subsequent};
use crate::prefetch::decision::{Ask, Decision, Pattern, Residency, Trigger, Window, WindowLimits};
use crate::prefetch::policy::sizes;
use crate::units::{PageIndex, Pages};

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
pub(super) fn decide(
    last: Window,
    ask: Ask,
    limits: WindowLimits,
    cache: &impl Residency,
) -> Option<Decision> {
    let max = limits.max;
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
    Some(Decision { window: merged_with_its_successor(decision.window, ask.page, max), ..decision })
}

/// The window of a stream whose state is lost but whose marker is found.
///
/// ```text
///          |<- ahead: the old window ->|<----- new window ----->|
///   -------#===========================|------------------------|
///          ^page                       ^hole
/// ```
///
/// From the marker to the first hole lie the pages that this reader's own, forgotten window put
/// ahead of it: their number, and what it asks for this time, tell how large that window was.
pub(super) fn after_hole(ask: Ask, max: Pages, cache: &impl Residency) -> Option<Window> {
    let start = cache.next_hole(ask.page + Pages(1), max)?;
    debug_assert!(start > ask.page, "a page with a marker is resident");
    let size = sizes::next(start - ask.page + ask.count, max);
    Some(Window { start, size, async_size: size })
}

/// The window of a stream that only its history shows.
///
/// ```text
///    |<- history ->|<--- size = initial(history + count) --->|
///   -|=============|=========================================|
///                  ^page
/// ```
///
/// What is still resident behind a reader has survived since the reader passed, so as much again
/// ahead of it will survive until the reader comes. A history that reaches the start of the file
/// was cut off there, not by eviction, and counts twice.
fn context(ask: Ask, max: Pages, cache: &impl Residency) -> Option<Window> {
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

/// Adds the next window at once when the reader would meet its own marker on the page it is
/// reading: asking again for the same page would only split the request. The sum may exceed `max`.
pub(super) fn merged_with_its_successor(window: Window, page: PageIndex, max: Pages) -> Window {
    if window.start != page || window.size != window.async_size {
        return window;
    }
    let next = sizes::next(window.size, max);
    Window { size: window.size + next, async_size: next, ..window }
}
