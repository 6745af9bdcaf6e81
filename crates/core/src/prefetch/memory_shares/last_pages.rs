//! The streams that are about to end with their file, in a line: which of them have ended?
//!
//! In:    a stream whose file ends with what is ahead of it.
//! Out:   its last page, in its turn, to be looked at.
//! Never: a search. What is out of date in the line is dropped when its turn comes.
//!
//! ```text
//!   a small file   |=== read ===|--- ahead ---|L|     counts with what is ahead of its reader
//!   a hit later    |========== read ===========|      no hit asks: that L is not unread any more
//!                                                     is found in the cache, at another's question
//! ```
//!
//! Why not by time alone: a program that reads thousands of small files and keeps them open asks
//! once for each. Nothing is known of the rate of such streams, so all of them would count for
//! seconds, and the next large file would have windows of a page.

use alloc::collections::VecDeque;

use super::share::{ShareId, StreamEnd};
use crate::table::FileSlot;
use crate::units::PageIndex;

/// Streams whose last page was unread when it was last looked at, the longest ago first. What is
/// out of date stays until its turn.
#[derive(Debug)]
pub(super) struct LastPages {
    line: VecDeque<LastPage>,
    /// The number of the last one that came.
    newest: u32,
}

/// One of them. It is out of date if the end of its share has another number.
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

    /// A stream whose last page is this one.
    pub(super) fn add(&mut self, share: ShareId, (file, page): (FileSlot, PageIndex)) -> StreamEnd {
        self.newest = self.newest.wrapping_add(1);
        let number = self.newest;
        self.line.push_back(LastPage { share, number, file, page });
        StreamEnd::Ahead(number)
    }

    pub(super) fn take_first(&mut self) -> Option<LastPage> {
        self.line.pop_front()
    }

    /// It is still unread.
    pub(super) fn put_back(&mut self, last: LastPage) {
        self.line.push_back(last);
    }

    /// The numbers in the line, for tests.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.line.iter().map(|last| last.number)
    }
}
