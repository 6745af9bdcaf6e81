//! Positions that a program reads in turn: after one read each, they continue in the same order.
//!
//! ```text
//!   reads      a b c d e f | a' b'          each begins somewhere; a and b continue in this order
//!                                c' d' e' f'     likely next: all may be requested at once
//! ```
//!
//! On a remote device each of them would otherwise wait for its own request, one after the other.
//! Other reads in between end the turns.

use super::Streams;
use super::entry::{StreamEntry, StreamSlot};
use crate::units::{PageIndex, Pages};

/// Order in which tentative streams continued, since the last one was added.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Turns {
    /// Arrival number of the stream that continued last.
    last: u32,
    /// Streams that continued in the order of their arrival, up to that one; 0 for none.
    in_a_row: u8,
}

impl Streams {
    /// Records that a stream continues; `before` is its old entry.
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

    /// Returns true if this stream, or the one that arrived just before it, has just continued.
    pub(in crate::prefetch) fn is_in_turn(&self, entry: &StreamEntry) -> bool {
        self.turns.in_a_row > 0 && entry.stamp.wrapping_sub(self.turns.last) <= 1
    }

    /// Takes the stream that probably continues next, after two in order: the page that its reader
    /// will reach, and the size of its read.
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
        // It is used up in any case.
        self.turns.last = stamp;
        Some((entry.end, entry.end - entry.start))
    }
}

/// Streams that must continue in order: one is just a stream, two are turns.
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
