//! Streams of one file that reach each other's position.

use crate::prefetch::streams::{StreamSlot, Streams};
use crate::units::{PageIndex, Pages};

/// Returns true if another stream's window ends at the hole. The two streams then become one.
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

/// Returns how many of `size` pages from `hole` on come before the start of the next stream, or
/// None if it starts there.
///
/// ```text
///   a at its marker      |#==========|-- size --|..........|
///   b                                           ^began     |#======|
/// ```
///
/// Readers of parts of a file each stop at the start of the next part. Pages of a window beyond
/// that are wasted, and windows on remote devices are large.
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
