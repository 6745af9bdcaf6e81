//! The streams of one file, found by where they read and not by who reads.
//!
//! In:    the page of a question.
//! Out:   what was read ahead for the stream that comes there, and room to remember what is next.
//! Never: a handle, a page table, more than [`Streams::BYTES_MAX`] bytes a file.
//!
//! ```text
//!   streams         proved: one read's window brought another      LRU
//!                   |-----#=======|        |--------#=======|
//!
//!   candidates      the ends of the last random reads, and first   a ring
//!                   windows that nobody has gone on with yet
//!                   |-|    |-|  |-|      |---#===|
//! ```
//!
//! Why two: reads at random make candidates only, and so can push out only each other.

mod set;

use self::set::Set;
use crate::units::{PageIndex, Pages};

/// What a file remembers of its streams. Empty until the first question, and then as large as there
/// are streams and random reads.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Streams {
    proved: Set,
    candidates: Set,
    /// How many candidates there have been.
    arrivals: u32,
    /// How many times a proved stream was met.
    meetings: u32,
}

/// What lies ahead of one stream.
///
/// ```text
///     start: its reader was here      marker                end
///     |===============================#====================|
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Entry {
    pub(super) start: PageIndex,
    pub(super) end: PageIndex,
    /// The page whose use asks for more; None if there is none, or no longer.
    pub(super) marker: Option<PageIndex>,
    /// The size that the next window grows from; 0 for a random read.
    pub(super) pace: Pages,
    /// When it was last met: `arrivals` or `meetings`.
    stamp: u32,
    /// How many random reads in a row made it.
    pub(super) reads: u32,
}

/// Which entry, until the next change.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Place {
    Proved(usize),
    Candidate(usize),
}

impl Streams {
    /// The most streams of one file. One more pushes out the one that was met least recently; it is
    /// found again by the marker that it left on a page.
    pub const PROVED_MAX: usize = 64;

    /// The most candidates, so that as many streams as are remembered may begin in turns.
    pub const CANDIDATES_MAX: usize = 64;

    /// After so many other random reads, a second one in a row is no proof yet, but a third is.
    ///
    /// ```text
    ///   random reads of 64 KiB in a file of 1 GiB: each begins where one of the last 8 ended
    ///   in 8 of 16384 cases; the window that comes of it costs 0.05 % more bytes
    /// ```
    pub const TRUSTED: u32 = 8;

    /// The most memory that one file's streams take.
    pub const BYTES_MAX: usize =
        size_of::<Self>() + (Self::PROVED_MAX + Self::CANDIDATES_MAX) * Set::BYTES_PER_ENTRY;

    /// How many streams are remembered: (proved ones, candidates).
    #[must_use]
    pub fn count(&self) -> (usize, usize) {
        let count = |set: &Set| set.entries().iter().filter(|entry| entry.is_there()).count();
        (count(&self.proved), count(&self.candidates))
    }

    /// Forgets them all.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn get(&self, place: Place) -> &Entry {
        match place {
            Place::Proved(index) => self.proved.get(index),
            Place::Candidate(index) => self.candidates.get(index),
        }
    }

    fn set(&mut self, place: Place, entry: Entry) {
        match place {
            Place::Proved(index) => self.proved.set(index, entry),
            Place::Candidate(index) => self.candidates.set(index, entry),
        }
    }

    /// The stream that waits for its reader to use this page.
    pub(super) fn with_marker(&self, page: PageIndex) -> Option<Place> {
        self.find(page, |entry| entry.marker == Some(page))
    }

    /// A stream that ends just before this page, other than the one with this marker.
    pub(super) fn ending_at(&self, page: PageIndex, not_marker: PageIndex) -> Option<Place> {
        self.find(page, |entry| entry.end == page && entry.marker != Some(not_marker))
    }

    /// The stream that had this page, or the one before it, ahead of it.
    pub(super) fn around(&self, page: PageIndex) -> Option<Place> {
        self.find(page, |_| true)
    }

    fn find(&self, page: PageIndex, is_it: impl Fn(&Entry) -> bool) -> Option<Place> {
        let proved = self.proved.find(page, &is_it).map(Place::Proved);
        proved.or_else(|| self.candidates.find(page, is_it).map(Place::Candidate))
    }

    /// Whether few random reads came since the candidate was met, or it was met twice.
    pub(super) fn is_trusted(&self, entry: &Entry) -> bool {
        entry.reads > 1 || self.arrivals.wrapping_sub(entry.stamp) < Self::TRUSTED
    }

    /// Remembers a new candidate, in place of the oldest if there are too many.
    pub(super) fn add_candidate(&mut self, entry: Entry) {
        let slot = self.arrivals as usize % Self::CANDIDATES_MAX;
        self.arrivals = self.arrivals.wrapping_add(1);
        let entry = Entry { stamp: self.arrivals, ..entry };
        if slot < self.candidates.len() {
            self.candidates.set(slot, entry);
        } else {
            self.candidates.push(entry);
        }
    }

    /// Remembers a proved stream, in place of the one that was met least recently if there are too
    /// many.
    pub(super) fn add_proved(&mut self, entry: Entry) {
        self.meetings = self.meetings.wrapping_add(1);
        let entry = Entry { stamp: self.meetings, ..entry };
        let entries = self.proved.entries();
        if let Some(free) = entries.iter().position(|entry| !entry.is_there()) {
            self.proved.set(free, entry);
        } else if entries.len() < Self::PROVED_MAX {
            self.proved.push(entry);
        } else {
            let age = |index: &usize| self.meetings.wrapping_sub(entries[*index].stamp);
            let oldest = (0..entries.len()).max_by_key(age).expect("there are many");
            self.proved.set(oldest, entry);
        }
    }

    /// The stream is here now. It is as proved as it was.
    pub(super) fn update(&mut self, place: Place, entry: Entry) {
        let stamp = match place {
            Place::Proved(_) => {
                self.meetings = self.meetings.wrapping_add(1);
                self.meetings
            }
            Place::Candidate(_) => self.arrivals,
        };
        self.set(place, Entry { stamp, ..entry });
    }

    /// The stream is here now, and it is one.
    pub(super) fn prove(&mut self, place: Place, entry: Entry) {
        match place {
            Place::Proved(_) => self.update(place, entry),
            Place::Candidate(_) => {
                self.remove(place);
                self.add_proved(entry);
            }
        }
    }

    /// Forgets one. The others stay in their places.
    pub(super) fn remove(&mut self, place: Place) {
        self.set(place, Entry::NOWHERE);
    }
}

impl Entry {
    /// A place that is free again. No question finds it: page 0 is a start, whatever ends there.
    const NOWHERE: Self = Self::new(PageIndex(0), PageIndex(0), None, Pages::ZERO);

    pub(super) const fn new(
        start: PageIndex,
        end: PageIndex,
        marker: Option<PageIndex>,
        pace: Pages,
    ) -> Self {
        Self { start, end, marker, pace, stamp: 0, reads: 0 }
    }

    /// What random reads in a row leave: nothing ahead, and the place where they ended.
    pub(super) fn random(end: PageIndex, reads: u32) -> Self {
        Self { reads, ..Self::new(end, end, None, Pages::ZERO) }
    }

    fn is_there(&self) -> bool {
        self.end > PageIndex(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u64) -> Entry {
        let start = PageIndex(1000 * number);
        Entry::new(start, start + Pages(32), Some(start), Pages(32))
    }

    fn finds(streams: &Streams, number: u64) -> bool {
        streams.with_marker(PageIndex(1000 * number)).is_some()
    }

    #[test]
    fn the_stream_that_was_met_least_recently_is_forgotten() {
        let mut streams = Streams::default();
        let most = Streams::PROVED_MAX as u64;
        (0..most).for_each(|number| streams.add_proved(entry(number + 1)));
        let first = streams.with_marker(PageIndex(1000)).unwrap();
        streams.update(first, entry(1));
        streams.add_proved(entry(100));
        assert_eq!(streams.count(), (Streams::PROVED_MAX, 0));
        assert!(!finds(&streams, 2));
        assert!([1, 3, most, 100].iter().all(|number| finds(&streams, *number)));
    }

    #[test]
    fn the_place_of_a_stream_that_is_forgotten_is_used_again() {
        let mut streams = Streams::default();
        (1..=9).for_each(|number| streams.add_proved(entry(number)));
        let fifth = streams.with_marker(PageIndex(5000)).unwrap();
        streams.remove(fifth);
        assert_eq!((streams.count(), finds(&streams, 5)), ((8, 0), false));
        streams.add_proved(entry(50));
        assert_eq!(streams.with_marker(PageIndex(50_000)), Some(fifth));
        assert!(finds(&streams, 9), "the others stay");
    }

    #[test]
    fn candidates_push_out_candidates_in_the_order_of_their_arrival() {
        let mut streams = Streams::default();
        streams.add_proved(entry(1000));
        let most = Streams::CANDIDATES_MAX as u64;
        (1..=most + 3).for_each(|number| streams.add_candidate(entry(number)));
        assert_eq!(streams.count(), (1, Streams::CANDIDATES_MAX));
        for number in 1..=most + 3 {
            assert_eq!(finds(&streams, number), number > 3, "{number}");
        }
        assert!(finds(&streams, 1000));
    }

    #[test]
    fn a_random_read_is_trusted_until_eight_others_came_or_when_it_was_the_second_in_a_row() {
        let mut streams = Streams::default();
        streams.add_candidate(Entry::random(PageIndex(7), 1));
        let first = |streams: &Streams| *streams.get(streams.around(PageIndex(7)).unwrap());
        for number in 0..8 {
            assert!(streams.is_trusted(&first(&streams)), "{number}");
            streams.add_candidate(Entry::random(PageIndex(1000 + number), 1));
        }
        assert!(!streams.is_trusted(&first(&streams)));
        assert!(streams.is_trusted(&Entry { reads: 2, ..first(&streams) }));
    }

    #[test]
    fn a_file_costs_a_few_kilobytes_at_most() {
        const { assert!(Streams::BYTES_MAX <= 7400) };
        const { assert!(size_of::<Streams>() <= 128, "a file that nobody reads") };
    }
}
