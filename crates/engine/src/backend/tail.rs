//! The end of a file that is written around the kernel's page cache: it need not be the end of a
//! block, and `O_DIRECT` takes whole blocks only.
//!
//! In:    a write; whether the file ends with it.
//! Out:   through which descriptor it goes, and how much of it at once.
//! Never: more than one page of a file in the kernel's page cache.
//!
//! ```text
//!   a file's last write     |=====|=====|=====|==
//!                           |<--- direct ---->|          at first
//!                                             |<>|       then: buffered, durable when it ends
//! ```
//!
//! Why one page: the kernel caches what is written at once in one piece, and a direct write to any
//! page of such a piece beside a buffered one is an error of all flushes to come (EIO: "page cache
//! invalidation failure"). The core has one write of a page at a time on its way.

use std::os::fd::{AsRawFd as _, RawFd};

use foreread_core::units::PAGE_SIZE;

use super::Backend;

impl Backend {
    /// Returns the descriptor for a write, and whether the write has to be durable when it ends.
    /// `is_end` if the file ends with it inside of a page.
    ///
    /// Durable, because the kernel would otherwise cache the tail and report a failed writeback
    /// later, and only once; so the write itself returns the error.
    ///
    /// Of a file that may grow, an end goes through the page cache also where it is the end of a
    /// block: to change the length, the kernel may have the page there.
    pub(crate) fn fd_for_write(&self, offset: u64, len: u64, is_end: bool) -> (RawFd, bool) {
        let Some(file) = self.file_for_writes() else { return (self.fd(), false) };
        let Some(tail) = self.tail() else { return (file.as_raw_fd(), false) };
        let block = self.geometry.write_block.0;
        let is_whole = offset.is_multiple_of(block) && len.is_multiple_of(block);
        if !is_whole || (is_end && self.can_change_len()) {
            (tail.as_raw_fd(), true)
        } else {
            (file.as_raw_fd(), false)
        }
    }

    /// How much of the last `rest` bytes of a file that ends at `end` is written before its last
    /// page; None if all can be at once.
    pub(crate) fn before_last_page(&self, rest: u32, end: u64) -> Option<u32> {
        self.tail()?;
        let last = u32::try_from(end % PAGE_SIZE).expect("less than a page");
        (rest > last).then(|| rest - last)
    }
}
