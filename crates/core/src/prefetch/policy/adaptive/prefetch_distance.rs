//! The prefetch distance: how many pages are still ahead of a reader when it asks for more.
//!
//! In:    a window; the distance that the stream's share of the memory allows.
//! Out:   how much of the window lies behind its marker.
//! Never: a window without a marker, unless nothing of it is read ahead.

use crate::units::Pages;

/// How many pages are to be ahead of a reader when it asks for more; None: as many as can be.
pub(super) type PrefetchDistance = Option<Pages>;

/// How much of `ahead` pages is still there when the reader asks for more: all of it, or its
/// distance.
pub(super) fn tail(ahead: Pages, distance: PrefetchDistance) -> Pages {
    let left = distance.map_or(ahead, |distance| ahead.min(distance.max(Pages(1))));
    debug_assert!(left <= ahead, "no more is left than was read ahead");
    left
}
