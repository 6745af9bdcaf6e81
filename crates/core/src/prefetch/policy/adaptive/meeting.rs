//! Streams of one file that come to each other's place.
//!
//! In:    a window that is about to be decided; the other streams of the file.
//! Out:   whether two streams become one; where the window ends at the latest.
//! Never: a page of a cache.

use crate::prefetch::streams::{StreamSlot, Streams};
use crate::units::{PageIndex, Pages};

/// Whether the hole is where another stream's window ends. Two streams that meet become one.
///
/// ```text
///   a at its marker      |#==========|                    a becomes b: b's marker is on a's way
///   b's window                       |======#=======|
///
///   a at its marker      |#==========|===|                 b was one random read: a takes it in
/// ```
pub(super) fn meets_another(
    streams: &mut Streams,
    known: Option<StreamSlot>,
    page: PageIndex,
    hole: PageIndex,
    size: Pages,
) -> bool {
    let Some(place) = streams.ending_at(hole, page) else { return false };
    let mut other = *streams.get(place);
    if other.marker().is_none_or(|marker| marker <= page) {
        streams.remove(place);
        return false;
    }
    if let Some(known) = known {
        streams.remove(known);
    }
    other.pace = other.pace.max(size);
    streams.prove(place, other);
    true
}

/// How many of `size` pages from `hole` on come before the place where the next stream began; None
/// if it began there.
///
/// ```text
///   a at its marker      |#==========|-- size --|..........|
///   b                                           ^began     |#======|
/// ```
///
/// Readers that take a part of a file each stop where the next one began. What a window has beyond
/// that was read for nothing, and of a device that is far away windows are large.
pub(super) fn until_another(
    next: Option<PageIndex>,
    hole: PageIndex,
    size: Pages,
) -> Option<Pages> {
    let Some(begun) = next.filter(|begun| *begun < hole + size) else { return Some(size) };
    let left = begun.0.saturating_sub(hole.0);
    debug_assert!(left <= size.0, "it began in the window");
    (left > 0).then_some(Pages(left))
}
