//! `linux-6`: decisions of Linux 6.16 and later on mappings without large folios.
//!
//! It has the ramp of linux-2.6.31, but finds streams by history on their third page instead of
//! their second, and ends windows of a marker on multiples of four pages. A first window exceeds
//! `max` only for a large read that the device takes as one request; the stream then keeps windows
//! of that size.

use crate::prefetch::decision::{Ask, Decision, Pattern, Residency, Trigger, Window, WindowLimits};
use crate::prefetch::policy::sizes;
use crate::units::{ByteCount, PageIndex, Pages};

/// Misses and markers have separate rules. The first rule that matches decides.
///
/// ```text
///   miss    1  page 0                                         initial0
///           2  a read larger than any window                  oversize
///           3  in or next to the last read                    initial
///           4  more resident pages before it than it asks     context
///           5  anything else                                  random
///   marker  1  where the last window expects its reader       subsequent
///           2  elsewhere                                      interleaved
/// ```
///
/// Switched off (`max` 0), each miss reads its one page.
pub(super) fn decide(
    last: Window,
    ask: Ask,
    limits: WindowLimits,
    cache: &impl Residency,
) -> Option<Decision> {
    if limits.max == Pages::ZERO {
        return (ask.trigger == Trigger::Miss).then(|| Decision::random(ask, Pages(1)));
    }
    let max = sizes::largest(ask.count, limits);
    match ask.trigger {
        Trigger::Miss => Some(on_miss(ask, max, cache)),
        Trigger::Marker => on_marker(last, ask, max, cache),
    }
}

fn on_miss(ask: Ask, max: Pages, cache: &impl Residency) -> Decision {
    let pattern = match ask.page {
        PageIndex(0) => Pattern::Initial0,
        _ if ask.count > max => Pattern::Oversize,
        _ if follows_previous_read(ask) => Pattern::Initial,
        _ => {
            return match context(ask, max, cache) {
                Some(window) => Decision { pattern: Pattern::Context, window },
                None => Decision::random(ask, ask.count),
            };
        }
    };
    let size = sizes::initial(ask.count, max);
    // A read that fills its window gets the marker in the middle, so that the next window is in
    // flight while the second half of this one is copied.
    let async_size = if size > ask.count { size - ask.count } else { Pages(size.0 / 2) };
    Decision { pattern, window: Window { start: ask.page, size, async_size } }
}

/// Returns the window of a stream without state, recognised by its history.
///
/// ```text
///    |<- history ->|<-- size = history + count -->|
///   -|=============|============================#=|     the marker is on the last page
///                  ^page
/// ```
///
/// More careful than linux-2.6.31: two neighbouring pages of a random load are no stream yet, and
/// the first window grows to the size of the history at most; the marker path ramps it up from
/// there. History is counted to one page less than a window, so windows of one page never find a
/// stream.
fn context(ask: Ask, max: Pages, cache: &impl Residency) -> Option<Window> {
    let mut history = cache.history(ask.page, max.saturating_sub(Pages(1)));
    if history <= ask.count {
        return None;
    }
    if history.0 >= ask.page.0 {
        history += history;
    }
    let size = (history + ask.count).min(max);
    Some(Window { start: ask.page, size, async_size: Pages(1) })
}

fn on_marker(last: Window, ask: Ask, max: Pages, cache: &impl Residency) -> Option<Decision> {
    let (pattern, window) = if ask.page == last.expected() {
        let size = sizes::next(last.size, max).max(last.size);
        (Pattern::Subsequent, Window { start: last.end(), size, async_size: size })
    } else {
        (Pattern::Interleaved, after_hole(ask, max, cache)?)
    };
    Some(Decision { pattern, window: ending_aligned(window, max) })
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
fn after_hole(ask: Ask, max: Pages, cache: &impl Residency) -> Option<Window> {
    let start = cache.next_hole(ask.page + Pages(1), max)?;
    debug_assert!(start > ask.page, "a page with a marker is resident");
    let size = sizes::next(start - ask.page + ask.count, max);
    Some(Window { start, size, async_size: size })
}

/// Shortens a window to end on a multiple of four pages (or of the largest power of two that
/// divides `max`), unless nothing would be left.
///
/// ```text
///     6    8         12
///   --|====|==========|      6+4 becomes 6+2
/// ```
fn ending_aligned(window: Window, max: Pages) -> Window {
    let align = 1 << ALIGN_ORDER.min(max.0.trailing_zeros());
    let end = window.end().0 / align * align;
    if end <= window.start.0 {
        return window;
    }
    let size = Pages(end - window.start.0);
    debug_assert!(size <= window.size, "a window that ends aligned is shortened");
    Window { size, async_size: size, ..window }
}

/// Returns true if the read begins in the page of the first byte after the previous read, or in the
/// next page. (Up to Linux 5.10 the last byte returned counted instead.)
pub(super) fn follows_previous_read(ask: Ask) -> bool {
    const BEFORE_THE_FIRST: u64 = u64::MAX;
    let previous = ask.prev_pos.map_or(BEFORE_THE_FIRST, |ByteCount(end)| ByteCount(end).page().0);
    ask.page.0.wrapping_sub(previous) <= 1
}

/// Without large folios a marker raises the order of the next folio to 2, and submission resets it:
/// windows end on multiples of 2^2 pages.
const ALIGN_ORDER: u32 = 2;
