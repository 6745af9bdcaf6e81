//! The streams of one file, found by where they read and not by their handle.
//!
//! In:    the page of a question.
//! Out:   what was read ahead for the stream that comes there, and room to remember what is next.
//! Never: a handle, a page table, more than [`Streams::BYTES_MAX`] bytes a file.
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
//! Why two: random reads make tentative streams only, and so can push out only each other.

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

/// What a file remembers of its streams. Empty until the first question, and then as large as there
/// are streams and random reads.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Streams {
    confirmed: StreamSet,
    tentative: StreamSet,
    /// How many tentative streams there have been.
    arrivals: u32,
    /// How many times a confirmed stream was met.
    meetings: u32,
    /// Whether a confirmed stream ever went backwards: where none did, none is looked for.
    has_backwards: bool,
    /// The one that was met last.
    latest: LatestStream,
    /// Shares of streams that were forgotten, until [`Self::take_dropped`].
    dropped: [ShareId; DROPPED_MAX],
    /// Where the one that was met last had been counted as ended.
    resumed: CountedRun,
    /// What was found for the question at hand.
    near: NearStreams,
    /// Which of the tentative ones goes on next, if they do so in the order in which they came.
    turns: Turns,
}

/// What was found for a read that misses. Small, because each open file has one.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct NearStreams {
    start: PageIndex,
    /// How many pages the read asks for; 0: nothing was searched since the streams changed.
    count: u32,
    around: LatestStream,
    /// Looked for only where no stream is around the first page.
    before: LatestStream,
}

/// A [`StreamSlot`], small: the number of a confirmed stream, or 256 and that of a tentative one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct LatestStream(u16);

impl Default for LatestStream {
    fn default() -> Self {
        Self(u16::MAX)
    }
}

/// A stream that a question was about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Met {
    pub(crate) share: ShareId,
    /// How many of its pages are before.
    pub(crate) position: PageIndex,
    /// How many are ahead of it.
    pub(crate) ahead: Pages,
    /// The last of those that is unread, or about that, if its file ends there.
    pub(crate) last_page: Option<PageIndex>,
}

impl Streams {
    /// The most streams of one file. One more pushes out the one that was met least recently; it is
    /// found again by the marker that it left on a page, but while it is forgotten what lies ahead
    /// of it belongs to no stream. A device is one file, and its readers may be hundreds.
    pub const CONFIRMED_MAX: usize = 256;

    /// The most tentative streams: so many streams may begin in turns and still be recognised.
    pub const TENTATIVE_MAX: usize = 64;

    /// After so many other random reads, a second one in a row is no proof yet, but a third is.
    ///
    /// ```text
    ///   random reads of 64 KiB in a file of 1 GiB: each begins where one of the last 8 ended
    ///   in 8 of 16384 cases; the window that comes of it costs 0.05 % more bytes
    /// ```
    pub const TRUSTED: u32 = 8;

    /// The most memory that one file's streams take.
    pub const BYTES_MAX: usize = size_of::<Self>()
        + (Self::CONFIRMED_MAX + Self::TENTATIVE_MAX) * StreamSet::BYTES_PER_ENTRY;

    /// How many streams are remembered: (confirmed, tentative).
    #[must_use]
    pub fn count(&self) -> (usize, usize) {
        let count = |set: &StreamSet| set.entries().iter().filter(|entry| entry.is_there()).count();
        (count(&self.confirmed), count(&self.tentative))
    }

    /// Whether none is remembered, and no share is to be given back.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Forgets them all.
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

    /// The stream that waits for its reader to use this page.
    pub(super) fn with_marker(&self, page: PageIndex) -> Option<StreamSlot> {
        self.find(page, |entry| entry.marker == page)
    }

    /// A stream that ends just before this page, other than the one with this marker.
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

    /// The random read that came so many questions ago; 1 is the last one.
    pub(super) fn recent(&self, age: u32) -> Option<&StreamEntry> {
        let slot = self.arrivals.wrapping_sub(age) as usize % Self::TENTATIVE_MAX;
        let entry = self.tentative.entries().get(slot)?;
        entry.is_random().then_some(entry)
    }

    fn find(&self, page: PageIndex, is_it: impl Fn(&StreamEntry) -> bool) -> Option<StreamSlot> {
        let confirmed = self.confirmed.find(page, &is_it).map(StreamSlot::Confirmed);
        confirmed.or_else(|| self.tentative.find(page, is_it).map(StreamSlot::Tentative))
    }

    /// Whether few random reads came since the tentative stream was met, or it was met twice.
    pub(super) fn is_trusted(&self, entry: &StreamEntry) -> bool {
        entry.reads > 1 || self.arrivals.wrapping_sub(entry.stamp) < Self::TRUSTED
    }

    /// Whether few random reads came since the stream, which leaves no gaps, was met.
    pub(super) fn was_just_met(&self, place: StreamSlot) -> bool {
        let entry = self.get(place);
        let met_at = match place {
            StreamSlot::Confirmed(_) => entry.reads,
            StreamSlot::Tentative(_) => entry.stamp,
        };
        self.arrivals.wrapping_sub(met_at) < Self::TRUSTED
    }

    /// Remembers a new tentative stream, in place of the oldest if there are too many.
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

    /// Remembers a confirmed stream, in place of the one that was met least recently if there are
    /// too many.
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

    /// The stream is here now. It stays confirmed or tentative.
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

    /// The stream is here now, and it is one.
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

    /// Forgets one. The others stay in their places.
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

    /// A share of a stream that was forgotten; to be asked for after each decision.
    pub(crate) fn take_dropped(&mut self) -> Option<ShareId> {
        let last = self.dropped.iter_mut().find(|share| **share != ShareId::NONE)?;
        Some(core::mem::replace(last, ShareId::NONE))
    }

    /// A question begins: no stream was met with it yet.
    pub(super) fn forget_latest(&mut self) {
        self.latest = LatestStream::default();
    }

    /// The stream that was met last, at `page` of a file that ends at `file_end`, if it is there.
    /// `is_unread` says of a page whether it was read ahead and no reader has come to it.
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

    /// Nothing was read ahead from `end` on for the stream that was met last.
    pub(crate) fn cut_latest(&mut self, end: PageIndex, cache: &impl Residency) {
        let Some(place) = self.latest.place() else { return };
        let entry = *self.get(place);
        if entry.way == StreamDirection::BACKWARDS {
            // What is missing is next. Where its reader misses it, a window ends there: what lies
            // before is there, and is not asked for again.
            let there = cache.history(entry.end, entry.end - entry.start);
            let start = PageIndex(entry.end.0 - there.0);
            self.set(place, StreamEntry { start, marker: NO_MARKER, ..entry });
            return;
        }
        // A strided stream goes on with the first piece that is not there.
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

    /// The next window of the stream that was met last is to grow from `pace` at least.
    pub(crate) fn quicken_latest(&mut self, pace: Pages) {
        let Some(place) = self.latest.place() else { return };
        let entry = *self.get(place);
        if entry.pace > Pages::ZERO {
            self.set(place, StreamEntry { pace: entry.pace.max(pace), ..entry });
        }
    }

    /// Gives a share to the stream that was met last.
    pub(crate) fn set_share(&mut self, share: ShareId) {
        let place = self.latest.place().expect("a share is given to a stream that was met");
        let entry = StreamEntry { share, ..*self.get(place) };
        self.set(place, entry);
    }

    /// The share of a stream that has this page ahead of its reader, and of which more is true.
    pub(crate) fn has_ahead(&self, page: PageIndex, is_it: impl Fn(ShareId) -> bool) -> bool {
        self.find(page, |entry| page < entry.end && is_it(entry.share)).is_some()
    }

    /// All shares.
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

/// One decision forgets no more: two streams that meet, or one that is pushed out.
const DROPPED_MAX: usize = 3;
