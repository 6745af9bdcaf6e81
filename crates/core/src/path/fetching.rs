//! The path's cache as one read sees it: what it fetches becomes requests, what it consumes is
//! held.
//!
//! In:    the calls of [`crate::prefetch::walk`].
//! Out:   requests for the device, frames held for the reader, waits noted.
//! Never: a frame taken from the pages that the same read has yet to fetch.

use alloc::vec::Vec;
use core::ops::Range;

use super::ReadId;
use super::hints::HintedFrames;
use super::job::{PageFill, PageRun};
use super::law::PrefetchTerms;
use super::layout::{ExtentMap, FileLocation, PagePlace};
use super::parts::PartialFills;
use super::waiters::{Waiter, Waiters};
use crate::cache::{PageCache, Use};
use crate::prefetch::walk::PageSet;
use crate::prefetch::{Allotment, Ask, Residency, Streams};
use crate::stats::Stats;
use crate::table::{FileSlot, Frame};
use crate::units::{ByteCount, PAGE_SIZE, PageIndex, Pages, SECTORS_PER_PAGE, Sector, Sectors};

/// What a read takes from the cache, page by page.
#[derive(Debug)]
pub(super) struct ReadFrames {
    pub(super) id: Option<ReadId>,
    /// The pages that the read covers, clipped at the end of the file.
    pub(super) pages: Range<PageIndex>,
    /// Their frames, in order; [`NO_FRAME`] until the page is fetched.
    pub(super) frames: Vec<Frame>,
    /// How many of those are still to be fetched: so many frames are set aside.
    pub(super) missing: Pages,
    /// How many frames are still being filled.
    pub(super) outstanding: u32,
    /// The first page, if the read goes on in the middle of the page where the last one ended.
    pub(super) continues: Option<PageIndex>,
}

impl Default for ReadFrames {
    fn default() -> Self {
        let nothing = PageIndex(0)..PageIndex(0);
        Self {
            id: None,
            pages: nothing,
            frames: Vec::new(),
            missing: Pages::ZERO,
            outstanding: 0,
            continues: None,
        }
    }
}

impl ReadFrames {
    /// Holds the frames of all pages that are resident or on their way, and counts the others.
    pub(super) fn hold_what_is_resident(&mut self, cache: &mut PageCache, file: FileSlot) {
        assert!(self.frames.is_empty(), "a read starts once");
        self.missing = Pages::ZERO;
        let mut page = self.pages.start;
        while page < self.pages.end {
            match cache.look_up(file, page) {
                Some(entry) => {
                    cache.hold(entry.frame());
                    self.frames.push(entry.frame());
                }
                None => {
                    self.missing += Pages(1);
                    self.frames.push(NO_FRAME);
                }
            }
            page = page + Pages(1);
        }
    }

    /// Undoes [`Self::hold_what_is_resident`].
    pub(super) fn let_go(&mut self, cache: &mut PageCache) {
        for frame in self.frames.drain(..).filter(|frame| *frame != NO_FRAME) {
            cache.release(frame);
        }
    }
}

/// Stands for a frame that is not known yet.
const NO_FRAME: Frame = Frame(u32::MAX);

pub(super) struct PageInWalk<'a> {
    pub(super) cache: &'a mut PageCache,
    pub(super) waiters: &'a mut Waiters,
    pub(super) stats: &'a mut Stats,
    pub(super) runs: &'a mut Vec<PageRun>,
    pub(super) file: FileSlot,
    /// Pages that do not come with one request.
    pub(super) parts: &'a mut PartialFills,
    /// Where the file is on its device.
    pub(super) place: &'a FileLocation,
    /// Where in its layout the last page was found.
    pub(super) near: usize,
    pub(super) file_len: ByteCount,
    /// The largest request that the device takes.
    pub(super) max_io: Pages,
    /// Whether frames may be taken for read-ahead.
    pub(super) may_read_ahead: bool,
    /// Whether no use of this stream makes a page active.
    pub(super) no_reuse: bool,
    /// Where the pages of a hint are counted; None for a read and a marker.
    pub(super) hints: Option<&'a mut HintedFrames>,
    /// What streams share; None for a hint, and if the policy does not look at it.
    pub(super) law: Option<PrefetchTerms<'a>>,
    /// Where the fetches since the last decision first ended for want of frames.
    pub(super) cut_at: Option<PageIndex>,
    /// None for a marker and a hint: no read waits.
    pub(super) wanted: Option<&'a mut ReadFrames>,
}

impl Residency for PageInWalk<'_> {
    #[inline]
    fn history(&self, page: PageIndex, limit: Pages) -> Pages {
        self.cache.residency(self.file).history(page, limit)
    }

    #[inline]
    fn next_hole(&self, page: PageIndex, limit: Pages) -> Option<PageIndex> {
        self.cache.residency(self.file).next_hole(page, limit)
    }
}

impl PageSet for PageInWalk<'_> {
    fn is_resident(&self, page: PageIndex) -> bool {
        self.cache.look_up(self.file, page).is_some()
    }

    fn is_on_its_way(&self, page: PageIndex) -> bool {
        self.cache.look_up(self.file, page).is_some_and(|entry| !entry.is_up_to_date())
    }

    fn take_marker(&mut self, page: PageIndex) -> bool {
        let taken = self.cache.take_marker(self.file, page);
        self.stats.markers += u64::from(taken);
        taken
    }

    /// ```text
    ///   pages      |===|..|=======|===|---------|      = not resident   . resident
    ///   requests   |---|  |-------|---|                - no frame is left
    ///                        max_io
    /// ```
    fn fetch(&mut self, pages: Range<PageIndex>, marker: Option<PageIndex>) -> Pages {
        let first_new = self.runs.len();
        let mut fetched = Pages::ZERO;
        let mut page = pages.start;
        while page < pages.end {
            if self.cache.look_up(self.file, page).is_none() {
                let Some(use_) = self.frame_for(page) else {
                    match self.hints {
                        Some(_) => self.stats.hints_shortened += 1,
                        None => self.stats.windows_shortened += 1,
                    }
                    self.cut_at.get_or_insert(page);
                    // What is wanted lies behind it if the window goes backwards.
                    let wanted = self.wanted.as_ref().map(|wanted| wanted.pages.start);
                    let Some(wanted) = wanted.filter(|wanted| *wanted > page) else { break };
                    page = wanted;
                    continue;
                };
                let filling = self.cache.start_fill(self.file, page, use_, marker == Some(page));
                if let Some(hints) = &mut self.hints {
                    hints.add(&filling, self.cache);
                }
                let fill = PageFill::whole(filling, page_len(self.file_len, page));
                match self.place {
                    FileLocation::Run(start) => {
                        let start = *start + Sectors(page.0 * SECTORS_PER_PAGE);
                        self.append(start, fill, use_, first_new);
                    }
                    FileLocation::Pieces(layout) => {
                        self.append_pieces(layout, page, fill, use_, first_new);
                    }
                }
                fetched += Pages(1);
            }
            page = page + Pages(1);
        }
        fetched
    }

    /// The end of a hold puts a frame at the head of its list.
    fn rescue(&mut self, pages: Range<PageIndex>) {
        let mut page = pages.start;
        while page < pages.end {
            if let Some(entry) = self.cache.look_up(self.file, page) {
                self.cache.hold(entry.frame());
                self.cache.release(entry.frame());
            }
            page = page + Pages(1);
        }
    }

    fn consume(&mut self, page: PageIndex) {
        let wanted = self.wanted.as_mut().expect("only a read consumes");
        let entry = self.cache.look_up(self.file, page).expect("a consumed page was fetched");
        let frame = &mut wanted.frames[place_of(wanted.pages.start, page)];
        let is_new = *frame == NO_FRAME;
        if is_new {
            // Wanted when it was asked for: that was its first use.
            *frame = entry.frame();
            self.cache.hold(*frame);
        } else {
            let continues = self.no_reuse || wanted.continues == Some(page);
            self.cache.touch(self.file, page, continues);
        }
        if !entry.is_up_to_date() {
            self.stats.pages_joined += u64::from(!is_new);
            wanted.outstanding += 1;
            let id = wanted.id.expect("a read has an id");
            self.waiters.add(*frame, Waiter::Read(id));
        }
    }

    fn terms(&mut self, file: &Streams, ask: Ask, max: Pages) -> Allotment {
        let Some(law) = &mut self.law else { return Allotment { max, lead: None } };
        let set_aside = self.wanted.as_ref().map_or(Pages::ZERO, |wanted| wanted.missing);
        law.terms(self.cache, self.file, file, ask, max, set_aside)
    }

    fn decided(&mut self, file: &mut Streams) {
        let cut_at = self.cut_at.take();
        if let Some(law) = &mut self.law {
            let file_end = PageIndex(self.file_len.pages_up().0);
            law.decided(file, file_end, cut_at, &self.cache.residency(self.file));
        }
    }
}

impl PageInWalk<'_> {
    /// Whether a frame may be had for this page, and for what use.
    ///
    /// Pages of the read itself always get one: so many were set aside when it started. Pages ahead
    /// get what is left over, and nothing while another read waits for frames.
    fn frame_for(&mut self, page: PageIndex) -> Option<Use> {
        let set_aside = match &mut self.wanted {
            Some(wanted) if wanted.pages.contains(&page) => {
                wanted.missing -= Pages(1);
                self.stats.pages_missed += 1;
                return Some(Use::Wanted);
            }
            Some(wanted) => wanted.missing,
            None => Pages::ZERO,
        };
        if !self.may_read_ahead || self.cache.available() <= set_aside {
            return None;
        }
        if let Some(room) = self.law.as_mut().and_then(|law| law.room.as_mut()) {
            *room = Pages(room.0.checked_sub(1)?);
        }
        if let Some(hints) = &mut self.hints {
            if !hints.have_room(self.cache) {
                return None;
            }
            self.stats.pages_hinted += 1;
            Some(Use::Hinted)
        } else {
            self.stats.pages_ahead += 1;
            Some(Use::Ahead)
        }
    }

    /// Adds the page to the newest run if it is its neighbour and fits, else begins another. A
    /// window is one request whether or not a read waits for part of it.
    fn append(&mut self, start: Sector, fill: PageFill, use_: Use, first_new: usize) {
        let is_ahead = use_ != Use::Wanted;
        let fill = match self.runs[first_new..].last_mut() {
            Some(last) => last.append(start, fill, is_ahead, self.max_io),
            None => Err(fill),
        };
        if let Err(fill) = fill {
            self.runs.push(PageRun::of_page(start, fill, is_ahead));
        }
    }

    /// The same for a page that may lie anywhere.
    fn append_pieces(
        &mut self,
        layout: &ExtentMap,
        page: PageIndex,
        fill: PageFill,
        use_: Use,
        first_new: usize,
    ) {
        match layout.page(page, &mut self.near) {
            PagePlace::At(start) => self.append(start, fill, use_, first_new),
            PagePlace::Hole => self.parts.add_hole(fill),
            PagePlace::Parts => {
                let PageFill { filling, len, .. } = fill;
                let mut count = 0;
                for (part, start) in layout.parts_of(page, len) {
                    let fill = PageFill::part(&filling, part, len);
                    match start {
                        Some(start) => self.append(start, fill, use_, first_new),
                        None => self.parts.add_hole(fill),
                    }
                    count += 1;
                }
                self.parts.begin(&filling, count);
            }
        }
    }
}

/// Which of a read's pages this is.
#[expect(clippy::cast_possible_truncation, reason = "a read has fewer pages than there are frames")]
fn place_of(first: PageIndex, page: PageIndex) -> usize {
    (page - first).0 as usize
}

/// How many bytes of the page the file has.
pub(super) fn page_len(file_len: ByteCount, page: PageIndex) -> u32 {
    (file_len - page.offset()).0.min(PAGE_SIZE) as u32
}
