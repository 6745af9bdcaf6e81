//! Chooses where to read next: ranges that this run has not read yet, while there are any.
//!
//! Streams proceed from a random start and wrap around; random reads are spread over the target. An
//! offset repeats only when none is unread, because a cache below would answer.

use std::ops::Range;

use foreread_core::units::PAGE_SIZE;

use super::intervals::Intervals;
use crate::rng::Rng;

/// Read positions in a target.
#[derive(Clone, Debug)]
pub(crate) struct ReadOffsets {
    parts: Vec<Range<u64>>,
    /// Start of the next stream.
    cursor: u64,
    read: Intervals,
    random: Rng,
}

impl ReadOffsets {
    pub(crate) fn new(parts: &[Range<u64>], seed: u64) -> Self {
        assert!(!parts.is_empty(), "a target has something to read");
        let mut places = Self {
            parts: parts.to_vec(),
            cursor: 0,
            read: Intervals::default(),
            random: Rng(seed),
        };
        places.cursor = places.anywhere(PAGE).map_or(parts[0].start, |place| place.start);
        places
    }

    /// Returns a copy with other random offsets, for a reader that runs in parallel.
    pub(crate) fn elsewhere(&self, number: u64) -> Self {
        let mut random = Rng(self.random.clone().any() ^ number);
        random.any();
        Self { random, ..self.clone() }
    }

    /// Returns the ranges after the cursor: the rest of its part, then the other parts, then the
    /// beginning up to the cursor.
    pub(crate) fn onwards(&self) -> Vec<Range<u64>> {
        let cursor = self.cursor;
        let after = self.parts.iter().map(|part| part.start.max(cursor)..part.end);
        let before = self.parts.iter().map(|part| part.start..part.end.min(cursor));
        after.chain(before).filter(|part| part.start < part.end).collect()
    }

    /// Sets the start of the next stream.
    pub(crate) fn go_on_from(&mut self, cursor: u64) {
        self.cursor = cursor;
    }

    /// Records a read, and returns how much of it had been read before.
    pub(crate) fn read(&mut self, range: Range<u64>) -> u64 {
        let before = self.read.bytes_within(&range);
        self.read.insert(range);
        before
    }

    /// Returns the end of the part that contains this offset.
    pub(crate) fn end_of_part(&self, at: u64) -> u64 {
        self.parts.iter().find(|part| part.contains(&at)).map_or(at, |part| part.end)
    }

    /// Returns the size of all parts.
    pub(crate) fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.end - part.start).sum()
    }

    /// Returns a random range of `size` bytes, unread if one is found soon; None if no part is
    /// large enough.
    pub(crate) fn anywhere(&mut self, size: u64) -> Option<Range<u64>> {
        let align = if size.is_power_of_two() { size.max(PAGE) } else { PAGE };
        let mut found = None;
        for _ in 0..TRIES {
            let Some(place) = self.one(size, align).or_else(|| self.one(size, PAGE)) else {
                continue;
            };
            if self.read.bytes_within(&place) == 0 {
                return Some(place);
            }
            found = Some(place);
        }
        found
    }

    fn one(&mut self, size: u64, align: u64) -> Option<Range<u64>> {
        let mut skip = self.random.below(self.bytes());
        let part = self.parts.iter().find(|part| {
            let len = part.end - part.start;
            let is_here = skip < len;
            skip -= if is_here { 0 } else { len };
            is_here
        })?;
        let most = part.end.checked_sub(size)?;
        let start = (part.start + skip).min(most) / align * align;
        (start >= part.start).then(|| start..start + size)
    }
}

const PAGE: u64 = PAGE_SIZE;

/// Attempts at finding an unread range; on a mostly read target all may fail.
const TRIES: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_goes_around_and_tells_what_it_had_read() {
        let mut places = ReadOffsets::new(&[0..100 * PAGE, 200 * PAGE..300 * PAGE], 1);
        places.go_on_from(250 * PAGE);
        let onwards = places.onwards();
        assert_eq!(
            onwards,
            [250 * PAGE..300 * PAGE, 0..100 * PAGE, 200 * PAGE..250 * PAGE],
            "each byte once"
        );
        assert_eq!(places.read(250 * PAGE..300 * PAGE), 0);
        assert_eq!(places.read(240 * PAGE..260 * PAGE), 10 * PAGE);
        assert_eq!(places.end_of_part(99 * PAGE), 100 * PAGE);
        assert_eq!(places.bytes(), 200 * PAGE);
    }

    #[test]
    fn random_places_lie_in_parts_and_are_fresh_while_there_are_any() {
        let parts = [3 * PAGE..1000 * PAGE, 5000 * PAGE..5004 * PAGE];
        let mut places = ReadOffsets::new(&parts, 42);
        let mut read_before = 0;
        for _ in 0..100 {
            let place = places.anywhere(2 * PAGE).expect("there is room");
            assert_eq!(place.end - place.start, 2 * PAGE);
            assert_eq!(place.start % PAGE, 0);
            assert!(parts.iter().any(|part| part.start <= place.start && place.end <= part.end));
            read_before += places.read(place);
        }
        assert_eq!(read_before, 0);
        assert_eq!(places.anywhere(2000 * PAGE), None);
    }
}
