//! Writes of the end of a file. It need not be block-aligned, and `O_DIRECT` writes whole blocks
//! only, so the last page goes through the kernel's page cache.
//!
//! ```text
//!   a file's last write     |=====|=====|=====|==
//!                           |<--- direct ---->|          first
//!                                             |<>|       then: buffered and durable
//! ```
//!
//! Only one page is written this way at a time: the kernel may cache the bytes of one write as a
//! single folio, and a direct write to any page of that folio, next to a buffered one, makes all
//! later flushes fail (EIO: "page cache invalidation failure"). The core keeps at most one write
//! per page in flight.

use std::os::fd::{AsRawFd as _, RawFd};

use foreread_core::units::PAGE_SIZE;

use super::Backend;

impl Backend {
    /// Returns the descriptor for a write, and true if the write itself must be durable. `is_end`
    /// tells that the file ends with this write, inside a page.
    ///
    /// A write of the tail must be durable because the kernel would otherwise cache it and report a
    /// failed write-back later, and only once.
    ///
    /// If the file may grow, a block-aligned end is buffered, too: the kernel may have that page
    /// cached when the length changes.
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

    /// Returns how many of the last `rest` bytes of a file that ends at `end` must be written
    /// before its last page; `None` if all can be written at once.
    pub(crate) fn before_last_page(&self, rest: u32, end: u64) -> Option<u32> {
        self.tail()?;
        let last = u32::try_from(end % PAGE_SIZE).expect("less than a page");
        (rest > last).then(|| rest - last)
    }
}
