//! Reads of many ranges that block.
//!
//! In:    ranges.
//! Out:   all of their bytes, in the order asked.
//! Never: a thread of its own.

use std::ops::Range;

use super::progress::RangeReads;
use crate::error::ReadError;
use crate::file::File;

impl File {
    /// Reads many byte ranges at once, and returns the bytes of each, in the order asked.
    ///
    /// Ranges may come in any order, overlap, touch or repeat. What is cached is not read again,
    /// and what several ranges want is read once. The rest becomes requests by what the engine has
    /// learnt of the device: ranges are merged where reading the gap costs less than another
    /// request, large ones are split over idle connections, and all go out together, as far as the
    /// budget allows that all range reads of the engine share (a quarter of its memory). There is
    /// nothing to set.
    ///
    /// Each result has memory of its own, of exactly its size, beside the engine's bound. No
    /// read-ahead follows: for a scan use [`Self::read_at`].
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
    /// | ends behind the file | what the file has of it |
    /// | begins behind the file | [`ReadError::PastEnd`] |
    /// | begins at the end of the file | empty |
    /// | ends before it starts | [`ReadError::Range`] |
    /// | larger than memory | [`ReadError::Io`], out of memory |
    ///
    /// # Errors
    ///
    /// If a range makes no sense (above), or the device fails: then no range is returned, and
    /// [`Self::read_ranges_stream`] has the others. In a forked child, [`ReadError::Forked`].
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
