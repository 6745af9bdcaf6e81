//! What changes the export's bytes, and what waits for its device.
//!
//! In:    writes, flushes, ranges.
//! Out:   what became of them, in the protocol's numbers.
//! Never: a wait in `try_write`.

use std::ops::Range;

use foreread::File;

use crate::nbd::Errno;

/// Where writes go: the engine's file; in tests, something that waits and fails as it is told.
pub(crate) trait Store: Send + Sync {
    /// Takes as many bytes as it can without waiting.
    fn try_write(&self, from: &[u8], offset: u64) -> Result<usize, Errno>;
    /// Takes all of them; with `fua`, they are durable afterwards.
    fn write(&self, from: &[u8], offset: u64, fua: bool) -> Result<(), Errno>;
    /// All that was written is durable afterwards.
    fn flush(&self) -> Result<(), Errno>;
    fn discard(&self, range: Range<u64>) -> Result<(), Errno>;
    fn zero(&self, range: Range<u64>, may_unmap: bool) -> Result<(), Errno>;
    /// What is data (true) and what is a hole, from the start of the range on; it may end early.
    fn extents(&self, range: Range<u64>) -> Result<Vec<(Range<u64>, bool)>, Errno>;
}

impl Store for File {
    fn try_write(&self, _from: &[u8], _offset: u64) -> Result<usize, Errno> {
        Err(Errno::Perm)
    }

    fn write(&self, _from: &[u8], _offset: u64, _fua: bool) -> Result<(), Errno> {
        Err(Errno::Perm)
    }

    fn flush(&self) -> Result<(), Errno> {
        Ok(())
    }

    fn discard(&self, _range: Range<u64>) -> Result<(), Errno> {
        Err(Errno::Perm)
    }

    fn zero(&self, _range: Range<u64>, _may_unmap: bool) -> Result<(), Errno> {
        Err(Errno::Perm)
    }

    fn extents(&self, range: Range<u64>) -> Result<Vec<(Range<u64>, bool)>, Errno> {
        Ok(vec![(range, true)])
    }
}
