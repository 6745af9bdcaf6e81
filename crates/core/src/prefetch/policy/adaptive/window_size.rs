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
    let Allotment { max, run, .. } = allotment;
    run.map_or_else(|| sizes::next(pace, max), |run| run.min(max))
}

/// Whether streams are likely to end with this read.
pub(super) fn is_all_wanted(ask: Ask, allotment: Allotment) -> bool {
    allotment.run.is_some_and(|run| run <= ask.count)
}
