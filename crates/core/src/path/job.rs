//! What the path's requests carry: frames to fill, or the names of direct requests.
//!
//! In:    pages of a window, a page that is tried again, a request that asks no cache.
//! Out:   who is to be told what became of it.
//! Never: a merge that makes somebody wait longer, or that hides which page is bad.

use alloc::vec::Vec;

use super::direct::DirectId;
use crate::cache::Filling;
use crate::sched::{Load, Request};
use crate::units::{Bytes, Instant, PAGE_SIZE, Pages, SECTORS_PER_PAGE, Sector, Sectors};

/// One page of a request.
#[derive(Debug, Eq, PartialEq)]
pub struct PageFill {
    /// The frame that it goes to.
    pub filling: Filling,
    /// How many of its bytes the file has: all of them, but for a file's last page.
    pub len: u32,
}

/// What a request of the path carries: one of the two lists is empty.
#[derive(Debug, Default, Eq, PartialEq)]
pub(super) struct Job {
    /// Its pages, in the order of their sectors.
    pub(super) pages: Vec<PageFill>,
    /// The direct requests that it serves.
    pub(super) direct: Vec<DirectId>,
    /// Whether nobody waits for any of it.
    pub(super) is_ahead: bool,
    /// Whether it is a second try of a page whose request failed.
    pub(super) is_retry: bool,
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
}

impl Load for Job {
    /// What somebody waits for never merges with what nobody does: the wait would be longer. A
    /// second try stays alone: its purpose is to find the one bad page.
    fn can_take(&self, next: &Self) -> bool {
        let is_same_kind = self.pages.is_empty() == next.pages.is_empty();
        is_same_kind && self.is_ahead == next.is_ahead && !self.is_retry && !next.is_retry
    }

    fn append(&mut self, mut next: Self) {
        self.pages.append(&mut next.pages);
        self.direct.append(&mut next.direct);
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
