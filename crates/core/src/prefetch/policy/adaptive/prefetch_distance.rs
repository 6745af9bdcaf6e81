//! Prefetch distance: the pages still ahead of a reader when it requests the next window.

use crate::units::Pages;

/// Prefetch distance in pages; None for the largest possible.
pub(super) type PrefetchDistance = Option<Pages>;

/// Returns how many of `ahead` pages are left when the reader requests more: all, or its distance.
pub(super) fn tail(ahead: Pages, distance: PrefetchDistance) -> Pages {
    let left = distance.map_or(ahead, |distance| ahead.min(distance.max(Pages(1))));
    debug_assert!(left <= ahead, "no more is left than was read ahead");
    left
}
