//! Payload of the path's requests: frames to fill or to write, or ids of direct requests. A merge
//! never prolongs a caller's wait, nor hides which page is bad.

use alloc::vec::Vec;
use core::ops::Range;

use crate::cache::Filling;
use crate::ids::{DirectId, DirtyId};
use crate::sched::{Payload, Request};
use crate::table::Frame;
use crate::units::{
    ByteCount, Nanos, PAGE_SIZE, Pages, SECTOR_SIZE, SECTORS_PER_PAGE, Sector, Sectors,
};

/// One page of a request, or a part of a page.
#[derive(Debug, Eq, PartialEq)]
pub struct PageFill {
    /// The frame to fill.
    pub filling: Filling,
    /// The part of the page.
    pub part: PagePart,
    /// Bytes of the part that are in the file; fewer than the part's size only in a file's last
    /// page.
    pub len: u32,
}

/// A part of a page, in whole sectors. It is the whole page unless the page is in several places on
/// its device.
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
    /// Bytes of the page that are in the file; less than a page only at the end of the file.
    pub(crate) len: u32,
}

/// Payload of a request: exactly one of the three lists is not empty.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct IoPayload {
    /// Pages to read, in the order of their sectors.
    pub(crate) pages: Vec<PageFill>,
    /// Pages to write, in the order of their sectors.
    pub(crate) writes: Vec<WritePage>,
    /// Direct requests served by this request.
    pub(crate) direct: Vec<DirectId>,
    /// True if no caller waits for any of it.
    pub(crate) is_ahead: bool,
    /// True if it retries one page of a failed request.
    pub(crate) is_retry: bool,
    /// True if a plan determined its range.
    pub(crate) is_planned: bool,
    /// True for FUA writes, which complete only when they are durable.
    pub(crate) is_fua: bool,
    /// Number of flusher requests merged into it.
    pub(crate) parts: u32,
}

impl PageFill {
    /// Creates the fill of a page that is in one place on its device.
    pub(crate) fn whole(filling: Filling, len: u32) -> Self {
        assert!(len > 0 && u64::from(len) <= PAGE_SIZE, "a page of {len} bytes");
        Self { filling, part: PagePart::WHOLE, len }
    }

    /// Creates the fill of a part of a page of which the file has `page_len` bytes.
    #[expect(clippy::cast_possible_truncation, reason = "less than a page")]
    pub(crate) fn part(filling: &Filling, part: PagePart, page_len: u32) -> Self {
        let end = part.bytes().end.min(page_len as usize);
        assert!(part.bytes().start < end, "{part:?} has nothing of {page_len} bytes");
        Self { filling: filling.part(), part, len: (end - part.bytes().start) as u32 }
    }

    /// Returns a copy of the fill, to be ended while the request is in flight. The request keeps
    /// its own copy for reference and must not end it again.
    pub(crate) fn ended(&self) -> Self {
        Self { filling: self.filling.part(), part: self.part, len: self.len }
    }

    /// Returns true if a result of `result` bytes covers this page, which begins `from` sectors
    /// into its request. A request may end early at the end of a file, or because the device
    /// stopped.
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

    /// Returns the bytes of this page that arrived with such a result.
    #[expect(clippy::cast_possible_truncation, reason = "at most a page")]
    pub(crate) fn got(&self, from: Sectors, result: ByteCount) -> u32 {
        result.saturating_sub(from.bytes()).0.min(u64::from(self.len)) as u32
    }
}

impl PagePart {
    /// The whole page.
    #[expect(clippy::cast_possible_truncation, reason = "4096")]
    pub const WHOLE: Self = Self { from: 0, len: PAGE_SIZE as u16 };

    /// Creates a part of `sectors` sectors, starting at sector `from` of the page.
    #[expect(clippy::cast_possible_truncation, reason = "a page is short, and was looked at")]
    pub(crate) fn new(from: Sectors, sectors: Sectors) -> Self {
        assert!(sectors > Sectors::ZERO, "a part has at least one sector");
        assert!(from + sectors <= Sectors(SECTORS_PER_PAGE), "a part lies in its page");
        Self { from: from.bytes().0 as u16, len: sectors.bytes().0 as u16 }
    }

    /// Returns the byte range in the page.
    #[must_use]
    pub fn bytes(self) -> Range<usize> {
        usize::from(self.from)..usize::from(self.from) + usize::from(self.len)
    }

    pub(crate) fn is_whole(self) -> bool {
        self == Self::WHOLE
    }

    /// Returns the length in sectors.
    pub(crate) fn sectors(self) -> Sectors {
        Sectors(u64::from(self.len) / SECTOR_SIZE)
    }
}

impl IoPayload {
    pub(crate) fn of_page(page: PageFill, is_ahead: bool) -> Self {
        Self { pages: Vec::from([page]), is_ahead, ..Self::default() }
    }

    /// Creates the payload of a retry, which reads one page alone.
    pub(crate) fn again(page: PageFill) -> Self {
        Self { is_retry: true, ..Self::of_page(page, false) }
    }

    /// Returns the number of pages to read; a page read in parts counts once for each part.
    pub(crate) fn page_count(&self) -> Pages {
        Pages(self.pages.len() as u64)
    }

    /// Returns the frames of the pages, in their order.
    pub(crate) fn frames(&self) -> impl Iterator<Item = Frame> {
        let read = self.pages.iter().map(|page| page.filling.frame());
        read.chain(self.writes.iter().map(|page| page.frame))
    }

    /// Returns the number of bytes to write from the cache.
    pub(crate) fn write_len(&self) -> ByteCount {
        ByteCount(self.writes.iter().map(|page| u64::from(page.len)).sum())
    }

    /// Returns the number of written pages that a result of `bytes` covers.
    pub(crate) fn written_by(&self, bytes: ByteCount) -> Pages {
        let ends = self.writes.iter().scan(0, |at, page| {
            let end = *at + u64::from(page.len);
            *at += PAGE_SIZE;
            Some(end)
        });
        Pages(ends.filter(|&end| end <= bytes.0).count() as u64)
    }

    /// Returns the number of bytes that a request with this payload transfers: whole sectors,
    /// except for a write at the end of a file.
    pub(crate) fn len(&self, sectors: Sectors) -> ByteCount {
        match self.write_len() {
            ByteCount::ZERO => sectors.bytes(),
            written => written,
        }
    }

    /// Returns true if it has exactly one kind of payload: page reads, page writes, or direct
    /// requests.
    pub(crate) fn has_one_kind(&self) -> bool {
        let kinds = [self.pages.is_empty(), self.writes.is_empty(), self.direct.is_empty()];
        kinds.iter().filter(|is_empty| !**is_empty).count() == 1
    }

    fn has_whole_pages(&self) -> bool {
        self.pages.iter().all(|page| page.part.is_whole())
    }

    /// Returns true if the last page to write is cut off by the end of its file: the sectors that
    /// follow on the device do not continue that page.
    fn ends_short(&self) -> bool {
        self.writes.last().is_some_and(|page| u64::from(page.len) < PAGE_SIZE)
    }
}

impl Payload for IoPayload {
    /// Returns whether two requests may merge. A demand request never merges with a read-ahead
    /// request, which would make its caller wait longer. A retry stays alone, because it has to
    /// find the one bad page. A planned request stays as it is, because a merge would undo the
    /// plan's split. FUA writes merge only with each other, as they may cost other writes a flush.
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

/// A run of pages to be read, before it is queued for its device.
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

    /// Creates the run of a page, or part of one, that is read again.
    pub(crate) fn again(start: Sector, page: PageFill) -> Self {
        Self { start, sectors: page.part.sectors(), job: IoPayload::again(page) }
    }

    /// Appends a page that follows on the device. Returns it if it is not adjacent or would exceed
    /// the largest request.
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

    /// Returns the sector behind the last one.
    pub(crate) fn end(&self) -> Sector {
        self.start + self.sectors
    }

    /// Returns true if `pages` more whole pages fit.
    pub(crate) fn has_room(&self, pages: Pages, max_io: Pages) -> bool {
        let sectors = self.sectors + Sectors(pages.0 * SECTORS_PER_PAGE);
        sectors <= Sectors(max_io.0 * SECTORS_PER_PAGE) && self.job.has_whole_pages()
    }

    /// Converts the run to a request.
    pub(crate) fn request(self, now: Nanos, origin: crate::sched::Origin) -> Request<IoPayload> {
        let Self { start, sectors, job } = self;
        debug_assert!(
            sectors.0 == job.pages.iter().map(|page| page.part.sectors().0).sum(),
            "a run is as long as its pages"
        );
        Request { start, sectors, origin, arrival: now, load: job }
    }
}

/// The kernel accepts this many buffers in one call (UIO_MAXIOV). Partial pages could exceed it
/// before the request is too long; whole pages are limited by the length of a request.
const PLACES_MAX: usize = 1024;
