//! Size of a window: by the known run lengths, or growing from the previous one.

use crate::prefetch::decision::{Allotment, Ask};
use crate::prefetch::policy::sizes;
use crate::units::Pages;

/// Returns the first window of a stream with a read of `count` pages.
pub(super) fn initial_size(count: Pages, allotment: Allotment) -> Pages {
    let Allotment { max, run, .. } = allotment;
    run.map_or_else(|| sizes::initial(count, max), |run| run.min(max))
}

/// Returns the window after one of `pace` pages.
pub(super) fn next_size(pace: Pages, allotment: Allotment) -> Pages {
    let Allotment { max, run, is_far, .. } = allotment;
    match run {
        Some(run) => run.min(max),
        None if is_far => Pages(pace.0.saturating_mul(FAR_GROWTH)).min(max),
        None => sizes::next(pace, max),
    }
}

/// Returns true if streams probably end with this read.
pub(super) fn is_all_wanted(ask: Ask, allotment: Allotment) -> bool {
    allotment.run.is_some_and(|run| run <= ask.count)
}

/// Growth on a remote device, where a window takes little longer than a quarter of it. The stream's
/// demand limits the waste ([`Allotment`]).
const FAR_GROWTH: u64 = 4;
