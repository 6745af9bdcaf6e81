//! Streams that read towards the start of the file.
//!
//! ```text
//!             |<----- size ------>|<- last ->|
//!   ----------|==============#|===|==========|
//!             ^start          ^page          the reader comes from there
//!                            ^marker: the prefetched page that it meets first
//! ```
//!
//! The first two reads get no window, because two swapped reads look the same, unless the file's
//! streams are known to go backwards. Windows grow as those of forward streams do.

use super::prefetch_distance::{PrefetchDistance, tail};
use super::window_size::{initial_size, next_size};
use super::{StreamDirection, StreamEntry, StreamSlot};
use crate::prefetch::decision::{Allotment, Ask, Decision, Pattern, Residency, Window};
use crate::prefetch::streams::Streams;
use crate::units::{PageIndex, Pages};

/// Returns the stream or last random read that begins at the end of this read.
pub(super) fn expected(streams: &Streams, ask: Ask, cache: &impl Residency) -> Option<StreamSlot> {
    let place = streams.beginning_in(&(ask.page..ask.page + ask.count))?;
    let known = streams.get(place);
    // Some readers drop the pages behind them.
    let drops_behind = || known.is_backwards() && streams.was_just_met(place);
    (is_there(known.start, cache) || drops_behind()).then_some(place)
}

/// Creates a first window in a file of backward streams. Later reads show whether this is one.
pub(super) fn begin(streams: &mut Streams, ask: Ask, allotment: Allotment) -> Decision {
    let size = initial_size(ask.count, allotment);
    let ahead = size.saturating_sub(ask.count).min(Pages(ask.page.0));
    let start = PageIndex(ask.page.0 - ahead.0);
    let window = with_marker(start, ask.page + ask.count, ahead, allotment.distance);
    streams.add_tentative(entry(ask, window, size).after(ask.count));
    Decision { pattern: Pattern::Backwards, window }
}

/// Returns true if the page that the reader has just used is still resident; otherwise the stream
/// has ended, as with forward streams.
pub(super) fn is_there(page: PageIndex, cache: &impl Residency) -> bool {
    cache.next_hole(page, Pages(1)).is_none()
}

/// Handles a miss just before a stream or random read, or of an evicted page of a stream.
pub(super) fn go_on(
    streams: &mut Streams,
    place: StreamSlot,
    ask: Ask,
    allotment: Allotment,
) -> Decision {
    let known = *streams.get(place);
    if known.is_random() && known.way != StreamDirection::BACKWARDS {
        // Keep the end: a reader that continues there read these two in the wrong order.
        let reads = known.reads + 1;
        let both = StreamEntry::random(ask.page, known.end, reads)
            .going(StreamDirection::BACKWARDS, reads);
        streams.update(place, both);
        return Decision::random(ask, ask.count);
    }
    if known.way == StreamDirection::FORWARDS && known.reads < TURNS_AFTER {
        // Keep the window: a reader that continues in it read these two in the wrong order.
        streams.update(place, known.after_read_before(ask.page));
        return Decision::random(ask, ask.count);
    }
    if ask.page >= known.start {
        // The page was evicted. The rest of the window and its marker stay.
        streams.update(place, known);
        let window = Window { start: ask.page, size: ask.count, async_size: Pages::ZERO };
        return Decision { pattern: Pattern::Backwards, window };
    }
    let end = known.start;
    let wanted = end - ask.page;
    let has_turned = known.way == StreamDirection::FORWARDS;
    let pace = if known.is_random() || has_turned { wanted } else { known.pace };
    let size = next_size(pace, allotment);
    let ahead =
        if size > wanted || allotment.run.is_some() { size.saturating_sub(wanted) } else { size };
    let ahead = ahead.min(Pages(ask.page.0));
    let start = PageIndex(ask.page.0 - ahead.0);
    let window = with_marker(start, end, ahead, allotment.distance);
    // After a forward window, count the reads, which are about as large.
    let read = if has_turned { Pages(wanted.0 * u64::from(TURNS_AFTER + 1)) } else { Pages::ZERO };
    streams.prove(place, entry(ask, window, size).after(read));
    Decision { pattern: Pattern::Backwards, window }
}

/// Handles a marker: the next window ends at the first hole before the last one.
///
/// ```text
///       |<---- size ---->|<- there ->|<--- still ahead --->|
///   ----|===============#|===========|=====================#---
///       ^start           ^hole                             ^page
/// ```
pub(super) fn on_marker(
    streams: &mut Streams,
    place: StreamSlot,
    ask: Ask,
    allotment: Allotment,
    cache: &impl Residency,
) -> Option<Decision> {
    let Allotment { max, distance, .. } = allotment;
    let known = *streams.get(place);
    let there = cache.history(known.start, max);
    let end = PageIndex(known.start.0 - there.0);
    if there == max || end == PageIndex(0) {
        // A window's worth of pages is resident, or the rest of the file.
        streams.remove(place);
        return None;
    }
    let size = next_size(known.pace, allotment);
    let ahead = size.min(Pages(end.0));
    let window = with_marker(PageIndex(end.0 - ahead.0), end, ahead, distance);
    streams.prove(place, entry(ask, window, size));
    Some(Decision { pattern: Pattern::Backwards, window })
}

/// Returns the window from `start` to `end`. Its first `ahead` pages are prefetched; the marker is
/// where the reader has `distance` of them left. A window at the start of the file has no marker.
fn with_marker(
    start: PageIndex,
    end: PageIndex,
    ahead: Pages,
    distance: PrefetchDistance,
) -> Window {
    debug_assert!(start + ahead <= end, "what is read ahead is part of the window");
    let left = tail(ahead, distance);
    let is_last = start == PageIndex(0) || left == Pages::ZERO;
    let async_size = if is_last { Pages::ZERO } else { end - start - left + Pages(1) };
    Window { start, size: end - start, async_size }
}

fn entry(ask: Ask, window: Window, pace: Pages) -> StreamEntry {
    debug_assert!(
        window.start <= ask.page,
        "a stream that goes backwards has its window before it"
    );
    StreamEntry::new(window.start, ask.page, window.marker(), pace)
        .going(StreamDirection::BACKWARDS, 0)
}

/// Reads before a stream counts as backwards: the third one does.
const TURNS_AFTER: u32 = 2;
