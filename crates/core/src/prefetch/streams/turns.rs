//! Positions that a program reads in turns: those that have been read once go on in their order.
//!
//! In:    tentative streams as they come and as they go on.
//! Out:   the next that is likely to go on.
//! Never: a guess while other reads come between: those are no turns.
//!
//! ```text
//!   reads      a b c d e f | a' b'          each begins somewhere, a and b go on in this order
//!                                c' d' e' f'     likely next: all may be requested at once
//! ```
//!
//! On a device that is far away each of them would otherwise wait for a request of its own, one
//! after the other.

use super::Streams;
use super::entry::{StreamEntry, StreamSlot};
use crate::units::{PageIndex, Pages};

/// How tentative streams go on, since the last one came.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Turns {
    /// The number of the one that went on last, of all tentative ones that ever came.
    last: u32,
    /// How many went on in the order in which they came, up to that; 0: none did.
    in_a_row: u8,
}

impl Streams {
    /// Notes that a stream goes on which was `before`.
    pub(super) fn note_turn(
        &mut self,
        place: StreamSlot,
        before: &StreamEntry,
        after: &StreamEntry,
    ) {
        if matches!(place, StreamSlot::Confirmed(_)) || after.is_random() {
            return;
        }
        let in_a_row =
            if self.is_in_turn(before) { self.turns.in_a_row.saturating_add(1) } else { 1 };
        self.turns = Turns { last: before.stamp, in_a_row };
    }

    /// Whether one went on just now that came just before this one, or this one itself.
    pub(in crate::prefetch) fn is_in_turn(&self, entry: &StreamEntry) -> bool {
        self.turns.in_a_row > 0 && entry.stamp.wrapping_sub(self.turns.last) <= 1
    }

    /// Takes the next that is likely to go on, after two have done so in their order: the page that
    /// its reader will come to, and how many pages it read.
    pub(in crate::prefetch) fn next_in_turn(&mut self) -> Option<(PageIndex, Pages)> {
        if self.turns.in_a_row < ROW_MIN || self.turns.last == self.arrivals {
            return None;
        }
        let stamp = self.turns.last.wrapping_add(1);
        let slot = self.turns.last as usize % Self::TENTATIVE_MAX;
        let entry = self.tentative.entries().get(slot)?;
        let is_it = entry.stamp == stamp && entry.is_random() && entry.is_there();
        if !is_it || entry.way != super::StreamDirection::FORWARDS {
            return None;
        }
        // Whatever comes of it, it was taken.
        self.turns.last = stamp;
        Some((entry.end, entry.end - entry.start))
    }
}

/// One that goes on is one stream. Two in the order in which they came are turns.
const ROW_MIN: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn random(number: u64) -> StreamEntry {
        StreamEntry::random(PageIndex(1000 * number), PageIndex(1000 * number + 4), 1)
    }

    /// Streams that have read at 1000, 2000, .. once.
    fn begun(count: u64) -> Streams {
        let mut streams = Streams::default();
        (1..=count).for_each(|number| streams.add_tentative(random(number)));
        streams
    }

    fn goes_on(streams: &mut Streams, number: u64) {
        let start = PageIndex(1000 * number + 4);
        let place = streams.around(start).expect("it is remembered");
        let marker = Some(start + Pages(4));
        streams.update(place, StreamEntry::new(start, start + Pages(16), marker, Pages(16)));
    }

    fn taken(streams: &mut Streams) -> Vec<u64> {
        core::iter::from_fn(|| streams.next_in_turn().map(|(page, _)| page.0 / 1000)).collect()
    }

    #[test]
    fn after_two_in_their_order_all_others_are_next() {
        let mut streams = begun(6);
        goes_on(&mut streams, 1);
        assert_eq!(taken(&mut streams), []);
        goes_on(&mut streams, 2);
        assert_eq!(taken(&mut streams), [3, 4, 5, 6]);
        assert_eq!(taken(&mut streams), [], "each once");
    }

    #[test]
    fn what_is_read_of_each_is_the_size_of_its_read() {
        let mut streams = begun(3);
        goes_on(&mut streams, 1);
        goes_on(&mut streams, 2);
        assert_eq!(streams.next_in_turn(), Some((PageIndex(3004), Pages(4))));
        // It is given its window: the next question finds it so.
        goes_on(&mut streams, 3);
        assert_eq!(streams.next_in_turn(), None);
    }

    #[test]
    fn in_another_order_or_with_reads_between_nothing_is_next() {
        let mut streams = begun(6);
        goes_on(&mut streams, 3);
        goes_on(&mut streams, 2);
        assert_eq!(taken(&mut streams), []);
        let mut streams = begun(6);
        goes_on(&mut streams, 1);
        streams.add_tentative(random(9));
        goes_on(&mut streams, 2);
        assert_eq!(taken(&mut streams), [], "one came between: these are no turns");
        goes_on(&mut streams, 3);
        assert_eq!(taken(&mut streams), [4, 5, 6, 9]);
    }

    #[test]
    fn one_that_was_pushed_out_or_read_on_at_random_ends_the_row() {
        let mut streams = begun(80);
        goes_on(&mut streams, 70);
        goes_on(&mut streams, 71);
        let place = streams.around(PageIndex(73_004)).unwrap();
        streams.update(place, StreamEntry::random(PageIndex(73_004), PageIndex(73_008), 2));
        assert_eq!(taken(&mut streams), [72]);
    }
}
