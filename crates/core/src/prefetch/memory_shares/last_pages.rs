//! Queue of the streams that have prefetched to the end of their file, to find those that finished.
//!
//! ```text
//!   a small file   |=== read ===|--- ahead ---|L|     counts with the pages ahead of its reader
//!   a hit later    |========== read ===========|      hits ask no question: another stream's
//!                                                     question finds that L was read
//! ```
//!
//! Time-outs alone are not enough: a program that reads thousands of small files and keeps them
//! open asks once for each. The rate of such streams is unknown, so all of them would count for
//! seconds, and the next large file would get windows of one page. Stale entries are dropped at
//! their turn.

use alloc::collections::VecDeque;

use super::share::{ShareId, StreamEnd};
use crate::table::FileSlot;
use crate::units::PageIndex;

/// Streams with an unread last page, least recently checked first. Stale entries stay until their
/// turn.
#[derive(Debug)]
pub(super) struct LastPages {
    line: VecDeque<LastPage>,
    /// Number of the newest entry.
    newest: u32,
}

/// An entry of the queue. It is stale if the end of its share has another number.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastPage {
    pub(super) share: ShareId,
    pub(super) number: u32,
    pub(super) file: FileSlot,
    pub(super) page: PageIndex,
}

impl LastPages {
    pub(super) const fn new() -> Self {
        Self { line: VecDeque::new(), newest: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.line.len()
    }

    /// Queues a stream with this last page.
    pub(super) fn add(&mut self, share: ShareId, file: FileSlot, page: PageIndex) -> StreamEnd {
        self.newest = self.newest.wrapping_add(1);
        let number = self.newest;
        self.line.push_back(LastPage { share, number, file, page });
        StreamEnd::Ahead(number)
    }

    pub(super) fn take_first(&mut self) -> Option<LastPage> {
        self.line.pop_front()
    }

    /// Requeues an entry with a page that is still unread.
    pub(super) fn put_back(&mut self, last: LastPage) {
        self.line.push_back(last);
    }

    /// Returns the numbers in the queue, for tests.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.line.iter().map(|last| last.number)
    }
}
