//! One remembered stream: what lies ahead of it, where its marker is, which way it goes.
//!
//! In:    a window that was decided.
//! Out:   whether a page is ahead of its reader; how many pages are.
//! Never: a search. The entries of a file are in [`super::set`].

use core::ops::Range;

use crate::prefetch::memory_shares::ShareId;
use crate::prefetch::run_lengths::CountedRun;
use crate::units::{PageIndex, Pages};

/// What lies ahead of one stream.
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
    /// The page whose use asks for more; [`NO_MARKER`] if there is none, or no longer.
    pub(super) marker: PageIndex,
    /// The size that the next window grows from; 0 for a random read.
    pub(in crate::prefetch) pace: Pages,
    /// When it was last met: `arrivals` or `meetings`.
    pub(super) stamp: u32,
    /// How many random reads in a row made it, also if the first brought a window; of a confirmed
    /// stream, how many `arrivals` there
    /// were when it was last met; but of a strided one, the pages of a piece.
    pub(in crate::prefetch) reads: u32,
    pub(in crate::prefetch) way: StreamDirection,
    /// Its share of the memory, if the memory is shared out.
    pub(super) share: ShareId,
    /// How many pages its reader had read when it was met.
    pub(super) run: u32,
    /// Where it was counted as ended.
    pub(super) counted: CountedRun,
}

/// Where a stream goes: 0 forwards, or so many pages from the start of a piece to that of the next,
/// or [`StreamDirection::BACKWARDS`]. A number, because an entry has room for just that.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::prefetch) struct StreamDirection(u32);

/// Which entry, until the next change.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::prefetch) enum StreamSlot {
    Confirmed(usize),
    Tentative(usize),
}

impl StreamEntry {
    /// A place that is free again. No question finds it: page 0 is a start, whatever ends there.
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

    /// The page whose use asks for more.
    pub(in crate::prefetch) fn marker(&self) -> Option<PageIndex> {
        (self.marker != NO_MARKER).then_some(self.marker)
    }

    /// What random reads in a row leave: nothing ahead, and the place where they were.
    pub(in crate::prefetch) fn random(start: PageIndex, end: PageIndex, reads: u32) -> Self {
        Self { reads, ..Self::new(start, end, None, Pages::ZERO) }
    }

    /// The same, going another way; `reads` are the pages of a piece if it leaves gaps.
    pub(in crate::prefetch) fn going(self, way: StreamDirection, reads: u32) -> Self {
        Self { way, reads, ..self }
    }

    /// The same, after one more read, of what is just before it.
    pub(in crate::prefetch) fn after_read_before(self, start: PageIndex) -> Self {
        Self { start, reads: self.reads + 1, ..self }
    }

    /// The same, of a reader that has read `pages` already.
    pub(in crate::prefetch) fn after(self, pages: Pages) -> Self {
        Self { run: u32::try_from(pages.0).unwrap_or(u32::MAX), ..self }
    }

    /// What `reads` is of a confirmed stream that is met after so many arrivals.
    pub(super) fn reads_when_met(&self, arrivals: u32) -> u32 {
        if self.way.stride().is_some() { self.reads } else { arrivals }
    }

    /// Whether it is a stream that goes backwards: after three reads it is one.
    pub(in crate::prefetch) fn is_backwards(&self) -> bool {
        self.way == StreamDirection::BACKWARDS && !self.is_random()
    }

    /// Whether it is a stream that goes forwards without gaps.
    pub(super) fn is_forwards(&self) -> bool {
        self.is_there() && !self.is_random() && self.way == StreamDirection::FORWARDS
    }

    pub(in crate::prefetch) fn is_random(&self) -> bool {
        self.pace == Pages::ZERO
    }

    /// Whether this page was ahead of its reader, or is where it goes on.
    pub(super) fn is_next(&self, page: PageIndex) -> bool {
        match self.way.stride() {
            _ if self.is_random() => page == self.end,
            Some(stride) => (page - self.start).0.is_multiple_of(stride.0),
            None if self.way == StreamDirection::BACKWARDS => page < self.end,
            None => true,
        }
    }

    /// Whether a read of `pages` ends where this backward or tentative stream began: or it may have
    /// the first page of it too, where reads do not end with a page.
    pub(super) fn is_before(&self, pages: &Range<PageIndex>) -> bool {
        let overlap = pages.end.0.saturating_sub(self.start.0);
        let is_next = pages.start < self.start && self.start <= pages.end;
        let may_turn = self.way == StreamDirection::FORWARDS && self.reads > 0 && overlap <= 1;
        is_next && (self.way == StreamDirection::BACKWARDS || may_turn)
    }

    /// How many pages are ahead of a reader that is at `page`.
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

    /// The number of this page, if the stream's own pages are counted.
    pub(super) fn position(&self, page: PageIndex) -> PageIndex {
        let piece = u64::from(self.reads);
        self.way.stride().map_or(page, |stride| PageIndex(page.0 / stride.0 * piece))
    }

    /// Its share of the memory, if it has one, and how many of its pages are before `page`.
    pub(in crate::prefetch) fn share_at(&self, page: PageIndex) -> Option<(ShareId, PageIndex)> {
        (self.share != ShareId::NONE).then(|| (self.share, self.position(page)))
    }

    /// How many pages its reader had read before a read of `count` pages from `page` on.
    pub(in crate::prefetch) fn run_before(&self, page: PageIndex, count: Pages) -> u64 {
        let run = u64::from(self.run);
        if self.way == StreamDirection::BACKWARDS {
            return (run + self.end.0.saturating_sub(page.0)).saturating_sub(count.0);
        }
        run + self.position(page).0.saturating_sub(self.position(self.start).0)
    }

    /// How many it had read when it was met.
    pub(in crate::prefetch) fn run(&self) -> u64 {
        u64::from(self.run)
    }

    /// How many it will have read when it has come to the end of what is ahead of it.
    pub(in crate::prefetch) fn run_at_end(&self, file_end: PageIndex) -> u64 {
        let from = if self.way == StreamDirection::BACKWARDS { self.end } else { self.start };
        u64::from(self.run) + self.ahead_of(from, file_end).0
    }

    /// The unread page that its reader comes to last, if its file ends with what is ahead of it.
    ///
    /// ```text
    ///   |=== read ===|------ ahead ------U..u...uu|FF|    F: a footer that was read at first
    ///                                    8   4  2 1       looked at from the end, twice as far
    /// ```
    ///
    /// The page that is found may not be the last by as many as lie behind it. If none is unread,
    /// it is the last page of the file.
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

    /// The page that its reader reads after so many, counted from where it was met.
    pub(in crate::prefetch) fn nth_ahead(&self, number: u64) -> PageIndex {
        let piece = u64::from(self.reads).max(1);
        match self.way.stride() {
            None if self.way == StreamDirection::BACKWARDS => PageIndex(self.end.0 - 1 - number),
            None => self.start + Pages(number),
            Some(stride) => self.start + Pages(number / piece * stride.0 + number % piece),
        }
    }

    /// The same stream, which was `before` and is here now.
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

    /// The way of pieces that begin so far from each other, if it can be remembered.
    pub(in crate::prefetch) fn strided(stride: Pages) -> Option<Self> {
        let way = Self(u32::try_from(stride.0).ok()?);
        (way != Self::FORWARDS && way != Self::BACKWARDS).then_some(way)
    }

    pub(in crate::prefetch) fn stride(self) -> Option<Pages> {
        let is_strided = self != Self::FORWARDS && self != Self::BACKWARDS;
        is_strided.then(|| Pages(u64::from(self.0)))
    }
}

/// No file has this page.
pub(super) const NO_MARKER: PageIndex = PageIndex(u64::MAX);
