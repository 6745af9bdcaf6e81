//! One remembered stream: its pages ahead, its marker and its direction.
//!
//! The entries of a file are in [`super::set`].

use core::ops::Range;

use crate::prefetch::memory_shares::ShareId;
use crate::prefetch::run_lengths::CountedRun;
use crate::units::{PageIndex, Pages};

/// Pages ahead of one stream.
///
/// ```text
///   forwards     start: its reader was here      marker                end
///                |===============================#====================|
///   backwards    start                 marker              end: its reader was here
///                |====================#====================|
///   strided      start: here   marker        end: its next piece
///                |=|.......|=|.......#=|.......|=|.......|
///   random       start     end: its read
///                |---------|
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::prefetch) struct StreamEntry {
    pub(in crate::prefetch) start: PageIndex,
    pub(in crate::prefetch) end: PageIndex,
    /// Page whose use requests the next window, or [`NO_MARKER`].
    pub(super) marker: PageIndex,
    /// Size from which the next window grows; 0 for a random read.
    pub(in crate::prefetch) pace: Pages,
    /// Value of `arrivals` or `meetings` at the last match.
    pub(super) stamp: u32,
    /// For a tentative stream, its consecutive random reads, even if the first brought a window;
    /// for a confirmed one, the value of `arrivals` at its last match; for a strided one, the pages
    /// of a piece.
    pub(in crate::prefetch) reads: u32,
    pub(in crate::prefetch) way: StreamDirection,
    /// Its share of the memory, if the memory is divided.
    pub(super) share: ShareId,
    /// Pages that its reader had read at the last match.
    pub(super) run: u32,
    /// Run in which it was counted as ended.
    pub(super) counted: CountedRun,
}

/// Direction of a stream: 0 forwards, the distance in pages between the starts of two pieces, or
/// [`StreamDirection::BACKWARDS`]. One number, because an entry has no room for more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::prefetch) struct StreamDirection(u32);

/// Slot of an entry, valid until the next change.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::prefetch) enum StreamSlot {
    Confirmed(usize),
    Tentative(usize),
}

impl StreamEntry {
    /// A free slot. No question finds it: page 0 is always a start.
    pub(super) const NOWHERE: Self = Self::new(PageIndex(0), PageIndex(0), None, Pages::ZERO);

    pub(in crate::prefetch) const fn new(
        start: PageIndex,
        end: PageIndex,
        marker: Option<PageIndex>,
        pace: Pages,
    ) -> Self {
        let marker = match marker {
            Some(marker) => marker,
            None => NO_MARKER,
        };
        debug_assert!(start.0 <= end.0, "a stream ends before it starts");
        let (way, share) = (StreamDirection::FORWARDS, ShareId::NONE);
        let counted = CountedRun::NOWHERE;
        Self { start, end, marker, pace, stamp: 0, reads: 0, way, share, run: 0, counted }
    }

    /// Returns the page whose use requests the next window.
    pub(in crate::prefetch) fn marker(&self) -> Option<PageIndex> {
        (self.marker != NO_MARKER).then_some(self.marker)
    }

    /// Creates the entry of consecutive random reads: their position, and nothing ahead.
    pub(in crate::prefetch) fn random(start: PageIndex, end: PageIndex, reads: u32) -> Self {
        Self { reads, ..Self::new(start, end, None, Pages::ZERO) }
    }

    /// Sets the direction; `reads` are the pages of a piece if the stream is strided.
    pub(in crate::prefetch) fn going(self, way: StreamDirection, reads: u32) -> Self {
        Self { way, reads, ..self }
    }

    /// Extends the entry by a read just before it.
    pub(in crate::prefetch) fn after_read_before(self, start: PageIndex) -> Self {
        Self { start, reads: self.reads + 1, ..self }
    }

    /// Sets the pages that its reader has read so far.
    pub(in crate::prefetch) fn after(self, pages: Pages) -> Self {
        Self { run: u32::try_from(pages.0).unwrap_or(u32::MAX), ..self }
    }

    /// Returns the value of `reads` for a stream that is matched after this many arrivals.
    pub(super) fn reads_when_met(&self, arrivals: u32) -> u32 {
        if self.way.stride().is_some() { self.reads } else { arrivals }
    }

    /// Returns true if it is a confirmed backward stream, which takes three reads.
    pub(in crate::prefetch) fn is_backwards(&self) -> bool {
        self.way == StreamDirection::BACKWARDS && !self.is_random()
    }

    /// Returns true if it goes forwards without gaps.
    pub(super) fn is_forwards(&self) -> bool {
        self.is_there() && !self.is_random() && self.way == StreamDirection::FORWARDS
    }

    pub(in crate::prefetch) fn is_random(&self) -> bool {
        self.pace == Pages::ZERO
    }

    /// Returns true if this page is ahead of its reader, or is the one where it continues.
    pub(super) fn is_next(&self, page: PageIndex) -> bool {
        match self.way.stride() {
            _ if self.is_random() => page == self.end,
            Some(stride) => (page - self.start).0.is_multiple_of(stride.0),
            None if self.way == StreamDirection::BACKWARDS => page < self.end,
            None => true,
        }
    }

    /// Returns true if a read of `pages` ends at the start of this backward or tentative stream. It
    /// may include its first page, since reads need not end at page boundaries.
    pub(super) fn is_before(&self, pages: &Range<PageIndex>) -> bool {
        let overlap = pages.end.0.saturating_sub(self.start.0);
        let is_next = pages.start < self.start && self.start <= pages.end;
        let may_turn = self.way == StreamDirection::FORWARDS && self.reads > 0 && overlap <= 1;
        is_next && (self.way == StreamDirection::BACKWARDS || may_turn)
    }

    /// Returns the number of pages ahead of a reader at `page`.
    pub(super) fn ahead_of(&self, page: PageIndex, file_end: PageIndex) -> Pages {
        let end = self.end.min(file_end);
        match self.way.stride() {
            None if self.way == StreamDirection::BACKWARDS => {
                Pages(page.0.saturating_sub(self.start.0))
            }
            None => Pages(end.0.saturating_sub(page.0)),
            Some(stride) => {
                let pieces = end.0.saturating_sub(page.0).div_ceil(stride.0);
                Pages(pieces * u64::from(self.reads))
            }
        }
    }

    /// Returns the index of this page among the stream's own pages.
    pub(super) fn position(&self, page: PageIndex) -> PageIndex {
        let piece = u64::from(self.reads);
        self.way.stride().map_or(page, |stride| PageIndex(page.0 / stride.0 * piece))
    }

    /// Returns its share of the memory, if any, and the number of its pages before `page`.
    pub(in crate::prefetch) fn share_at(&self, page: PageIndex) -> Option<(ShareId, PageIndex)> {
        (self.share != ShareId::NONE).then(|| (self.share, self.position(page)))
    }

    /// Returns the number of pages that its reader had read before a read of `count` pages at
    /// `page`.
    pub(in crate::prefetch) fn run_before(&self, page: PageIndex, count: Pages) -> u64 {
        let run = u64::from(self.run);
        if self.way == StreamDirection::BACKWARDS {
            return (run + self.end.0.saturating_sub(page.0)).saturating_sub(count.0);
        }
        run + self.position(page).0.saturating_sub(self.position(self.start).0)
    }

    /// Returns the number of pages that it had read at its last match.
    pub(in crate::prefetch) fn run(&self) -> u64 {
        u64::from(self.run)
    }

    /// Returns the number of pages that it will have read at the end of its window.
    pub(in crate::prefetch) fn run_at_end(&self, file_end: PageIndex) -> u64 {
        let from = if self.way == StreamDirection::BACKWARDS { self.end } else { self.start };
        u64::from(self.run) + self.ahead_of(from, file_end).0
    }

    /// Returns the last unread page of its window, if the file ends there.
    ///
    /// ```text
    ///   |=== read ===|------ ahead ------U..u...uu|FF|    F: a footer that was read at first
    ///                                    8   4  2 1       probed from the end, in doubling steps
    /// ```
    ///
    /// The page found may be off by the length of the last step. If all are read, returns the last
    /// page of the file.
    pub(super) fn last_page(
        &self,
        file_end: PageIndex,
        mut is_unread: impl FnMut(PageIndex) -> bool,
    ) -> Option<PageIndex> {
        let is_backwards = self.way == StreamDirection::BACKWARDS;
        let is_last = if is_backwards { self.start.0 == 0 } else { self.end >= file_end };
        let from = if is_backwards { self.end } else { self.start };
        let ahead = self.ahead_of(from, file_end).0;
        if !is_last {
            return None;
        }
        let end = PageIndex(file_end.0.saturating_sub(1));
        let mut pages = (0..)
            .map_while(|n| ahead.checked_sub(1 << n))
            .map(|number| self.nth_ahead(number).min(end));
        pages
            .find(|page| is_unread(*page))
            .or(Some(self.nth_ahead(ahead.saturating_sub(1)).min(end)))
    }

    /// Returns the page that its reader reads after `number` more, counted from its last match.
    pub(in crate::prefetch) fn nth_ahead(&self, number: u64) -> PageIndex {
        let piece = u64::from(self.reads).max(1);
        match self.way.stride() {
            None if self.way == StreamDirection::BACKWARDS => PageIndex(self.end.0 - 1 - number),
            None => self.start + Pages(number),
            Some(stride) => self.start + Pages(number / piece * stride.0 + number % piece),
        }
    }

    /// Carries over the state of the entry that it continues.
    pub(super) fn gone_on_from(self, before: &Self) -> Self {
        let is_backwards = self.way == StreamDirection::BACKWARDS;
        let was_backwards = before.way == StreamDirection::BACKWARDS || before.is_random();
        let pages = match (was_backwards, is_backwards) {
            (true, true) => before.end.0.abs_diff(self.end.0),
            // The end of a window forwards is no page that was read.
            (false, true) => 0,
            (_, false) => self.position(self.start).0.saturating_sub(self.position(before.start).0),
        };
        let run = u64::from(before.run).saturating_add(pages).max(u64::from(self.run));
        let run = u32::try_from(run).unwrap_or(u32::MAX);
        Self { run, share: before.share, counted: CountedRun::NOWHERE, ..self }
    }

    pub(super) fn is_there(&self) -> bool {
        self.end > PageIndex(0)
    }
}

impl StreamDirection {
    pub(in crate::prefetch) const FORWARDS: Self = Self(0);
    pub(in crate::prefetch) const BACKWARDS: Self = Self(u32::MAX);

    /// Returns the direction of pieces at this distance, if it fits an entry.
    pub(in crate::prefetch) fn strided(stride: Pages) -> Option<Self> {
        let way = Self(u32::try_from(stride.0).ok()?);
        (way != Self::FORWARDS && way != Self::BACKWARDS).then_some(way)
    }

    pub(in crate::prefetch) fn stride(self) -> Option<Pages> {
        let is_strided = self != Self::FORWARDS && self != Self::BACKWARDS;
        is_strided.then(|| Pages(u64::from(self.0)))
    }
}

/// Page index that means no marker.
pub(super) const NO_MARKER: PageIndex = PageIndex(u64::MAX);
