//! Streams of one file, found by position instead of by handle, in at most [`Streams::BYTES_MAX`].
//!
//! ```text
//!   confirmed       one read's window brought another              LRU
//!                   |-----#=======|        |--------#=======|
//!
//!   tentative       the last random reads, and first windows       a ring
//!                   that no read has continued yet
//!                   |-|    |-|  |-|      |---#===|
//! ```
//!
//! The two sets are separate so that random reads, which only make tentative streams, can only
//! evict each other.

#[cfg(test)]
mod tests;

mod ended;
mod entry;
mod invariants;
mod near;
mod set;
mod turns;

use core::ops::Range;

use self::entry::NO_MARKER;
pub(super) use self::entry::{StreamDirection, StreamEntry, StreamSlot};
use self::set::StreamSet;
use self::turns::Turns;
use super::decision::Residency;
use super::memory_shares::ShareId;
use super::run_lengths::CountedRun;
use crate::units::{PageIndex, Pages};

/// Stream table of a file. Empty until the first question; it grows with the number of streams and
/// random reads.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Streams {
    confirmed: StreamSet,
    tentative: StreamSet,
    /// Tentative streams so far.
    arrivals: u32,
    /// Matches of confirmed streams so far.
    meetings: u32,
    /// A confirmed stream has gone backwards; until then no search for one is needed.
    has_backwards: bool,
    /// Stream matched last.
    latest: LatestStream,
    /// Shares of dropped streams, until [`Self::take_dropped`].
    dropped: [ShareId; DROPPED_MAX],
    /// Run of the stream matched last, if it had already been counted as ended.
    resumed: CountedRun,
    /// Search results for the current question.
    near: NearStreams,
    /// Tentative stream that continues next, if they continue in the order of their arrival.
    turns: Turns,
}

/// Search results for a missed read. Small, because each open file has one.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct NearStreams {
    start: PageIndex,
    /// Pages of the read; 0 if the streams have changed since the search.
    count: u32,
    around: LatestStream,
    /// Searched only if no stream is around the first page.
    before: LatestStream,
}

/// Compact [`StreamSlot`]: the number of a confirmed stream, or 256 plus that of a tentative one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct LatestStream(u16);

impl Default for LatestStream {
    fn default() -> Self {
        Self(u16::MAX)
    }
}

/// Stream that matched a question.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Met {
    pub(crate) share: ShareId,
    /// Number of its pages before the current one.
    pub(crate) position: PageIndex,
    /// Number of pages ahead of it.
    pub(crate) ahead: Pages,
    /// The last unread of those, approximately, if the file ends there.
    pub(crate) last_page: Option<PageIndex>,
}

impl Streams {
    /// Most confirmed streams of one file. Beyond it the least recently matched stream is dropped.
    /// Its marker on a page revives it, but meanwhile the pages ahead of it belong to no stream. A
    /// device is one file and may have hundreds of readers.
    pub const CONFIRMED_MAX: usize = 256;

    /// Most tentative streams: as many streams can begin in turn and still be recognised.
    pub const TENTATIVE_MAX: usize = 64;

    /// After this many other random reads, a second consecutive read does not confirm a stream yet;
    /// a third does.
    ///
    /// ```text
    ///   random reads of 64 KiB in a file of 1 GiB: each begins where one of the last 8 ended
    ///   in 8 of 16384 cases; the resulting window costs 0.05 % more bytes
    /// ```
    pub const TRUSTED: u32 = 8;

    /// Most memory of one file's streams.
    pub const BYTES_MAX: usize = size_of::<Self>()
        + (Self::CONFIRMED_MAX + Self::TENTATIVE_MAX) * StreamSet::BYTES_PER_ENTRY;

    /// Returns the number of streams: (confirmed, tentative).
    #[must_use]
    pub fn count(&self) -> (usize, usize) {
        let count = |set: &StreamSet| set.entries().iter().filter(|entry| entry.is_there()).count();
        (count(&self.confirmed), count(&self.tentative))
    }

    /// Returns true if there are no streams and no shares to give back.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Drops all streams.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn get(&self, place: StreamSlot) -> &StreamEntry {
        match place {
            StreamSlot::Confirmed(index) => self.confirmed.get(index),
            StreamSlot::Tentative(index) => self.tentative.get(index),
        }
    }

    fn set(&mut self, place: StreamSlot, entry: StreamEntry) {
        match place {
            StreamSlot::Confirmed(index) => self.confirmed.set(index, entry),
            StreamSlot::Tentative(index) => self.tentative.set(index, entry),
        }
        self.near = NearStreams::default();
        self.latest = LatestStream::of(place);
    }

    /// Returns the stream with its marker on this page.
    pub(super) fn with_marker(&self, page: PageIndex) -> Option<StreamSlot> {
        self.find(page, |entry| entry.marker == page)
    }

    /// Returns a stream that ends just before this page, other than the one with this marker.
    pub(super) fn ending_at(&self, page: PageIndex, not_marker: PageIndex) -> Option<StreamSlot> {
        let is_forwards = |entry: &StreamEntry| {
            entry.way == StreamDirection::FORWARDS && entry.marker != not_marker
        };
        self.find(page, |entry| entry.end == page && is_forwards(entry))
    }

    fn search_around(&self, page: PageIndex) -> Option<StreamSlot> {
        self.find(page, |entry| entry.is_next(page))
    }

    fn search_beginning_in(&self, pages: &Range<PageIndex>) -> Option<StreamSlot> {
        let is_it = |entry: &StreamEntry| entry.is_before(pages);
        let is_one = |entry: &StreamEntry| entry.is_backwards() && is_it(entry);
        let confirmed =
            self.has_backwards.then(|| self.confirmed.find_start(pages, is_one)).flatten();
        confirmed
            .map(StreamSlot::Confirmed)
            .or_else(|| self.tentative.find_start(pages, is_it).map(StreamSlot::Tentative))
    }

    /// Returns the random read `age` questions ago; 1 is the last one.
    pub(super) fn recent(&self, age: u32) -> Option<&StreamEntry> {
        let slot = self.arrivals.wrapping_sub(age) as usize % Self::TENTATIVE_MAX;
        let entry = self.tentative.entries().get(slot)?;
        entry.is_random().then_some(entry)
    }

    fn find(&self, page: PageIndex, is_it: impl Fn(&StreamEntry) -> bool) -> Option<StreamSlot> {
        let confirmed = self.confirmed.find(page, &is_it).map(StreamSlot::Confirmed);
        confirmed.or_else(|| self.tentative.find(page, is_it).map(StreamSlot::Tentative))
    }

    /// Returns true if few random reads came since the tentative stream was matched, or it matched
    /// twice.
    pub(super) fn is_trusted(&self, entry: &StreamEntry) -> bool {
        entry.reads > 1 || self.arrivals.wrapping_sub(entry.stamp) < Self::TRUSTED
    }

    /// Returns true if few random reads came since this stream without gaps was matched.
    pub(super) fn was_just_met(&self, place: StreamSlot) -> bool {
        let entry = self.get(place);
        let met_at = match place {
            StreamSlot::Confirmed(_) => entry.reads,
            StreamSlot::Tentative(_) => entry.stamp,
        };
        self.arrivals.wrapping_sub(met_at) < Self::TRUSTED
    }

    /// Adds a tentative stream; replaces the oldest at the limit.
    pub(super) fn add_tentative(&mut self, entry: StreamEntry) {
        let slot = self.arrivals as usize % Self::TENTATIVE_MAX;
        self.arrivals = self.arrivals.wrapping_add(1);
        let entry = StreamEntry { stamp: self.arrivals, ..entry };
        self.turns = Turns::default();
        if slot < self.tentative.len() {
            self.drop_share(self.tentative.get(slot).share);
            self.tentative.set(slot, entry);
        } else {
            self.tentative.push(entry);
        }
        self.near = NearStreams::default();
        self.latest = LatestStream::of(StreamSlot::Tentative(slot));
    }

    /// Adds a confirmed stream; replaces the least recently matched one at the limit.
    pub(super) fn add_confirmed(&mut self, entry: StreamEntry) {
        self.meetings = self.meetings.wrapping_add(1);
        let reads = entry.reads_when_met(self.arrivals);
        let entry = StreamEntry { stamp: self.meetings, reads, ..entry };
        debug_assert!(!entry.is_random(), "a stream that is confirmed reads ahead");
        self.has_backwards |= entry.way == StreamDirection::BACKWARDS;
        let entries = self.confirmed.entries();
        let place = if let Some(free) = entries.iter().position(|entry| !entry.is_there()) {
            self.confirmed.set(free, entry);
            free
        } else if entries.len() < Self::CONFIRMED_MAX {
            self.confirmed.push(entry);
            self.confirmed.len() - 1
        } else {
            let age = |index: &usize| self.meetings.wrapping_sub(entries[*index].stamp);
            let oldest =
                (0..entries.len()).max_by_key(age).expect("CONFIRMED_MAX streams are not none");
            self.drop_share(self.confirmed.get(oldest).share);
            self.confirmed.set(oldest, entry);
            oldest
        };
        self.near = NearStreams::default();
        self.latest = LatestStream::of(StreamSlot::Confirmed(place));
    }

    /// Updates a stream, which stays confirmed or tentative.
    pub(super) fn update(&mut self, place: StreamSlot, entry: StreamEntry) {
        let (stamp, reads) = match place {
            StreamSlot::Confirmed(_) => {
                self.meetings = self.meetings.wrapping_add(1);
                (self.meetings, entry.reads_when_met(self.arrivals))
            }
            StreamSlot::Tentative(_) => (self.arrivals, entry.reads),
        };
        let before = *self.get(place);
        self.resumed = before.counted;
        self.note_turn(place, &before, &entry);
        self.set(place, StreamEntry { stamp, reads, ..entry.gone_on_from(&before) });
    }

    /// Updates a stream and confirms it.
    pub(super) fn prove(&mut self, place: StreamSlot, entry: StreamEntry) {
        match place {
            StreamSlot::Confirmed(_) => self.update(place, entry),
            StreamSlot::Tentative(_) => {
                let before = *self.get(place);
                self.resumed = before.counted;
                self.note_turn(place, &before, &entry);
                self.set(place, StreamEntry::NOWHERE);
                self.add_confirmed(entry.gone_on_from(&before));
            }
        }
    }

    /// Drops a stream. The others keep their slots.
    pub(super) fn remove(&mut self, place: StreamSlot) {
        self.drop_share(self.get(place).share);
        self.set(place, StreamEntry::NOWHERE);
    }

    fn drop_share(&mut self, share: ShareId) {
        if share != ShareId::NONE {
            let free = self.dropped.iter_mut().find(|place| **place == ShareId::NONE);
            *free.expect("a decision forgets few, and then they are taken") = share;
        }
    }

    /// Takes the share of a dropped stream; call it after each decision.
    pub(crate) fn take_dropped(&mut self) -> Option<ShareId> {
        let last = self.dropped.iter_mut().find(|share| **share != ShareId::NONE)?;
        Some(core::mem::replace(last, ShareId::NONE))
    }

    /// Begins a question: no stream has matched it yet.
    pub(super) fn forget_latest(&mut self) {
        self.latest = LatestStream::default();
    }

    /// Returns the stream matched last, if it covers `page` of a file that ends at `file_end`.
    /// `is_unread` returns true for a prefetched page that no reader has used.
    pub(crate) fn latest(
        &self,
        page: PageIndex,
        file_end: PageIndex,
        is_unread: impl FnMut(PageIndex) -> bool,
    ) -> Option<Met> {
        let entry = self.get(self.latest.place()?);
        let is_stream = entry.is_there() && !entry.is_random();
        is_stream.then(|| Met {
            share: entry.share,
            position: entry.position(page),
            ahead: entry.ahead_of(page, file_end),
            last_page: entry.last_page(file_end, is_unread),
        })
    }

    /// Truncates the stream matched last: nothing was prefetched for it from `end` on.
    pub(crate) fn cut_latest(&mut self, end: PageIndex, cache: &impl Residency) {
        let Some(place) = self.latest.place() else { return };
        let entry = *self.get(place);
        if entry.way == StreamDirection::BACKWARDS {
            // The stream continues with the first missing page, and the next window ends there: the
            // pages before it are resident, and are not requested again.
            let there = cache.history(entry.end, entry.end - entry.start);
            let start = PageIndex(entry.end.0 - there.0);
            self.set(place, StreamEntry { start, marker: NO_MARKER, ..entry });
            return;
        }
        // A strided stream continues with its first missing piece.
        let end = entry.way.stride().map_or(end, |stride| {
            let cut = end.0.saturating_sub(entry.start.0);
            PageIndex(entry.start.0 + cut.next_multiple_of(stride.0))
        });
        debug_assert!(entry.start <= entry.end, "{entry:?} ends before it starts");
        if entry.start < end && end < entry.end {
            let marker = if entry.marker < end { entry.marker } else { NO_MARKER };
            self.set(place, StreamEntry { end, marker, ..entry });
        }
    }

    /// Sets the least size from which the next window of the stream matched last grows.
    pub(crate) fn quicken_latest(&mut self, pace: Pages) {
        let Some(place) = self.latest.place() else { return };
        let entry = *self.get(place);
        if entry.pace > Pages::ZERO {
            self.set(place, StreamEntry { pace: entry.pace.max(pace), ..entry });
        }
    }

    /// Sets the share of the stream matched last.
    pub(crate) fn set_share(&mut self, share: ShareId) {
        let place = self.latest.place().expect("a share is given to a stream that was met");
        let entry = StreamEntry { share, ..*self.get(place) };
        self.set(place, entry);
    }

    /// Returns true if a stream with this page ahead of its reader has a share that satisfies
    /// `is_it`.
    pub(crate) fn has_ahead(&self, page: PageIndex, is_it: impl Fn(ShareId) -> bool) -> bool {
        self.find(page, |entry| page < entry.end && is_it(entry.share)).is_some()
    }

    /// Returns all shares.
    pub(crate) fn shares(&self) -> impl Iterator<Item = ShareId> {
        let entries = self.confirmed.entries().iter().chain(self.tentative.entries());
        entries.map(|entry| entry.share).filter(|share| *share != ShareId::NONE)
    }
}

impl LatestStream {
    #[expect(clippy::cast_possible_truncation, reason = "there are hundreds")]
    const fn of(place: StreamSlot) -> Self {
        match place {
            StreamSlot::Confirmed(index) => Self(index as u16),
            StreamSlot::Tentative(index) => Self((Streams::CONFIRMED_MAX + index) as u16),
        }
    }

    fn place(self) -> Option<StreamSlot> {
        let index = usize::from(self.0);
        match index.checked_sub(Streams::CONFIRMED_MAX) {
            None => Some(StreamSlot::Confirmed(index)),
            Some(index) if index < Streams::TENTATIVE_MAX => Some(StreamSlot::Tentative(index)),
            Some(_) => None,
        }
    }
}

/// Most shares dropped by one decision: two streams that meet, or one that is evicted.
const DROPPED_MAX: usize = 3;
