//! Streams that read a piece, leave a gap, and read the next piece.
//!
//! In:    a read at random, and those before it; or a miss or a marker of a known stream.
//! Out:   the next pieces, as many as are no more pages than a window.
//! Never: a page between the pieces, unless the gap is short.
//!
//! ```text
//!        every               piece
//!   |<---------->|          |<->|
//!   |===|--------|===|------|===|--------#===|--------|===|--------|===|
//!   two reads, in turns     ^page        ^marker      asked for ahead
//! ```

use super::prefetch_distance::{PrefetchDistance, tail};
use super::window_size::next_size;
use super::{StreamDirection, StreamEntry, StreamSlot};
use crate::prefetch::decision::{Allotment, Ask, Decision, Pattern, Residency, Stride, Window};
use crate::prefetch::policy::sizes;
use crate::prefetch::streams::Streams;
use crate::units::{PageIndex, Pages};

/// The first window of a stream, if this read at random is the third of one: of the same size as
/// two before it, as far from the second as that was from the first.
///
/// ```text
///   the last reads     .. f1 . e1 d1 c1 . b1 . a1     a2 - a1 = a1 - a0 ?
///   this one, a2       ages: 1 and 2, 2 and 4, 3 and 6, 4 and 8
/// ```
///
/// Only reads that came in turns count, so that few are compared: of random reads of 4 KiB in a
/// file of 1 GiB one of some millions looks like that.
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

/// How far it is from one read to the next, if this is the third of a stream.
pub(super) fn stride(streams: &Streams, ask: Ask) -> Option<Pages> {
    (1..=TURNS_MAX).find_map(|turns| {
        let second = streams.recent(turns)?;
        let stride = ask.page.0.wrapping_sub(second.start.0);
        // Nearly always; only then is there more to look at.
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

/// The least that a stream reads ahead: one piece. None of a stream without gaps.
pub(super) fn least(known: &StreamEntry, max: Pages) -> Pages {
    Course::of(known, max).map_or(Pages::ZERO, |course| course.read)
}

/// Whether the piece before this page is still there: its reader has just used it.
pub(super) fn is_there(
    known: &StreamEntry,
    stride: Pages,
    page: PageIndex,
    cache: &impl Residency,
) -> bool {
    let end = page.0.checked_sub(stride.0).map(|start| start + u64::from(known.reads));
    end.is_some_and(|end| cache.history(PageIndex(end), Pages(1)) > Pages::ZERO)
}

/// A miss where a stream is expected: it outran its marker, and goes on with a larger window.
///
/// None if a piece was evicted, which is read again alone, and what lies behind it stays as it is;
/// or if this read is not one of the stream's.
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

/// The reader meets a marker: the next window begins with the first piece that is missing.
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

/// Where a strided stream goes.
#[derive(Clone, Copy, Debug)]
struct Course {
    stride: Pages,
    /// The pages of a piece that its reader wants.
    piece: Pages,
    /// The pages that are read for a piece: those, or all to the next one.
    read: Pages,
}

impl Course {
    /// None if not even one piece fits a window, or what is to be remembered does not fit an entry.
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

    /// How many pieces are a window of `size` pages; one at least.
    fn pieces(self, size: Pages) -> u64 {
        (size.0 / self.read.0).max(1)
    }

    /// From the start of a piece to that of another.
    fn all(self, pieces: u64) -> Pages {
        Pages(self.stride.0.saturating_mul(pieces))
    }

    /// The read that misses, and the pieces behind it.
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

    /// So many pieces from `start` on, and what is remembered of them.
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

/// So many strided streams may take turns when they begin.
const TURNS_MAX: u32 = 4;

/// A stride of more than 16 MiB is none: it is rather the distance of threads that each read a part
/// of the file, or chance.
const STRIDE_MAX: u64 = 4096;

/// A gap of 16 KiB is read along if it is no larger than a piece: on no device is a request of its
/// own cheaper, and memory loses half at most.
const GAP_MAX: Pages = Pages(4);
