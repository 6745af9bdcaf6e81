//! Blocking reads of many ranges.

use std::ops::Range;

use super::progress::RangeReads;
use crate::error::ReadError;
use crate::file::File;

impl File {
    /// Reads many byte ranges at once, and returns the bytes of each, in the order of `ranges`.
    ///
    /// Ranges may come in any order, overlap, touch or repeat. Cached pages are not read again, and
    /// a page that several ranges share is read once. The device model plans the remaining
    /// requests: it merges ranges where reading the gap costs less than another request, splits
    /// large ones over idle connections, and sends all of them together, within the budget that all
    /// range reads of the engine share (a quarter of its memory). There is nothing to configure.
    ///
    /// Each result is allocated separately, with exactly its size, outside the engine's memory
    /// bound. No read-ahead follows: for a scan use [`Self::read_at`].
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let engine = foreread::Engine::builder().build()?;
    /// let table = engine.open("/var/lib/db/table")?;
    /// let blocks = table.read_ranges(&[8192..12_288, 0..100, 1 << 30..(1 << 30) + 4096])?;
    /// assert_eq!(blocks[1].len(), 100);
    /// # Ok(()) }
    /// ```
    ///
    /// | range | result |
    /// |---|---|
    /// | empty | empty |
    /// | ends past the end of the file | the bytes before the end |
    /// | begins past the end of the file | [`ReadErrorKind::PastEnd`] |
    /// | begins at the end of the file | empty |
    /// | ends before it starts | [`ReadErrorKind::Range`] |
    /// | larger than memory | [`ReadErrorKind::Io`], out of memory |
    ///
    /// # Errors
    ///
    /// If a range is invalid (above), or the device fails: no range is returned then, but
    /// [`Self::read_ranges_stream`] returns the others. In a forked child,
    /// [`ReadErrorKind::Forked`].
    pub fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Box<[u8]>>, ReadError> {
        let mut reads = RangeReads::new(self.handle(), ranges, false)?;
        let mut all = Vec::new();
        all.resize_with(reads.len(), Box::default);
        loop {
            while let Some((number, result)) = reads.pop() {
                all[number] = result?;
            }
            if reads.is_done() {
                return Ok(all);
            }
            reads.wait()?;
        }
    }
}
