//! What changes the export's bytes, and what waits for its device.
//!
//! In:    writes, flushes, ranges.
//! Out:   what became of them, in the protocol's numbers.
//! Never: a wait in `try_write`.

use std::io;
use std::ops::Range;

use foreread::{File, WriteMode};

use crate::nbd::Errno;

/// Where writes go: the engine's file; in tests, something that waits and fails as it is told.
pub(crate) trait Store: Send + Sync {
    /// Takes as many bytes as it can without waiting.
    fn try_write(&self, from: &[u8], offset: u64) -> Result<usize, Errno>;
    /// Takes all of them; with `fua`, they are durable afterwards.
    fn write(&self, from: &[u8], offset: u64, fua: bool) -> Result<(), Errno>;
    /// All that was written is durable afterwards.
    fn flush(&self) -> io::Result<()>;
    fn discard(&self, range: Range<u64>) -> Result<(), Errno>;
    fn zero(&self, range: Range<u64>, may_unmap: bool) -> Result<(), Errno>;
    /// What is data (true) and what is a hole, from the start of the range on; it may end early.
    fn extents(&self, range: Range<u64>) -> Result<Vec<(Range<u64>, bool)>, Errno>;
}

impl Store for File {
    fn try_write(&self, from: &[u8], offset: u64) -> Result<usize, Errno> {
        self.try_write_at(from, offset).map_err(|error| errno_of(&error.into()))
    }

    fn write(&self, from: &[u8], offset: u64, fua: bool) -> Result<(), Errno> {
        let mode = if fua { WriteMode::Fua } else { WriteMode::Back };
        self.write_at(from, offset, mode).map_err(|error| errno_of(&error.into()))
    }

    fn flush(&self) -> io::Result<()> {
        Ok(File::flush(self)?)
    }

    fn discard(&self, range: Range<u64>) -> Result<(), Errno> {
        File::discard(self, range).map_err(|error| errno_of(&error.into()))
    }

    fn zero(&self, range: Range<u64>, may_unmap: bool) -> Result<(), Errno> {
        File::zero(self, range, may_unmap).map_err(|error| errno_of(&error.into()))
    }

    fn extents(&self, range: Range<u64>) -> Result<Vec<(Range<u64>, bool)>, Errno> {
        File::extents(self, range).map_err(|error| errno_of(&error.into()))
    }
}

/// The protocol has few numbers: what has none of its own is an error of the device.
pub(crate) fn errno_of(error: &io::Error) -> Errno {
    let kind = error.kind();
    if matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
        Errno::NoSpc
    } else if kind == io::ErrorKind::OutOfMemory {
        Errno::NoMem
    } else if matches!(kind, io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem) {
        Errno::Perm
    } else {
        Errno::Io
    }
}
