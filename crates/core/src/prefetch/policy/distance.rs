//! `distance`: the prefetch distance follows the stalls of the reader.
//!
//! Windows grow as with linux-6. The policy uses neither history nor memory shares.

use super::linux_6::follows_previous_read;
use crate::prefetch::decision::{Ask, Decision, Pattern, Residency, Trigger, Window, WindowLimits};
use crate::prefetch::policy::sizes;
use crate::prefetch::stream_state::Distance;
use crate::prefetch::stream_state::StreamState;
use crate::units::{PageIndex, Pages};

/// The first rule that matches decides.
///
/// ```text
///   miss    1  page 0                                            initial0
///           2  in the last window, or one past its end           subsequent, at the page
///           3  in or next to the last read                       initial
///           4  anything else                                     random
///   marker  1  where the last window expects its reader          subsequent, at its end
///           2  elsewhere                                         interleaved, at the first hole
/// ```
/// It keeps two numbers: the size of a request suits the device and always grows; the distance
/// suits the reader and grows only on a stall. A reader with a fast enough device holds no more
/// memory than necessary.
pub(super) fn decide(
    state: &mut StreamState,
    ask: Ask,
    limits: WindowLimits,
    cache: &impl Residency,
) -> Option<Decision> {
    let (max, last) = (limits.max, state.window);
    let goes_on = last.size > Pages::ZERO && (last.start..=last.end()).contains(&ask.page);
    let first = sizes::initial(ask.count, max);
    let next = sizes::next(last.size, max).max(first);
    let (pattern, start, size) = match ask.trigger {
        Trigger::Miss if ask.page == PageIndex(0) => (Pattern::Initial0, ask.page, first),
        Trigger::Miss if goes_on => (Pattern::Subsequent, ask.page, next),
        Trigger::Miss if follows_previous_read(ask) => (Pattern::Initial, ask.page, first),
        Trigger::Miss => return Some(Decision::random(ask, ask.count)),
        Trigger::Marker if last.marker() == Some(ask.page) => {
            (Pattern::Subsequent, last.end(), next)
        }
        Trigger::Marker => {
            let hole = cache.next_hole(ask.page + Pages(1), max)?;
            (Pattern::Interleaved, hole, sizes::next(hole - ask.page + ask.count, max))
        }
    };
    state.distance = state.distance.after(ask.has_waited, last.size, max);
    debug_assert!(state.distance.ahead <= max, "a distance is no longer than a window");
    let async_size = state.distance.ahead.min(size);
    Some(Decision { pattern, window: Window { start, size, async_size } })
}

impl Distance {
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
