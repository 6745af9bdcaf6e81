//! `linux-2.6.28`: read-ahead before it used the page cache's history.
//!
//! Two streams that take turns through one open file always look random.

use foreread_core::prefetch::sizes;
use foreread_core::prefetch::{
    Ask, CustomPolicy, Decision, Pattern, Residency, StreamState, Trigger, Window, WindowLimits,
};
use foreread_core::units::{ByteCount, PAGE_SIZE, PageIndex, Pages};

/// The policy `linux-2.6.28`.
#[derive(Debug)]
pub(super) struct Linux2_6_28;

impl CustomPolicy for Linux2_6_28 {
    fn name(&self) -> &'static str {
        "linux-2.6.28"
    }

    /// The first rule that matches decides.
    ///
    /// ```text
    ///   1  the page where the last window expects its reader        subsequent
    ///   2  a miss, and the read does not follow the last one        random
    ///   3  a marker, but not where the state expects one            interleaved
    ///   4  a miss next to the last read, or larger than any window  initial, oversize
    /// ```
    ///
    /// There is no rule for the start of a file: the first read of a fresh stream at page 0 follows
    /// "the page before the first", any later one is random.
    fn decide(
        &self,
        state: &mut StreamState,
        ask: Ask,
        limits: WindowLimits,
        cache: &dyn Residency,
    ) -> Option<Decision> {
        let (last, max) = (state.window, limits.max);
        if ask.page != PageIndex(0) && is_expected(last, ask.page) {
            return Some(subsequent(last, max));
        }
        let follows = follows_previous_read(ask);
        match ask.trigger {
            Trigger::Miss if !follows && ask.count <= max => Some(Decision::random(ask, ask.count)),
            Trigger::Marker => {
                let start = cache.next_hole(ask.page, max + Pages(1))?;
                let size = sizes::next(start - ask.page, max);
                let window = Window { start, size, async_size: size };
                Some(Decision { pattern: Pattern::Interleaved, window })
            }
            Trigger::Miss => {
                let pattern = match ask.page {
                    PageIndex(0) => Pattern::Initial0,
                    _ if ask.count > max && !follows => Pattern::Oversize,
                    _ => Pattern::Initial,
                };
                Some(Decision { pattern, window: initial(ask, max) })
            }
        }
    }
}

/// Returns true at either end of the tail: the reader meets the marker or, if the marker was lost,
/// misses the page after the window.
pub(super) fn is_expected(last: Window, page: PageIndex) -> bool {
    page == last.expected() || page == last.end()
}

/// Returns the next window of a known stream: it begins at the end of the last one and is all tail.
pub(super) fn subsequent(last: Window, max: Pages) -> Decision {
    let size = sizes::next(last.size, max);
    let window = Window { start: last.end(), size, async_size: size };
    Decision { pattern: Pattern::Subsequent, window }
}

/// Returns a first window: the read and a tail. A read that fills the window leaves no tail, so the
/// marker is on its first page.
pub(super) fn initial(ask: Ask, max: Pages) -> Window {
    let size = sizes::initial(ask.count, max);
    let async_size = if size > ask.count { size - ask.count } else { size };
    Window { start: ask.page, size, async_size }
}

/// Returns true if the read begins in the last page of the previous one, or in the next page.
/// Before the first read, page 0 follows "page -1".
pub(super) fn follows_previous_read(ask: Ask) -> bool {
    const BEFORE_THE_FIRST: u64 = u64::MAX;
    let previous = match ask.prev_pos {
        None | Some(ByteCount(0)) => BEFORE_THE_FIRST,
        Some(ByteCount(end)) => (end - 1) / PAGE_SIZE,
    };
    ask.page.0.wrapping_sub(previous) <= 1
}
