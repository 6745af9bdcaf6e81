//! Set of windows, searched by page in lanes of eight.
//!
//! ```text
//!   lanes     starts s s s s s s s s | lens n n n n n n n n     page - s <= n, eight at a time
//!   entries   |e|e|e|e|e|e|e|e|e|e|e|e|                         and then exactly
//! ```
//!
//! Every random read searches the set in vain. Lanes make that fast: 32 bits of a page suffice to
//! exclude an entry, and eight such comparisons take a few instructions.

use alloc::vec::Vec;
use core::ops::Range;

use super::entry::StreamEntry;
use crate::prefetch::run_lengths::CountedRun;
use crate::units::PageIndex;

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct StreamSet {
    lanes: Vec<SearchLane>,
    entries: Vec<StreamEntry>,
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct SearchLane {
    starts: [u32; LANE],
    lens: [u32; LANE],
    /// Starts of the entries; a random read only has its end as a start.
    heads: [u32; LANE],
}

const LANE: usize = 8;

impl StreamSet {
    /// Memory per entry, for a multiple of eight entries.
    pub(super) const BYTES_PER_ENTRY: usize =
        size_of::<StreamEntry>() + size_of::<SearchLane>() / LANE;

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn entries(&self) -> &[StreamEntry] {
        &self.entries
    }

    pub(super) fn get(&self, index: usize) -> &StreamEntry {
        &self.entries[index]
    }

    /// Returns the first entry that covers the page and satisfies `is_it`.
    #[inline]
    pub(super) fn find(
        &self,
        page: PageIndex,
        is_it: impl Fn(&StreamEntry) -> bool,
    ) -> Option<usize> {
        let low = low_half(page.0);
        for (number, lane) in self.lanes.iter().enumerate() {
            let mut is_near = false;
            for (start, len) in lane.starts.iter().zip(&lane.lens) {
                is_near |= low.wrapping_sub(*start) <= *len;
            }
            if is_near {
                let first = number * LANE;
                let entries = self.entries[first..].iter().take(LANE);
                let found = entries
                    .clone()
                    .position(|entry| entry.start <= page && page <= entry.end && is_it(entry));
                if let Some(index) = found {
                    return Some(first + index);
                }
            }
        }
        None
    }

    /// Returns the first entry that begins after the first of `pages`, or just at their end, and
    /// satisfies `is_it`.
    #[inline]
    pub(super) fn find_start(
        &self,
        pages: &Range<PageIndex>,
        is_it: impl Fn(&StreamEntry) -> bool,
    ) -> Option<usize> {
        debug_assert!(pages.start < pages.end, "streams are looked for in some pages");
        let low = low_half(pages.start.0 + 1);
        let most = u32::try_from(pages.end.0 - pages.start.0 - 1).unwrap_or(u32::MAX);
        for (number, lane) in self.lanes.iter().enumerate() {
            let mut is_near = false;
            for head in &lane.heads {
                is_near |= head.wrapping_sub(low) <= most;
            }
            if is_near {
                let first = number * LANE;
                if let Some(index) = self.entries[first..].iter().take(LANE).position(&is_it) {
                    return Some(first + index);
                }
            }
        }
        None
    }

    pub(super) fn push(&mut self, entry: StreamEntry) {
        if self.entries.len() == self.lanes.len() * LANE {
            self.lanes.push(SearchLane::default());
        }
        debug_assert!(self.entries.len() < self.lanes.len() * LANE, "each entry has its lane");
        self.entries.push(entry);
        self.set(self.entries.len() - 1, entry);
    }

    pub(super) fn set(&mut self, index: usize, entry: StreamEntry) {
        debug_assert!(entry.start <= entry.end, "{entry:?} ends before it starts");
        self.entries[index] = entry;
        let lane = &mut self.lanes[index / LANE];
        lane.heads[index % LANE] = low_half(entry.start.0);
        if entry.is_random() {
            (lane.starts[index % LANE], lane.lens[index % LANE]) = (low_half(entry.end.0), 0);
            return;
        }
        lane.starts[index % LANE] = low_half(entry.start.0);
        // Longer windows always pass the first comparison.
        lane.lens[index % LANE] = u32::try_from(entry.end.0 - entry.start.0).unwrap_or(u32::MAX);
    }
}

impl StreamSet {
    /// Records in which run an entry was counted as ended.
    pub(super) fn set_counted(&mut self, index: usize, counted: CountedRun) {
        self.entries[index].counted = counted;
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the rest is looked at afterwards")]
fn low_half(page: u64) -> u32 {
    page as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Pages;

    fn entry(start: u64, end: u64) -> StreamEntry {
        StreamEntry::new(PageIndex(start), PageIndex(end), None, Pages(1))
    }

    #[test]
    fn a_page_is_found_from_the_start_to_the_end_and_nowhere_else() {
        let mut set = StreamSet::default();
        for number in 0..30 {
            set.push(entry(100 * number + 50, 100 * number + 60));
        }
        set.set(17, entry(1 << 40, (1 << 40) + (1 << 33)));
        for page in 0..3000 {
            let number = usize::try_from(page / 100).unwrap();
            let want = (number != 17 && (50..=60).contains(&(page % 100))).then_some(number);
            assert_eq!(set.find(PageIndex(page), |_| true), want, "{page}");
            let alike = PageIndex(page + (1 << 32));
            assert_eq!(set.find(alike, |_| true), None, "only its low half is alike: {page}");
        }
        let far = |page| set.find(PageIndex(page), |_| true);
        assert_eq!(far((1 << 40) - 1), None);
        assert_eq!(far(1 << 40), Some(17));
        assert_eq!(far((1 << 40) + (1 << 33)), Some(17));
        assert_eq!(far((1 << 40) + (1 << 33) + 1), None);
    }
}
