//! What the path's requests carry: frames to fill or to write, or the names of direct requests.
//!
//! In:    pages of a window, dirty pages, a page that is tried again, a request that asks no cache.
//! Out:   what waits for its result.
//! Never: a merge that makes a caller wait longer, or that hides which page is bad.

use alloc::vec::Vec;
use core::ops::Range;

use crate::cache::Filling;
use crate::ids::{DirectId, DirtyId};
use crate::sched::{Payload, Request};
use crate::table::Frame;
use crate::units::{
    ByteCount, Nanos, PAGE_SIZE, Pages, SECTOR_SIZE, SECTORS_PER_PAGE, Sector, Sectors,
};

/// One page of a request, or a part of one.
#[derive(Debug, Eq, PartialEq)]
pub struct PageFill {
    /// The frame that it goes to.
    pub filling: Filling,
    /// Which part of it.
    pub part: PagePart,
    /// How many bytes of that the file has: all of them, but for a file's last page.
    pub len: u32,
}

/// A part of a page, in whole sectors: all of it, but where a page of a file lies in several places
/// of its device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PagePart {
    from: u16,
    len: u16,
}

/// One page of a write request.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct WritePage {
    pub(crate) dirty: DirtyId,
    pub(crate) frame: Frame,
    /// How many of its bytes the file has: all of them, but for a file's last page.
    pub(crate) len: u32,
}

/// What a request of the path carries: one of the three lists is not empty.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct IoPayload {
    /// Its pages, in the order of their sectors.
    pub(crate) pages: Vec<PageFill>,
    /// Those it writes, in the order of their sectors.
    pub(crate) writes: Vec<WritePage>,
    /// The direct requests that it serves.
    pub(crate) direct: Vec<DirectId>,
    /// Whether no caller waits for any of it.
    pub(crate) is_ahead: bool,
    /// Whether it is a second try of a page whose request failed.
    pub(crate) is_retry: bool,
    /// Whether a plan decided where it starts and ends.
    pub(crate) is_planned: bool,
    /// Whether its writes are done only when they are durable (FUA).
    pub(crate) is_fua: bool,
    /// How many requests of the flusher it was made of.
    pub(crate) parts: u32,
}

impl PageFill {
    /// A page that its device has in one place.
    pub(crate) fn whole(filling: Filling, len: u32) -> Self {
        assert!(len > 0 && u64::from(len) <= PAGE_SIZE, "a page of {len} bytes");
        Self { filling, part: PagePart::WHOLE, len }
    }

    /// A part of a page of which the file has so many bytes, from the page's start.
    #[expect(clippy::cast_possible_truncation, reason = "less than a page")]
    pub(crate) fn part(filling: &Filling, part: PagePart, page_len: u32) -> Self {
        let end = part.bytes().end.min(page_len as usize);
        assert!(part.bytes().start < end, "{part:?} has nothing of {page_len} bytes");
        Self { filling: filling.part(), part, len: (end - part.bytes().start) as u32 }
    }

    /// The end of its fill, while its request is still in flight: the request keeps what it says of
    /// the page, and must not end the fill again.
    pub(crate) fn ended(&self) -> Self {
        Self { filling: self.filling.part(), part: self.part, len: self.len }
    }

    /// Whether a result of so many bytes covers this page, which begins `from` bytes from the start
    /// of its request: a request may end early, at the end of a file or because a device stopped in
    /// the middle.
    ///
    /// ```text
    ///   page      0           1           2
    ///   |===========|===========|=====......|    10000 bytes cover 0 and 1, and 2 if the file
    ///                              ^10000        has at most 1808 bytes of it
    /// ```
    #[must_use]
    pub(crate) fn is_covered(&self, from: Sectors, result: ByteCount) -> bool {
        result >= from.bytes() + ByteCount(u64::from(self.len))
    }

    /// How many bytes of this page came with such a result.
    #[expect(clippy::cast_possible_truncation, reason = "at most a page")]
    pub(crate) fn got(&self, from: Sectors, result: ByteCount) -> u32 {
        result.saturating_sub(from.bytes()).0.min(u64::from(self.len)) as u32
    }
}

impl PagePart {
    /// All of it.
    #[expect(clippy::cast_possible_truncation, reason = "4096")]
    pub const WHOLE: Self = Self { from: 0, len: PAGE_SIZE as u16 };

    /// So many sectors of a page, from one of them on.
    #[expect(clippy::cast_possible_truncation, reason = "a page is short, and was looked at")]
    pub(crate) fn new(from: Sectors, sectors: Sectors) -> Self {
        assert!(sectors > Sectors::ZERO, "a part has at least one sector");
        assert!(from + sectors <= Sectors(SECTORS_PER_PAGE), "a part lies in its page");
        Self { from: from.bytes().0 as u16, len: sectors.bytes().0 as u16 }
    }

    /// Which bytes of the page.
    #[must_use]
    pub fn bytes(self) -> Range<usize> {
        usize::from(self.from)..usize::from(self.from) + usize::from(self.len)
    }

    pub(crate) fn is_whole(self) -> bool {
        self == Self::WHOLE
    }

    /// How long it is.
    pub(crate) fn sectors(self) -> Sectors {
        Sectors(u64::from(self.len) / SECTOR_SIZE)
    }
}

impl IoPayload {
    pub(crate) fn of_page(page: PageFill, is_ahead: bool) -> Self {
        Self { pages: Vec::from([page]), is_ahead, ..Self::default() }
    }

    /// A page of a request that failed, alone.
    pub(crate) fn again(page: PageFill) -> Self {
        Self { is_retry: true, ..Self::of_page(page, false) }
    }

    /// How many pages it reads; one that comes in parts counts with each of them.
    pub(crate) fn page_count(&self) -> Pages {
        Pages(self.pages.len() as u64)
    }

    /// The frames of its pages, in their order.
    pub(crate) fn frames(&self) -> impl Iterator<Item = Frame> {
        let read = self.pages.iter().map(|page| page.filling.frame());
        read.chain(self.writes.iter().map(|page| page.frame))
    }

    /// How many bytes it writes from the cache.
    pub(crate) fn write_len(&self) -> ByteCount {
        ByteCount(self.writes.iter().map(|page| u64::from(page.len)).sum())
    }

    /// How many of the pages that it writes so many bytes cover.
    pub(crate) fn written_by(&self, bytes: ByteCount) -> Pages {
        let ends = self.writes.iter().scan(0, |at, page| {
            let end = *at + u64::from(page.len);
            *at += PAGE_SIZE;
            Some(end)
        });
        Pages(ends.filter(|&end| end <= bytes.0).count() as u64)
    }

    /// How much a request with this payload moves: whole sectors, but for what is written at the
    /// end of a file.
    pub(crate) fn len(&self, sectors: Sectors) -> ByteCount {
        match self.write_len() {
            ByteCount::ZERO => sectors.bytes(),
            written => written,
        }
    }

    /// Whether it reads pages, writes pages, or serves direct requests, and no two of these.
    pub(crate) fn has_one_kind(&self) -> bool {
        let kinds = [self.pages.is_empty(), self.writes.is_empty(), self.direct.is_empty()];
        kinds.iter().filter(|is_empty| !**is_empty).count() == 1
    }

    fn has_whole_pages(&self) -> bool {
        self.pages.iter().all(|page| page.part.is_whole())
    }

    /// Whether the last page it writes is the short one at the end of a file: what follows on the
    /// device is not the rest of that page.
    fn ends_short(&self) -> bool {
        self.writes.last().is_some_and(|page| u64::from(page.len) < PAGE_SIZE)
    }
}

impl Payload for IoPayload {
    /// A request that a caller waits for never merges with one that none waits for: the wait would
    /// be longer. A retry stays alone: its purpose is to find the one bad page. A planned request
    /// stays as it is: what the plan has split would be joined again. FUA writes merge with each
    /// other only: they may cost the others a flush.
    fn can_take(&self, next: &Self) -> bool {
        let is_same_kind = self.pages.is_empty() == next.pages.is_empty()
            && self.writes.is_empty() == next.writes.is_empty();
        let is_as_urgent = self.is_ahead == next.is_ahead && self.is_fua == next.is_fua;
        let is_alone = |load: &Self| load.is_retry || load.is_planned;
        let is_whole = !is_alone(self) && !is_alone(next) && !self.ends_short();
        let are_few = self.pages.len() + next.pages.len() <= PLACES_MAX
            || self.has_whole_pages() && next.has_whole_pages();
        is_same_kind && is_as_urgent && is_whole && are_few
    }

    fn append(&mut self, mut next: Self) {
        debug_assert!(self.is_fua == next.is_fua, "FUA writes merge with each other only");
        debug_assert!(self.is_ahead == next.is_ahead, "a caller waits for one and not the other");
        self.pages.append(&mut next.pages);
        self.writes.append(&mut next.writes);
        self.direct.append(&mut next.direct);
        self.parts += next.parts;
        debug_assert!(self.has_one_kind(), "requests of one kind merge with each other only");
    }
}

/// A run of pages that a file wants read, before its device knows of it.
#[derive(Debug)]
pub(crate) struct PageRun {
    pub(crate) start: Sector,
    sectors: Sectors,
    pub(crate) job: IoPayload,
}

impl PageRun {
    pub(crate) fn of_page(start: Sector, page: PageFill, is_ahead: bool) -> Self {
        let sectors = page.part.sectors();
        Self { start, sectors, job: IoPayload::of_page(page, is_ahead) }
    }

    /// A page, or part of one, that is asked for a second time.
    pub(crate) fn again(start: Sector, page: PageFill) -> Self {
        Self { start, sectors: page.part.sectors(), job: IoPayload::again(page) }
    }

    /// Adds a page that follows on the device; gives it back if that is elsewhere, or too much.
    pub(crate) fn append(
        &mut self,
        start: Sector,
        page: PageFill,
        is_ahead: bool,
        max_io: Pages,
    ) -> Result<(), PageFill> {
        let sectors = self.sectors + page.part.sectors();
        let is_whole = || page.part.is_whole() && self.job.has_whole_pages();
        let is_too_much = sectors > Sectors(max_io.0 * SECTORS_PER_PAGE)
            || self.job.pages.len() >= PLACES_MAX && !is_whole();
        if self.start + self.sectors != start || is_too_much {
            return Err(page);
        }
        debug_assert!(sectors.0 <= max_io.0 * SECTORS_PER_PAGE, "the device takes so much at once");
        self.sectors = sectors;
        self.job.is_ahead &= is_ahead;
        self.job.pages.push(page);
        Ok(())
    }

    /// One past its last sector.
    pub(crate) fn end(&self) -> Sector {
        self.start + self.sectors
    }

    /// Whether so many whole pages more fit into it.
    pub(crate) fn has_room(&self, pages: Pages, max_io: Pages) -> bool {
        let sectors = self.sectors + Sectors(pages.0 * SECTORS_PER_PAGE);
        sectors <= Sectors(max_io.0 * SECTORS_PER_PAGE) && self.job.has_whole_pages()
    }

    /// The request that it is.
    pub(crate) fn request(self, now: Nanos, origin: crate::sched::Origin) -> Request<IoPayload> {
        let Self { start, sectors, job } = self;
        debug_assert!(
            sectors.0 == job.pages.iter().map(|page| page.part.sectors().0).sum(),
            "a run is as long as its pages"
        );
        Request { start, sectors, origin, arrival: now, load: job }
    }
}

/// A kernel takes so many places in memory at once (UIO_MAXIOV), which parts of pages would reach
/// before their request is too long. Whole pages are as many as a request may have.
const PLACES_MAX: usize = 1024;
