//! How large a window is: as much as streams are known to run, or growing from the one before.
//!
//! In:    what a stream may have ([`Allotment`]); its read, or its last window.
//! Out:   a size, no larger than it may have.
//! Never: a page of a cache.

use crate::prefetch::decision::{Allotment, Ask};
use crate::prefetch::policy::sizes;
use crate::units::Pages;

/// The first window of a stream whose read has so many pages.
pub(super) fn initial_size(count: Pages, allotment: Allotment) -> Pages {
    let Allotment { max, run, .. } = allotment;
    run.map_or_else(|| sizes::initial(count, max), |run| run.min(max))
}

/// The window after one of `pace` pages.
pub(super) fn next_size(pace: Pages, allotment: Allotment) -> Pages {
    let Allotment { max, run, is_far, .. } = allotment;
    match run {
        Some(run) => run.min(max),
        None if is_far => Pages(pace.0.saturating_mul(FAR_GROWTH)).min(max),
        None => sizes::next(pace, max),
    }
}

/// Whether streams are likely to end with this read.
pub(super) fn is_all_wanted(ask: Ask, allotment: Allotment) -> bool {
    allotment.run.is_some_and(|run| run <= ask.count)
}

/// On a device that is far away a window costs little more time than a quarter of it: what may be
/// wasted is bounded by what its stream wants ([`Allotment`]).
const FAR_GROWTH: u64 = 4;
