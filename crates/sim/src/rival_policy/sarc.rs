//! SARC's prefetching: a track whose two neighbours before it are cached is sequential, and the
//! tracks behind it are read ahead in groups of one size.
//!
//! ```text
//!   tracks of 64K     |cached|cached|x missing|== group: m tracks ==|== group ==|
//!                                                        ^ trigger: the next group is read
//! ```
//!
//! Source: Gill and Modha, "SARC: Sequential Prefetching in Adaptive Replacement Cache", USENIX ATC
//! 2005, sections on sequential detection and on synchronous and asynchronous prefetching. Its
//! replacement is the eviction policy `sarc`, another file. Differences: a track is cached when all
//! of its pages are, because the counter that the paper keeps with each track is counted from what
//! is resident; a group has as many tracks as the largest window, and its trigger is in the middle.

use foreread_core::prefetch::{
    Ask, CustomPolicy, Decision, Pattern, Residency, StreamState, Trigger, WindowLimits,
};
use foreread_core::units::{PageIndex, Pages};

use super::{only_the_read, window};

#[derive(Debug)]
pub(super) struct Sarc;

/// Pages of a track of the paper's storage controller.
const TRACK: u64 = 16;

/// So many tracks before one must be cached: the paper's `seqThreshold`.
const SEQ_THRESHOLD: u64 = 2;

impl CustomPolicy for Sarc {
    fn name(&self) -> &'static str {
        "sarc"
    }

    fn decide(
        &self,
        _state: &mut StreamState,
        ask: Ask,
        limits: WindowLimits,
        cache: &dyn Residency,
    ) -> Option<Decision> {
        let group = (limits.max.0 / TRACK * TRACK).max(TRACK);
        let page = ask.page.0;
        let track = page / TRACK;
        let (start, size) = if ask.trigger == Trigger::Marker {
            // The next group begins where this one ends, whichever handle read it.
            (cache.next_hole(ask.page, Pages(2 * group))?, group)
        } else {
            let from = track.checked_sub(SEQ_THRESHOLD).map(|first| page - first * TRACK);
            let is_sequential =
                from.is_some_and(|before| cache.history(ask.page, Pages(before)).0 >= before);
            if !is_sequential {
                return only_the_read(ask);
            }
            let group_end = PageIndex((track + 1) * TRACK + group);
            (ask.page, (group_end - ask.page).0)
        };
        let window = window(start, size.max(1), group / 2, limits.max);
        Some(Decision { pattern: Pattern::Context, window })
    }
}
