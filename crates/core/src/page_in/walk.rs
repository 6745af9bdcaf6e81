//! A walk through pages of a file, driven by [`crate::prefetch::walk`] for a read, a marker or a
//! hint. Missing pages get frames and become requests; pages of the read are held for it. The walk
//! never takes a frame that the same read still needs.

use alloc::vec::Vec;
use core::ops::Range;

use super::read::ReadFrames;
use super::{FilePages, PageIn};
use crate::cache::Use;
use crate::device_queue::payload::{PageFill, PageRun};
use crate::ids::Waiter;
use crate::prefetch::Residency;
use crate::prefetch::hinted_frames::HintedFrames;
use crate::prefetch::walk::PageSet;
use crate::stats::Stats;
use crate::table::Frame;
use crate::units::{PageIndex, Pages, SECTORS_PER_PAGE, Sector, Sectors};

/// Reason for reading pages.
#[derive(Debug)]
pub(crate) enum Purpose<'a> {
    /// A read waits for some of them.
    Read(&'a mut ReadFrames),
    /// A reader met a marker.
    Marker,
    /// The application announced that it will need them.
    Hint(&'a mut HintedFrames),
}

/// A walk through some pages of a file.
#[derive(Debug)]
pub(crate) struct PageInWalk<'a> {
    pub(crate) page_in: &'a mut PageIn,
    pub(crate) stats: &'a mut Stats,
    pub(crate) file: FilePages<'a>,
    pub(crate) purpose: Purpose<'a>,
    /// True if pages may be read ahead.
    pub(crate) may_read_ahead: bool,
    /// Frames left for pages ahead; None for no limit.
    pub(crate) frames_ahead: Option<Pages>,
    /// Largest gap of resident pages that is read again, and discarded, if that joins two requests.
    pub(crate) bridge: Pages,
    /// True if uses by this stream never make a page active.
    pub(crate) no_reuse: bool,
    /// First page since the last plan that got no frame.
    pub(crate) cut_at: Option<PageIndex>,
    /// Requests built so far.
    pub(crate) runs: Vec<PageRun>,
    /// Pages already in flight that the read waits for.
    pub(crate) joined: Vec<(PageIndex, Frame)>,
    /// Position in the extent map where the last page was found.
    near: usize,
}

impl<'a> PageInWalk<'a> {
    pub(crate) fn new(
        page_in: &'a mut PageIn,
        stats: &'a mut Stats,
        file: FilePages<'a>,
        purpose: Purpose<'a>,
        may_read_ahead: bool,
    ) -> Self {
        assert!(file.max_io > Pages::ZERO, "a device takes at least a page at once");
        Self {
            page_in,
            stats,
            file,
            purpose,
            may_read_ahead,
            frames_ahead: None,
            bridge: Pages::ZERO,
            no_reuse: false,
            cut_at: None,
            runs: Vec::new(),
            joined: Vec::new(),
            near: 0,
        }
    }

    /// Returns the number of frames set aside for missing pages of the read.
    pub(crate) fn set_aside(&self) -> Pages {
        match &self.purpose {
            Purpose::Read(frames) => frames.missing,
            Purpose::Marker | Purpose::Hint(_) => Pages::ZERO,
        }
    }

    /// Returns the use for which this page may get a frame, or None.
    ///
    /// Pages of the read itself always get one, because their frames were set aside when it
    /// started. Pages ahead get the remaining frames, and none while another read waits for frames.
    fn frame_for(&mut self, page: PageIndex) -> Option<Use> {
        if let Purpose::Read(frames) = &mut self.purpose
            && frames.pages.contains(&page)
        {
            assert!(frames.missing > Pages::ZERO, "{page:?} was counted when the read started");
            frames.missing -= Pages(1);
            self.stats.pages_missed += 1;
            return Some(Use::Wanted);
        }
        if !self.may_read_ahead || self.page_in.cache.available() <= self.set_aside() {
            return None;
        }
        if let Some(frames) = &mut self.frames_ahead {
            *frames = Pages(frames.0.checked_sub(1)?);
        }
        if let Purpose::Hint(hints) = &mut self.purpose {
            if !hints.have_room(&mut self.page_in.cache) {
                return None;
            }
            self.stats.pages_hinted += 1;
            Some(Use::Hinted)
        } else {
            self.stats.pages_ahead += 1;
            Some(Use::Ahead)
        }
    }

    /// Notes that a page got no frame. Returns the page to continue with: in a backwards window,
    /// the pages that the read needs are behind this one.
    fn cut(&mut self, page: PageIndex) -> Option<PageIndex> {
        self.cut_at.get_or_insert(page);
        match &self.purpose {
            Purpose::Read(frames) => {
                self.stats.windows_shortened += 1;
                Some(frames.pages.start).filter(|wanted| *wanted > page)
            }
            Purpose::Marker => {
                self.stats.windows_shortened += 1;
                None
            }
            Purpose::Hint(_) => {
                self.stats.hints_shortened += 1;
                None
            }
        }
    }

    /// Starts the fill of a page; only runs from `first_new` on may be extended.
    fn start_fill(&mut self, page: PageIndex, use_: Use, has_marker: bool, first_new: usize) {
        assert!(first_new <= self.runs.len(), "requests are only added");
        let Self { page_in, file, purpose, runs, near, .. } = self;
        let filling = page_in.cache.start_fill(file.slot, page, use_, has_marker);
        if let Purpose::Hint(hints) = purpose {
            hints.add(&filling, &page_in.cache);
        }
        let is_ahead = use_ != Use::Wanted;
        let fill = PageFill::whole(filling, file.page_len(page));
        let max_io = file.max_io;
        file.place(page, fill, near, &mut page_in.partial, |start, fill| {
            append(runs, first_new, start, fill, is_ahead, max_io);
        });
    }
}

impl PageInWalk<'_> {
    /// Handles resident pages after fetched ones. If the missing pages behind them can then join
    /// the same request, reads the resident ones again into frames that are discarded. Returns the
    /// page to continue with.
    ///
    /// ```text
    ///   pages      |-------|....|-----|              - missing   . resident
    ///   two        |= R + 7 ====|= R + 5 ==|         R: cost of a request, in pages of transfer
    ///   one        |= R + 7 + 4 + 5 ==|              cheaper, as long as a gap is smaller than R
    /// ```
    fn cross_gap(&mut self, pages: Range<PageIndex>, first_new: usize) -> PageIndex {
        let limit = self.bridge + Pages(1);
        let hole = self.next_hole(pages.start, limit).filter(|hole| *hole < pages.end);
        let Some(hole) = hole else {
            // The gap is too long, and so is any rest of it.
            return self.next_hole(pages.start, pages.end - pages.start).unwrap_or(pages.end);
        };
        if !self.can_cross(pages.start..hole, first_new) {
            return hole;
        }
        let mut page = pages.start;
        while page < hole {
            let filling = self.page_in.cache.start_discard();
            let fill = PageFill::whole(filling, self.file.page_len(page));
            let Self { page_in, file, runs, near, .. } = self;
            let max_io = file.max_io;
            file.place(page, fill, near, &mut page_in.partial, |start, fill| {
                append(runs, first_new, start, fill, true, max_io);
            });
            page = page + Pages(1);
        }
        hole
    }

    /// Returns true if this page gets a frame when one is free.
    fn may_have_frame(&self, page: PageIndex) -> bool {
        let is_wanted =
            matches!(&self.purpose, Purpose::Read(frames) if frames.pages.contains(&page));
        is_wanted || self.may_read_ahead && self.frames_ahead != Some(Pages::ZERO)
    }

    /// Returns true if a gap of resident pages, and the page behind it, can join the newest
    /// request: they are adjacent on the device, and frames are free for them.
    fn can_cross(&self, gap: Range<PageIndex>, first_new: usize) -> bool {
        if !self.may_have_frame(gap.end) {
            return false;
        }
        let pages = gap.end - gap.start;
        let free = self.page_in.cache.free().min(self.page_in.cache.available());
        let has_frames = free > self.set_aside() + pages;
        let Some(last) = self.runs[first_new..].last().filter(|_| has_frames) else { return false };
        let follows = |count: u64| {
            let page = gap.start + Pages(count);
            self.file.sector_of(page) == Some(last.end() + Sectors(count * SECTORS_PER_PAGE))
        };
        last.has_room(pages + Pages(1), self.file.max_io)
            && (0..=pages.0).all(follows)
            && (0..pages.0).all(|count| !self.is_in_flight(gap.start + Pages(count)))
    }
}

impl Residency for PageInWalk<'_> {
    #[inline]
    fn history(&self, page: PageIndex, limit: Pages) -> Pages {
        self.page_in.cache.residency(self.file.slot).history(page, limit)
    }

    #[inline]
    fn next_hole(&self, page: PageIndex, limit: Pages) -> Option<PageIndex> {
        self.page_in.cache.residency(self.file.slot).next_hole(page, limit)
    }
}

impl PageSet for PageInWalk<'_> {
    fn is_resident(&self, page: PageIndex) -> bool {
        self.page_in.cache.look_up(self.file.slot, page).is_some()
    }

    fn is_in_flight(&self, page: PageIndex) -> bool {
        let entry = self.page_in.cache.look_up(self.file.slot, page);
        entry.is_some_and(|entry| !entry.is_up_to_date())
    }

    fn take_marker(&mut self, page: PageIndex) -> bool {
        let taken = self.page_in.cache.take_marker(self.file.slot, page);
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
        let file_end = PageIndex(self.file.len.pages_up().0);
        debug_assert!(pages.is_empty() || pages.end <= file_end, "{pages:?} end behind the file");
        let mut fetched = Pages::ZERO;
        let mut page = pages.start;
        while page < pages.end {
            if !self.is_resident(page) {
                let Some(use_) = self.frame_for(page) else {
                    let Some(wanted) = self.cut(page) else { break };
                    page = wanted;
                    continue;
                };
                self.start_fill(page, use_, marker == Some(page), first_new);
                fetched += Pages(1);
            } else if fetched > Pages::ZERO && self.bridge > Pages::ZERO {
                page = self.cross_gap(page..pages.end, first_new);
                continue;
            }
            page = page + Pages(1);
        }
        debug_assert!(
            pages.start + fetched <= pages.end.max(pages.start),
            "a page is fetched once"
        );
        fetched
    }

    /// Moves resident pages to the head of their list, by taking and releasing a hold.
    fn rescue(&mut self, pages: Range<PageIndex>) {
        let cache = &mut self.page_in.cache;
        let mut page = pages.start;
        while page < pages.end {
            if let Some(entry) = cache.look_up(self.file.slot, page) {
                cache.hold(entry.frame());
                cache.release(entry.frame());
            }
            page = page + Pages(1);
        }
    }

    fn consume(&mut self, page: PageIndex) {
        let Purpose::Read(read) = &mut self.purpose else { panic!("only a read consumes pages") };
        let PageIn { cache, waiters, .. } = &mut *self.page_in;
        let slot = self.file.slot;
        let entry =
            cache.look_up(slot, page).expect("a page is consumed when it is resident or in flight");
        let is_new = read.take(page, entry.frame());
        if is_new {
            // Its first use was recorded when it was requested.
            cache.hold(entry.frame());
        } else {
            let continues = self.no_reuse || read.continues == Some(page);
            cache.touch(slot, page, continues);
        }
        if !entry.is_up_to_date() {
            if !is_new {
                self.stats.pages_joined += 1;
                self.joined.push((page, entry.frame()));
            }
            read.outstanding += 1;
            assert!(read.outstanding as usize <= read.frames.len(), "one wait for each page");
            let id = read.id.expect("a read gets its id when it begins");
            waiters.add(entry.frame(), Waiter::Read(id));
        }
    }
}

/// Appends the page to the newest run if it is adjacent and fits; otherwise starts a new run. A
/// window is one request whether or not a read waits for part of it.
fn append(
    runs: &mut Vec<PageRun>,
    first_new: usize,
    start: Sector,
    fill: PageFill,
    is_ahead: bool,
    max_io: Pages,
) {
    let fill = match runs[first_new..].last_mut() {
        Some(last) => last.append(start, fill, is_ahead, max_io),
        None => Err(fill),
    };
    if let Err(fill) = fill {
        runs.push(PageRun::of_page(start, fill, is_ahead));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::PageCache;
    use crate::extent_map::FileLocation;
    use crate::table::FileSlot;
    use crate::units::ByteCount;

    const FILE: FileSlot = FileSlot(0);

    /// Returns the requests of a window of ten pages, of which 3 and 4 are resident, if
    /// `frames_ahead` frames may be filled for it; and the number of frames taken.
    fn runs(may_read_ahead: bool, frames_ahead: u64) -> (Vec<u64>, u64) {
        let location = FileLocation::Contiguous(Sector(0));
        let len = ByteCount(100 << 12);
        let file = FilePages { slot: FILE, len, location: &location, max_io: Pages(64) };
        let mut page_in = PageIn::new(PageCache::new(PageCache::MIN_BOUND));
        for page in [3, 4] {
            let cache = &mut page_in.cache;
            let filling = cache.start_fill(FILE, PageIndex(page), Use::Wanted, false);
            cache.filled(filling);
        }
        let idle = page_in.cache.idle();
        let mut stats = Stats::default();
        let purpose = Purpose::Marker;
        let mut walk = PageInWalk::new(&mut page_in, &mut stats, file, purpose, may_read_ahead);
        (walk.bridge, walk.frames_ahead) = (Pages(8), Some(Pages(frames_ahead)));
        walk.fetch(PageIndex(0)..PageIndex(10), None);
        let sizes = walk.runs.iter().map(|run| run.job.page_count().0).collect();
        (sizes, (idle - page_in.cache.idle()).0)
    }

    #[test]
    fn a_gap_is_read_only_if_the_page_behind_it_gets_a_frame() {
        assert_eq!(runs(true, 8), (Vec::from([10]), 10));
        assert_eq!(runs(true, 4), (Vec::from([6]), 6));
        assert_eq!(runs(true, 3), (Vec::from([3]), 3));
        assert_eq!(runs(false, 8), (Vec::new(), 0));
    }
}
