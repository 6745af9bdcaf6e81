//! Finds the streams around a miss, with one search per question for several look-ups.

use core::ops::Range;

use super::entry::{StreamEntry, StreamSlot};
use super::{LatestStream, NearStreams, Streams};
use crate::prefetch::memory_shares::ShareId;
use crate::units::{PageIndex, Pages};

impl Streams {
    /// Searches for a missed read and keeps the result, on which its share, window and decision
    /// depend.
    pub(in crate::prefetch) fn note_near(&mut self, start: PageIndex, count: Pages) {
        let around = self.search_around(start);
        let pages = start..start + count;
        let before = if around.is_none() { self.search_beginning_in(&pages) } else { None };
        let slot =
            |found: Option<StreamSlot>| found.map_or_else(Default::default, LatestStream::of);
        // Reads of 16 TiB are not cached.
        let count = u32::try_from(count.0).unwrap_or(0);
        self.near = NearStreams { start, count, around: slot(around), before: slot(before) };
    }

    /// Returns the stream that has this page ahead of it, or continues with it.
    pub(in crate::prefetch) fn around(&self, page: PageIndex) -> Option<StreamSlot> {
        if self.near.count == 0 || self.near.start != page {
            return self.search_around(page);
        }
        debug_assert_eq!(self.near.around.place(), self.search_around(page), "it is still so");
        self.near.around.place()
    }

    /// Returns the start of the next forward stream behind this page with an active reader.
    pub(in crate::prefetch) fn next_begun(
        &self,
        page: PageIndex,
        is_read: impl Fn(ShareId) -> bool,
    ) -> Option<PageIndex> {
        let read = |entry: &&StreamEntry| entry.is_forwards() && is_read(entry.share);
        let others = self.confirmed.entries().iter().filter(read);
        others
            .map(|entry| PageIndex(entry.start.0.saturating_sub(entry.run())))
            .filter(|begun| *begun > page)
            .min()
    }

    /// Returns a backward stream, a random read, or a stream with a window that begins in `pages`
    /// or at their end, but not at the first page.
    pub(in crate::prefetch) fn beginning_in(&self, pages: &Range<PageIndex>) -> Option<StreamSlot> {
        let NearStreams { start, count, around, before } = self.near;
        let is_noted = count > 0 && *pages == (start..start + Pages(count.into()));
        if !is_noted || around.place().is_some() {
            return self.search_beginning_in(pages);
        }
        debug_assert_eq!(before.place(), self.search_beginning_in(pages), "it is still so");
        before.place()
    }
}
