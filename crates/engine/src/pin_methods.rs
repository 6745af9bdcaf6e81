//! The calls of a file that pin pages.
//!
//! In:    offsets and ranges.
//! Out:   the pages, without a copy, which borrow nothing.
//! Never: more than a quarter of the memory pinned.

use std::ops::Range;

use crate::error::ReadError;
use crate::file::File;
use crate::page_range::PageRange;
use crate::page_ref::PageRef;

impl File {
    /// Pins the page that `offset` lies in, and returns its bytes from there on: to the end of the
    /// page, or of the file. At the end of the file there are none. Reads the page first if it is
    /// not resident.
    ///
    /// Each thread that calls this is a stream of its own. Where several threads look at pages for
    /// a moment each, [`ReadStream::pin`](crate::ReadStream::pin) is faster: its pins borrow their
    /// stream, and count nothing that threads share.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = foreread::Engine::builder().build()?;
    /// let page = engine.open("/var/lib/db/table")?.pin(3 * 4096)?;
    /// assert_eq!(page.len(), 4096);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ReadError::PinLimit`] if a quarter of the memory is pinned already: then drop a
    /// [`PageRef`], copy with [`Self::read_at`], or give the engine more memory. Otherwise as
    /// [`Self::read_at`].
    pub fn pin(&self, offset: u64) -> Result<PageRef, ReadError> {
        self.with_reader(|reader, handle, advised| reader.pin_owned(handle, advised, offset))
    }

    /// Pins all pages of a range, such as a block of 16 KiB. What is not resident is read as one
    /// read. The result has fewer bytes than the range only at the end of the file.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = foreread::Engine::builder().build()?;
    /// let block = engine.open("/var/lib/db/table")?.pin_range(16384..32768)?;
    /// let sum: u64 = block.parts().flatten().map(|byte| u64::from(*byte)).sum();
    /// # let _ = sum;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ReadError::PinLimit`] if with these pages more than a quarter of the memory would be
    /// pinned: then nothing is read or pinned. Otherwise as [`Self::read_at`].
    pub fn pin_range(&self, range: Range<u64>) -> Result<PageRange, ReadError> {
        self.with_reader(|reader, handle, advised| reader.pin_range(handle, advised, &range))
    }
}
