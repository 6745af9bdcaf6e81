//! SARC's prefetching: a track whose two predecessors are cached is sequential, and the following
//! tracks are prefetched in groups of a fixed size.
//!
//! ```text
//!   tracks of 64K     |cached|cached|x missing|== group: m tracks ==|== group ==|
//!                                                        ^ trigger: the next group is read
//! ```
//!
//! Source: Gill and Modha, "SARC: Sequential Prefetching in Adaptive Replacement Cache", USENIX ATC
//! 2005, sections on sequential detection and on synchronous and asynchronous prefetching. Its
//! replacement is a separate policy, the eviction policy `sarc`. Differences: a track counts as
//! cached if all of its pages are, because the paper's per-track counter is derived from the
//! resident pages; a group is as large as the largest window, and its trigger is in the middle.

use foreread_core::prefetch::{
    Ask, CustomPolicy, Decision, Pattern, Residency, StreamState, Trigger, WindowLimits,
};
use foreread_core::units::{PageIndex, Pages};

use super::{only_the_read, window};

#[derive(Debug)]
pub(super) struct Sarc;

/// Pages of a track of the paper's storage controller.
const TRACK: u64 = 16;

/// Number of preceding tracks that must be cached: the paper's `seqThreshold`.
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
            // The next group starts at the end of this one, even if another handle read it.
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
