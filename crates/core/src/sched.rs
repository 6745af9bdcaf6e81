//! Schedulers: which request a device gets next.
//!
//! In:    requests, each a run of sectors and the frames that its pages go to.
//! Out:   the same sectors in fewer, larger requests, in the order of the scheduler.
//! Never: a device, a queue depth (the path counts what is in flight), a lost page.
//!
//! `noop` is the only one so far: `deadline` has its place beside it.

pub mod noop;

use alloc::vec::Vec;

use crate::cache::Filling;
use crate::units::{Bytes, Instant, PAGE_SIZE, Pages, SECTORS_PER_PAGE, Sector, Sectors};

/// One page of a request.
#[derive(Debug, Eq, PartialEq)]
pub struct PageFill {
    /// The frame that it goes to.
    pub filling: Filling,
    /// How many of its bytes the file has: all of them, but for a file's last page.
    pub len: u32,
}

/// What a scheduler queues: a run of whole pages on a device.
#[derive(Debug, Eq, PartialEq)]
pub struct Request {
    /// Where it starts.
    pub start: Sector,
    /// Its pages, in the order of their sectors.
    pub pages: Vec<PageFill>,
    /// When it was queued; a merged request keeps the time of the one that it joined.
    pub arrival: Instant,
    /// Whether nobody waits for any of it.
    pub is_ahead: bool,
    /// Whether it is a second try of a page whose request failed.
    pub is_retry: bool,
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
    pub(crate) fn is_covered(&self, index: usize, result: Bytes) -> bool {
        result.0 >= index as u64 * PAGE_SIZE + u64::from(self.len)
    }
}

impl Request {
    /// How long it is.
    #[must_use]
    pub fn sectors(&self) -> Sectors {
        Sectors(self.pages.len() as u64 * SECTORS_PER_PAGE)
    }

    /// One past its last sector.
    #[must_use]
    pub fn end(&self) -> Sector {
        self.start + self.sectors()
    }

    /// Whether `next` may be appended: it begins where this one ends, and the sum is no larger than
    /// the device takes.
    ///
    /// What somebody waits for never merges with what nobody does: the wait would be longer. A
    /// second try stays alone: its purpose is to find the one bad page.
    fn can_take(&self, next: &Self, max: Pages) -> bool {
        let fits = self.pages.len() as u64 + next.pages.len() as u64 <= max.0;
        let alike = self.is_ahead == next.is_ahead && !self.is_retry && !next.is_retry;
        self.end() == next.start && fits && alike
    }
}
