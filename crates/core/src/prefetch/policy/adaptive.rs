//! `adaptive`: the windows of linux-6, for streams that are found by position.
//!
//! The first read at a position prefetches nothing, unless the file's streams are known to
//! continue. No window exceeds the read by more than `max` pages.
//!
//! ```text
//!   one file          a's window               b's window
//!   -----------|======#===========|--------|==#======|-------|-|---------
//!                     ^           ^           ^              r ^
//!             a meets its marker, |    b meets its own         a random read ended here:
//!             or misses the page  |                            a reader that continues
//!             after its end ------+                            from it is a stream
//! ```

mod backwards;
mod meeting;
mod prefetch_distance;
mod strided;
mod window_size;

use self::meeting::{meets_another, until_another};
use self::prefetch_distance::{PrefetchDistance, tail};
use self::window_size::{initial_size, is_all_wanted, next_size};
use super::linux_6::follows_previous_read;
use crate::prefetch::decision::{Allotment, Ask, Decision, Pattern, Residency, Trigger, Window};
use crate::prefetch::policy::sizes;
use crate::prefetch::streams::{StreamDirection, StreamEntry, StreamSlot, Streams};
use crate::units::{PageIndex, Pages};

/// Misses and markers have separate rules. The first rule that matches decides.
///
/// ```text
///   miss    1  page 0                                              initial0
///           2  after the end of a window, the page before it       subsequent, one size larger
///              still there: the stream outran its marker; or
///              gone, but the handle's last read ended here
///           3  inside a window, the page before it still there:    subsequent, of the same size
///              the page was evicted before its reader came
///           4  after a random read, one of the last 8 or itself    initial
///              in a row with another
///           5  just before a window, or the third read in a row    backwards
///              that is just before the last
///           6  in or next to the last read of the same handle      initial
///           7  the third read of one size at one distance          strided
///           8  anything else, where few streams of the file end    initial, or backwards
///              with their first read                               if those are
///           9  anything else                                       random, and remembered
///   marker  1  of a remembered stream                              subsequent
///           2  any other                                           interleaved
///
///   2, 3 and marker 1 of a stream that goes backwards or in strides bring a window as it goes.
/// ```
///
/// Switched off (`max` 0), each miss reads the rest of its read.
pub(super) fn decide(
    streams: &mut Streams,
    ask: Ask,
    allotment: Allotment,
    cache: &impl Residency,
) -> Option<Decision> {
    // From here on, `latest` belongs to this question.
    streams.forget_latest();
    let decision = match (ask.trigger, allotment.max) {
        (Trigger::Miss, Pages::ZERO) => return Some(Decision::random(ask, ask.count)),
        (Trigger::Marker, Pages::ZERO) => return None,
        (Trigger::Miss, _) => on_miss(streams, ask, allotment, cache),
        (Trigger::Marker, _) => on_marker(streams, ask, allotment, cache)?,
    };
    Some(decision)
}

/// Returns the remembered stream that this question belongs to.
pub(crate) fn asking<'s>(
    streams: &'s Streams,
    ask: Ask,
    cache: &impl Residency,
) -> Option<&'s StreamEntry> {
    let place = match ask.trigger {
        Trigger::Miss => expected(streams, ask, cache)?,
        Trigger::Marker => streams.with_marker(ask.page)?,
    };
    Some(streams.get(place))
}

/// Returns true if a stream may begin here, neither at the start of the file nor after the handle's
/// previous read: only the lengths of other streams are known then.
pub(crate) fn begins_anywhere(ask: Ask) -> bool {
    ask.page > PageIndex(0) && !follows_previous_read(ask)
}

/// Pages that a question would prefetch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WantedPages {
    /// Size of the window; 0 for a random read.
    pub(crate) window: Pages,
    /// Missing pages of the read before the window.
    pub(crate) lacks: Pages,
}

/// Returns the most pages that this question prefetches if windows may have `max` pages.
pub(crate) fn wants(
    streams: &Streams,
    ask: Ask,
    allotment: Allotment,
    cache: &impl Residency,
) -> WantedPages {
    let max = allotment.max;
    if ask.trigger == Trigger::Miss {
        // The pages of the read are set aside.
        let window = wants_on_miss(streams, ask, allotment, cache);
        return WantedPages { window, lacks: Pages::ZERO };
    }
    let known = streams.with_marker(ask.page).map(|place| *streams.get(place));
    let Some(known) = known else { return WantedPages { window: max, lacks: Pages::ZERO } };
    let read_end = ask.page + ask.count;
    WantedPages {
        window: next_size(known.pace, allotment).max(strided::least(&known, max)),
        lacks: Pages(read_end.0.saturating_sub(known.end.0)),
    }
}

fn wants_on_miss(
    streams: &Streams,
    ask: Ask,
    allotment: Allotment,
    cache: &impl Residency,
) -> Pages {
    let max = allotment.max;
    if is_all_wanted(ask, allotment) {
        return Pages::ZERO;
    }
    let Some(place) = expected(streams, ask, cache).filter(|_| ask.page > PageIndex(0)) else {
        let begins = ask.page == PageIndex(0)
            || follows_previous_read(ask)
            || allotment.run.is_some()
            || strided::stride(streams, ask).is_some();
        return if begins { initial(ask, allotment, cache) } else { Pages::ZERO };
    };
    let known = streams.get(place);
    if !known.is_random() {
        let size = next_size(known.pace, allotment).max(initial_size(ask.count, allotment));
        return size.max(strided::least(known, max));
    }
    if known.way == StreamDirection::BACKWARDS && ask.page < known.start {
        return next_size(ask.count, allotment);
    }
    let begins = goes_on_at_random(streams, known, ask, allotment);
    if begins && ask.page >= known.start { initial(ask, allotment, cache) } else { Pages::ZERO }
}

/// Returns the stream that reaches the missing page.
///
/// A reader has just used the page before. If that page was evicted, no reader was here for a long
/// time and the remembered stream has ended, unless the stream or this handle was here with the
/// previous read: some readers drop the pages behind them.
fn expected(streams: &Streams, ask: Ask, cache: &impl Residency) -> Option<StreamSlot> {
    let Some(place) = streams.around(ask.page) else {
        return backwards::expected(streams, ask, cache);
    };
    let known = streams.get(place);
    let is_there = match known.way.stride() {
        Some(stride) => strided::is_there(known, stride, ask.page, cache),
        None if known.is_backwards() => backwards::is_there(ask.page + ask.count, cache),
        None => {
            let drops_behind = || {
                known.end == ask.page && streams.was_just_met(place)
                    || matches!(place, StreamSlot::Confirmed(_)) && follows_previous_read(ask)
            };
            cache.history(ask.page, Pages(1)) > Pages::ZERO || drops_behind()
        }
    };
    is_there.then_some(place)
}

fn on_miss(
    streams: &mut Streams,
    ask: Ask,
    allotment: Allotment,
    cache: &impl Residency,
) -> Decision {
    let Allotment { max, distance, run, .. } = allotment;
    let ends_here = is_all_wanted(ask, allotment);
    if ask.page == PageIndex(0) && !ends_here {
        let size = initial_size(ask.count, allotment);
        return begin(streams, Pattern::Initial0, ask, size, distance, cache);
    }
    if let Some(place) = expected(streams, ask, cache) {
        return go_on(streams, place, ask, allotment, cache);
    }
    if follows_previous_read(ask) && !ends_here {
        let size = initial(ask, allotment, cache);
        return begin(streams, Pattern::Initial, ask, size, distance, cache);
    }
    if let Some(decision) = strided::begin(streams, ask, max, distance) {
        return decision;
    }
    if run.is_some() && !ends_here {
        if allotment.begins_backwards {
            return backwards::begin(streams, ask, allotment);
        }
        let size = initial(ask, allotment, cache);
        return begin(streams, Pattern::Initial, ask, size, distance, cache);
    }
    streams.add_tentative(StreamEntry::random(ask.page, ask.page + ask.count, 1));
    Decision::random(ask, ask.count)
}

/// Returns true if a read that continues from a random one makes it a stream.
fn goes_on_at_random(
    streams: &Streams,
    known: &StreamEntry,
    ask: Ask,
    allotment: Allotment,
) -> bool {
    let is_in_turn = || allotment.is_far && streams.is_in_turn(known);
    streams.is_trusted(known) || follows_previous_read(ask) || is_in_turn()
}

/// Creates a first window. Its marker shows later whether a stream starts here.
fn begin(
    streams: &mut Streams,
    pattern: Pattern,
    ask: Ask,
    size: Pages,
    distance: PrefetchDistance,
    cache: &impl Residency,
) -> Decision {
    let window = around_read(ask, size, distance, cache);
    let reads = u32::from(begins_anywhere(ask));
    streams.add_tentative(entry(ask, window, size).going(StreamDirection::FORWARDS, reads));
    Decision { pattern, window }
}

/// Returns the size of a stream's first window: a few times its read, or as large as its history if
/// that is more.
///
/// ```text
///    |<--- history --->|<----- size ----->|
///   -|=================|------------------|     history of another stream, or an older one:
///                      ^page                    this reader will probably continue, too
/// ```
fn initial(ask: Ask, allotment: Allotment, cache: &impl Residency) -> Pages {
    let size = initial_size(ask.count, allotment);
    if allotment.run.is_some() { size } else { size.max(cache.history(ask.page, allotment.max)) }
}

/// Handles a miss where a remembered stream is expected.
fn go_on(
    streams: &mut Streams,
    place: StreamSlot,
    ask: Ask,
    allotment: Allotment,
    cache: &impl Residency,
) -> Decision {
    let Allotment { max, distance, .. } = allotment;
    let known = *streams.get(place);
    if ask.page < known.start || known.is_backwards() {
        return backwards::go_on(streams, place, ask, allotment);
    }
    if known.way.stride().is_some() {
        let decision = strided::go_on(streams, place, ask, allotment);
        return decision.unwrap_or_else(|| Decision::random(ask, ask.count));
    }
    if known.is_random() {
        let is_one = goes_on_at_random(streams, &known, ask, allotment);
        if !is_one || is_all_wanted(ask, allotment) {
            let reads = known.reads + 1;
            streams.update(place, StreamEntry::random(ask.page, ask.page + ask.count, reads));
            return Decision::random(ask, ask.count);
        }
        let size = initial(ask, allotment, cache);
        let window = around_read(ask, size, distance, cache);
        streams.update(place, entry(ask, window, size));
        return Decision { pattern: Pattern::Initial, window };
    }
    let is_evicted = ask.page < known.end;
    if is_all_wanted(ask, allotment) {
        let window = Window { start: ask.page, size: ask.count, async_size: Pages::ZERO };
        streams.prove(place, entry(ask, window, known.pace));
        return Decision { pattern: Pattern::Subsequent, window };
    }
    let size = if is_evicted { known.pace.min(max) } else { next_size(known.pace, allotment) };
    let size = size.max(initial_size(ask.count, allotment));
    let window = around_read(ask, size, distance, cache);
    streams.prove(place, entry(ask, window, size));
    Decision { pattern: Pattern::Subsequent, window }
}

/// Returns a window that begins with the missed read.
///
/// ```text
///   |<-- count -->|                    |<------- count ------->|
///   |=============#---------|          |=======================#---------|
///   |<------- size -------->|                                  |<- size ->|
/// ```
///
/// A read that fills its window alone gets a whole window behind it. Then a stream of large reads
/// requests nothing twice, and its marker is at the start of its next read. If out-of-order reads
/// have already brought that page, the marker moves to the next missing one, since only requested
/// pages can be marked.
fn around_read(
    ask: Ask,
    size: Pages,
    distance: PrefetchDistance,
    cache: &impl Residency,
) -> Window {
    debug_assert!(size > Pages::ZERO, "a window that is read ahead has pages");
    let ahead = if size > ask.count { size - ask.count } else { size };
    let end = ask.page + ask.count + ahead;
    let left = tail(ahead, distance);
    let marker = PageIndex(end.0 - left.0);
    let hole = cache.next_hole(marker, left.min(DISORDER_MAX)).unwrap_or(marker);
    debug_assert!(marker <= hole && hole < end, "a marker is in the window, behind the read");
    Window { start: ask.page, size: ask.count + ahead, async_size: end - hole }
}

/// Handles a marker: the next window begins at the first hole after the pages ahead.
///
/// ```text
///           |<-------- pages ahead --------->|<-------- size -------->|
///   --------#===============================|========================|
///           ^page                           ^hole
/// ```
///
/// It begins at the hole because its first page must be requested to carry the marker: a chain of
/// windows breaks if the marker falls on a resident page.
fn on_marker(
    streams: &mut Streams,
    ask: Ask,
    allotment: Allotment,
    cache: &impl Residency,
) -> Option<Decision> {
    let Allotment { max, distance, .. } = allotment;
    let known = streams.with_marker(ask.page);
    if let Some(place) = known {
        match streams.get(place).way {
            StreamDirection::FORWARDS => {}
            StreamDirection::BACKWARDS => {
                return backwards::on_marker(streams, place, ask, allotment, cache);
            }
            _ => return strided::on_marker(streams, place, ask, allotment, cache),
        }
    }
    let (pattern, hole, size) = match known.map(|place| *streams.get(place)) {
        Some(StreamEntry { end, pace, .. }) => {
            let size = next_size(pace, allotment);
            let Some(hole) = cache.next_hole(end, max) else {
                // A window's worth is there, and none of it can be marked. Another stream is ahead,
                // or was; if it was, the miss behind it finds all this history.
                streams.remove(known?);
                return None;
            };
            (Pattern::Subsequent, hole, size)
        }
        None => {
            let hole = cache.next_hole(ask.page + Pages(1), max)?;
            (Pattern::Interleaved, hole, sizes::next(hole - ask.page + ask.count, max))
        }
    };
    if meets_another(streams, known, ask.page, hole, size) {
        return None;
    }
    let size = until_another(allotment.next_stream, hole, size)?;
    let window = behind_read(ask, hole, size, distance);
    match known {
        Some(place) => streams.prove(place, entry(ask, window, size)),
        None => streams.add_confirmed(entry(ask, window, size)),
    }
    Some(Decision { pattern, window })
}

/// Returns a window from `hole` on, with `size` pages after the missing pages of the read itself.
///
/// ```text
///   |<------------ count ----------->|
///   #===================|------------#------------|
///   ^page               ^hole        |<-- size -->|
/// ```
fn behind_read(ask: Ask, hole: PageIndex, size: Pages, distance: PrefetchDistance) -> Window {
    debug_assert!(hole > ask.page, "a page with a marker is resident");
    let lacks = Pages((ask.page + ask.count).0.saturating_sub(hole.0));
    Window { start: hole, size: lacks + size, async_size: tail(size, distance) }
}

/// Creates the entry of a window requested at this page.
fn entry(ask: Ask, window: Window, pace: Pages) -> StreamEntry {
    StreamEntry::new(ask.page, window.end(), window.marker(), pace)
}

/// Distance in which later reads of a stream may have overtaken this one, 1 MiB: threads submit the
/// next reads of a stream together, and these are few.
const DISORDER_MAX: Pages = Pages(256);
