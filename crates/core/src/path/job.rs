//! What the path's requests carry: frames to fill or to write, or the names of direct requests.
//!
//! In:    pages of a window, dirty pages, a page that is tried again, a request that asks no cache.
//! Out:   who is to be told what became of it.
//! Never: a merge that makes somebody wait longer, or that hides which page is bad.

use alloc::vec::Vec;

use super::direct::DirectId;
use super::write::WritePage;
use crate::cache::Filling;
use crate::sched::{Load, Request};
use crate::table::Frame;
use crate::units::{Bytes, Instant, PAGE_SIZE, Pages, SECTORS_PER_PAGE, Sector, Sectors};

/// One page of a request.
#[derive(Debug, Eq, PartialEq)]
pub struct PageFill {
    /// The frame that it goes to.
    pub filling: Filling,
    /// How many of its bytes the file has: all of them, but for a file's last page.
    pub len: u32,
}

/// What a request of the path carries: one of the three lists is not empty.
#[derive(Debug, Default, Eq, PartialEq)]
pub(super) struct Job {
    /// Its pages, in the order of their sectors.
    pub(super) pages: Vec<PageFill>,
    /// Those it writes, in the order of their sectors.
    pub(super) writes: Vec<WritePage>,
    /// The direct requests that it serves.
    pub(super) direct: Vec<DirectId>,
    /// Whether nobody waits for any of it.
    pub(super) is_ahead: bool,
    /// Whether it is a second try of a page whose request failed.
    pub(super) is_retry: bool,
    /// Whether its writes are done only when the device has them for good.
    pub(super) is_fua: bool,
    /// How many requests of the flusher it was made of.
    pub(super) parts: u32,
}

impl PageFill {
    /// Whether a result of so many bytes covers this page, the `index`th of its request: a request
    /// may end early, at the end of a file or because a device stopped in the middle.
    ///
    /// ```text
    ///   page      0           1           2
    ///   |===========|===========|=====......|    10000 bytes cover 0 and 1, and 2 if the file
    ///                              ^10000        has at most 1808 bytes of it
    /// ```
    #[must_use]
    pub(super) fn is_covered(&self, index: usize, result: Bytes) -> bool {
        result.0 >= index as u64 * PAGE_SIZE + u64::from(self.len)
    }
}

impl Job {
    pub(super) fn of_page(page: PageFill, is_ahead: bool) -> Self {
        Self { pages: Vec::from([page]), is_ahead, ..Self::default() }
    }

    /// A page of a request that failed, alone.
    pub(super) fn again(page: PageFill) -> Self {
        Self { is_retry: true, ..Self::of_page(page, false) }
    }

    pub(super) fn page_count(&self) -> Pages {
        Pages(self.pages.len() as u64)
    }

    /// The frames of its pages, in their order.
    pub(super) fn frames(&self) -> impl Iterator<Item = Frame> {
        let read = self.pages.iter().map(|page| page.filling.frame());
        read.chain(self.writes.iter().map(|page| page.frame))
    }

    /// How many bytes it writes from the cache.
    pub(super) fn write_len(&self) -> Bytes {
        Bytes(self.writes.iter().map(|page| u64::from(page.len)).sum())
    }

    /// Whether the last page it writes is the short one at the end of a file: what follows on the
    /// device is not the rest of that page.
    fn ends_short(&self) -> bool {
        self.writes.last().is_some_and(|page| u64::from(page.len) < PAGE_SIZE)
    }
}

impl Load for Job {
    /// What somebody waits for never merges with what nobody does: the wait would be longer. A
    /// second try stays alone: its purpose is to find the one bad page. What must be on the device
    /// for good merges with its like only: that may cost the others a flush.
    fn can_take(&self, next: &Self) -> bool {
        let is_same_kind = self.pages.is_empty() == next.pages.is_empty()
            && self.writes.is_empty() == next.writes.is_empty();
        let is_as_urgent = self.is_ahead == next.is_ahead && self.is_fua == next.is_fua;
        let is_whole = !self.is_retry && !next.is_retry && !self.ends_short();
        is_same_kind && is_as_urgent && is_whole
    }

    fn append(&mut self, mut next: Self) {
        self.pages.append(&mut next.pages);
        self.writes.append(&mut next.writes);
        self.direct.append(&mut next.direct);
        self.parts += next.parts;
    }
}

/// A run of pages that a file wants read, before its device knows of it.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) start: Sector,
    pub(super) job: Job,
}

impl Run {
    pub(super) fn end(&self) -> Sector {
        self.start + Sectors(self.job.page_count().0 * SECTORS_PER_PAGE)
    }

    /// The request that it is.
    pub(super) fn request(self, now: Instant, origin: crate::sched::Origin) -> Request<Job> {
        let sectors = self.end() - self.start;
        Request { start: self.start, sectors, origin, arrival: now, load: self.job }
    }
}
