//! `distance`: the prefetch distance follows the stalls of the reader.
//!
//! Windows grow as with linux-6. The policy uses neither history nor memory shares.

use foreread_core::prefetch::sizes;
use foreread_core::prefetch::{
    Ask, CustomPolicy, Decision, Pattern, Residency, StreamState, Trigger, Window, WindowLimits,
};
use foreread_core::units::{PageIndex, Pages};

use super::continues;

/// The policy `distance`.
#[derive(Debug)]
pub(super) struct Distance;

impl CustomPolicy for Distance {
    fn name(&self) -> &'static str {
        "distance"
    }

    /// The first rule that matches decides.
    ///
    /// ```text
    ///   miss    1  page 0                                           initial0
    ///           2  in the last window, or one past its end          subsequent, at the page
    ///           3  in or next to the last read                      initial
    ///           4  anything else                                    random
    ///   marker  1  where the last window expects its reader         subsequent, at its end
    ///           2  elsewhere                                        interleaved, at the first hole
    /// ```
    /// It keeps two numbers: the size of a request suits the device and always grows; the distance
    /// suits the reader and grows only on a stall. A reader with a fast enough device holds no more
    /// memory than necessary.
    fn decide(
        &self,
        state: &mut StreamState,
        ask: Ask,
        limits: WindowLimits,
        cache: &dyn Residency,
    ) -> Option<Decision> {
        let (max, last) = (limits.max, state.window);
        let goes_on = last.size > Pages::ZERO && (last.start..=last.end()).contains(&ask.page);
        let first = sizes::initial(ask.count, max);
        let next = sizes::next(last.size, max).max(first);
        let (pattern, start, size) = match ask.trigger {
            Trigger::Miss if ask.page == PageIndex(0) => (Pattern::Initial0, ask.page, first),
            Trigger::Miss if goes_on => (Pattern::Subsequent, ask.page, next),
            Trigger::Miss if continues(ask) => (Pattern::Initial, ask.page, first),
            Trigger::Miss => return Some(Decision::random(ask, ask.count)),
            Trigger::Marker if last.marker() == Some(ask.page) => {
                (Pattern::Subsequent, last.end(), next)
            }
            Trigger::Marker => {
                let hole = cache.next_hole(ask.page + Pages(1), max)?;
                (Pattern::Interleaved, hole, sizes::next(hole - ask.page + ask.count, max))
            }
        };
        let Kept { ahead, holds } = Kept::of(state).after(ask.has_waited, last.size, max);
        debug_assert!(ahead <= max, "a distance is no longer than a window");
        [state.memory[AHEAD], state.memory[HOLDS]] = [ahead.0, holds.0];
        let async_size = ahead.min(size);
        Some(Decision { pattern, window: Window { start, size, async_size } })
    }
}

/// A stream's prefetch distance; zeros before its first window.
struct Kept {
    /// Pages still ahead when the next window is requested.
    ahead: Pages,
    /// Pages to read without a stall before the distance shrinks.
    holds: Pages,
}

/// Entries of the stream's memory.
const AHEAD: usize = 0;
const HOLDS: usize = 1;

impl Kept {
    const fn of(state: &StreamState) -> Self {
        Self { ahead: Pages(state.memory[AHEAD]), holds: Pages(state.memory[HOLDS]) }
    }

    /// Returns the distance after `read` pages.
    ///
    /// ```text
    ///   waited      1   2   4   8 .. max
    ///   did not     holds for max pages, and then a page less each window, down to 1
    /// ```
    ///
    /// It holds first, because a reader that has just stalled may be among pages resident by
    /// chance, and one stall costs more than many pages read too early.
    fn after(self, has_waited: bool, read: Pages, max: Pages) -> Self {
        let Self { ahead, holds } = self;
        if has_waited {
            return Self { ahead: (ahead + ahead).max(Pages(1)).min(max), holds: max };
        }
        let ahead = if holds > Pages::ZERO { ahead } else { ahead.saturating_sub(Pages(1)) };
        Self { ahead: ahead.max(Pages(1)).min(max), holds: holds.saturating_sub(read) }
    }
}
