//! Methods of a file that pin pages and return them without a copy.

use std::ops::Range;

use crate::error::ReadError;
use crate::file::File;
use crate::page_range::PageRange;
use crate::page_ref::PageRef;

impl File {
    /// Pins the page that contains `offset`, and returns its bytes from `offset` to the end of the
    /// page or of the file, whichever comes first: none at the end of the file. Reads the page
    /// first if it is not resident.
    ///
    /// Each calling thread is a separate stream. For short pins by several threads,
    /// [`ReadStream::pin`](crate::ReadStream::pin) is faster: its pins borrow their stream, and
    /// touch no counter that threads share.
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
    /// [`ReadErrorKind::PinLimit`] if a quarter of the memory is pinned already: drop a
    /// [`PageRef`], copy with [`Self::read_at`], or give the engine more memory. Otherwise as
    /// [`Self::read_at`].
    pub fn pin(&self, offset: u64) -> Result<PageRef, ReadError> {
        self.with_reader(|reader, handle, advised| reader.pin_owned(handle, advised, offset))
    }

    /// Pins all pages of a range, such as a block of 16 KiB. The pages that are not resident are
    /// read as one read. The result is shorter than the range only at the end of the file.
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
    /// [`ReadErrorKind::PinLimit`] if these pages would bring the pinned memory above a quarter of
    /// the total: then nothing is read or pinned. Otherwise as [`Self::read_at`].
    pub fn pin_range(&self, range: Range<u64>) -> Result<PageRange, ReadError> {
        self.with_reader(|reader, handle, advised| reader.pin_range(handle, advised, &range))
    }
}
