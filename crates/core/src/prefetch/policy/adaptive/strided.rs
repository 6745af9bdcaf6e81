//! Streams that read a piece, skip a gap, and read the next piece.
//!
//! ```text
//!        every               piece
//!   |<---------->|          |<->|
//!   |===|--------|===|------|===|--------#===|--------|===|--------|===|
//!   two reads, in turn      ^page        ^marker      requested ahead
//! ```
//!
//! The gaps are not read, unless they are short.

use super::prefetch_distance::{PrefetchDistance, tail};
use super::window_size::next_size;
use super::{StreamDirection, StreamEntry, StreamSlot};
use crate::prefetch::decision::{Allotment, Ask, Decision, Pattern, Residency, Stride, Window};
use crate::prefetch::policy::sizes;
use crate::prefetch::streams::Streams;
use crate::units::{PageIndex, Pages};

/// Returns the first window of a stream if this random read is the third one of a stride: of the
/// same size as two before it, at the same distance.
///
/// ```text
///   the last reads     .. f1 . e1 d1 c1 . b1 . a1     a2 - a1 = a1 - a0 ?
///   this one, a2       ages: 1 and 2, 2 and 4, 3 and 6, 4 and 8
/// ```
///
/// Only streams that read in turn are recognised, to compare few reads. Of random reads of 4 KiB in
/// a file of 1 GiB, one in some millions looks like a stride by chance.
pub(super) fn begin(
    streams: &mut Streams,
    ask: Ask,
    max: Pages,
    distance: PrefetchDistance,
) -> Option<Decision> {
    let stride = stride(streams, ask)?;
    let size = sizes::initial(ask.count, max);
    let size = if size > ask.count { size - ask.count } else { size };
    let course = Course::new(stride, ask.count, max)?;
    let (window, entry) = course.around_read(ask, size.min(max), distance);
    streams.add_tentative(entry);
    Some(course.decision(window))
}

/// Returns the distance between the reads, if this is the third of a stream.
pub(super) fn stride(streams: &Streams, ask: Ask) -> Option<Pages> {
    (1..=TURNS_MAX).find_map(|turns| {
        let second = streams.recent(turns)?;
        let stride = ask.page.0.wrapping_sub(second.start.0);
        // Nearly every read ends here.
        if stride <= ask.count.0 || stride > STRIDE_MAX {
            return None;
        }
        let first = streams.recent(2 * turns)?;
        let is_alike = |entry: &StreamEntry| entry.end - entry.start == ask.count;
        let is_one =
            first.start + Pages(stride) == second.start && is_alike(second) && is_alike(first);
        is_one.then_some(Pages(stride))
    })
}

/// Returns the least that a stream reads ahead: one piece; 0 without gaps.
pub(super) fn least(known: &StreamEntry, max: Pages) -> Pages {
    Course::of(known, max).map_or(Pages::ZERO, |course| course.read)
}

/// Returns true if the piece before this page, which the reader has just used, is still resident.
pub(super) fn is_there(
    known: &StreamEntry,
    stride: Pages,
    page: PageIndex,
    cache: &impl Residency,
) -> bool {
    let end = page.0.checked_sub(stride.0).map(|start| start + u64::from(known.reads));
    end.is_some_and(|end| cache.history(PageIndex(end), Pages(1)) > Pages::ZERO)
}

/// Handles a miss where a stream is expected: it outran its marker, and continues with a larger
/// window.
///
/// None if a piece was evicted, which is then read again alone, with the rest of the window
/// unchanged; or if this read does not belong to the stream.
pub(super) fn go_on(
    streams: &mut Streams,
    place: StreamSlot,
    ask: Ask,
    allotment: Allotment,
) -> Option<Decision> {
    let Allotment { max, distance, .. } = allotment;
    let known = *streams.get(place);
    let course = Course::of(&known, max)?;
    if ask.page < known.end || ask.count != course.piece {
        return None;
    }
    let (window, entry) = course.around_read(ask, next_size(known.pace, allotment), distance);
    streams.prove(place, entry);
    Some(course.decision(window))
}

/// Handles a marker: the next window begins with the first missing piece.
pub(super) fn on_marker(
    streams: &mut Streams,
    place: StreamSlot,
    ask: Ask,
    allotment: Allotment,
    cache: &impl Residency,
) -> Option<Decision> {
    let Allotment { max, distance, .. } = allotment;
    let known = *streams.get(place);
    let size = next_size(known.pace, allotment);
    let course = Course::of(&known, max);
    let start = course.and_then(|course| {
        let pieces = (0..course.pieces(max)).map(|piece| known.end + course.all(piece));
        pieces.into_iter().find(|start| cache.next_hole(*start, Pages(1)).is_some())
    });
    let (Some(course), Some(start)) = (course, start) else {
        streams.remove(place);
        return None;
    };
    let (window, entry) = course.window(ask.page, start, course.pieces(size), size, distance);
    streams.prove(place, entry);
    Some(course.decision(window))
}

/// Course of a strided stream.
#[derive(Clone, Copy, Debug)]
struct Course {
    stride: Pages,
    /// Pages of a piece that the reader uses.
    piece: Pages,
    /// Pages read for a piece: the piece, or everything up to the next one.
    read: Pages,
}

impl Course {
    /// Creates a course. None if not even one piece fits a window, or its numbers do not fit an
    /// entry.
    fn new(stride: Pages, piece: Pages, max: Pages) -> Option<Self> {
        debug_assert!(piece < stride, "pieces of a strided stream do not touch");
        let gap = stride - piece;
        let is_short = gap <= piece && gap <= GAP_MAX && stride <= max;
        let read = if is_short { stride } else { piece };
        let fits = read <= max
            && StreamDirection::strided(stride).is_some()
            && u32::try_from(piece.0).is_ok();
        fits.then_some(Self { stride, piece, read })
    }

    fn of(known: &StreamEntry, max: Pages) -> Option<Self> {
        Self::new(known.way.stride()?, Pages(u64::from(known.reads)), max)
    }

    /// Returns the number of pieces in a window of `size` pages, at least one.
    fn pieces(self, size: Pages) -> u64 {
        (size.0 / self.read.0).max(1)
    }

    /// Returns the distance between pieces.
    fn all(self, pieces: u64) -> Pages {
        Pages(self.stride.0.saturating_mul(pieces))
    }

    /// Returns a window of the missed read and the pieces after it.
    fn around_read(
        self,
        ask: Ask,
        size: Pages,
        distance: PrefetchDistance,
    ) -> (Window, StreamEntry) {
        let pieces = self.pieces(size);
        let (ahead, entry) = self.window(ask.page, ask.page + self.stride, pieces, size, distance);
        let gap = ahead.start - ask.page;
        (Window { start: ask.page, size: gap + ahead.size, ..ahead }, entry)
    }

    /// Returns a window of `pieces` from `start` on, and its entry.
    fn window(
        self,
        page: PageIndex,
        start: PageIndex,
        pieces: u64,
        pace: Pages,
        distance: PrefetchDistance,
    ) -> (Window, StreamEntry) {
        debug_assert!(pieces > 0, "a window has at least one piece");
        let all = Pages(pieces * self.read.0);
        let left = tail(all, distance).0.div_ceil(self.read.0).clamp(1, pieces);
        let size = self.all(pieces - 1) + self.piece;
        let async_size = self.all(left - 1) + self.piece;
        let window = Window { start, size, async_size };
        let entry = StreamEntry::new(page, start + self.all(pieces), window.marker(), pace);
        let way = StreamDirection::strided(self.stride)
            .expect("a course has a stride that an entry can hold");
        let reads =
            u32::try_from(self.piece.0).expect("a course has a piece that an entry can hold");
        (window, entry.going(way, reads))
    }

    fn decision(self, window: Window) -> Decision {
        let stride = Stride { every: self.stride, read: self.read };
        Decision { pattern: Pattern::Strided(stride), window }
    }
}

/// Most strided streams that can begin in turn.
const TURNS_MAX: u32 = 4;

/// Largest stride, 16 MiB. A larger distance is more likely that of threads reading parts of the
/// file, or chance.
const STRIDE_MAX: u64 = 4096;

/// Largest gap read along, 16 KiB, and no larger than a piece: no device serves a separate request
/// more cheaply, and at most half of the memory is wasted.
const GAP_MAX: Pages = Pages(4);
