//! Backing store of an export: writes, flushes and extents, with errors as NBD error numbers.

use std::io;
use std::ops::Range;

use foreread::{File, WriteMode};

use crate::nbd::NbdErrno;

/// Backing store of an export: the engine's file or an overlay; in tests, a store that blocks and
/// fails on command.
pub(crate) trait Store: Send + Sync {
    /// Returns the file that takes all writes and flushes of this store, which then run as futures.
    /// None: they may block, and need a thread.
    fn file(&self) -> Option<&File> {
        None
    }
    /// Returns true if the export's file holds these bytes as clients see them.
    fn is_in_file(&self, _: &Range<u64>) -> bool {
        true
    }
    /// Returns true if a read or write of these bytes may block on a remote base.
    fn waits_for_base(&self, _: &Range<u64>, _is_write: bool) -> bool {
        false
    }
    /// Reads a range that the export's file does not hold completely.
    fn read(&self, _: &mut [u8], _: u64) -> Result<(), NbdErrno> {
        Err(NbdErrno::Io)
    }
    /// Writes as many bytes as possible without blocking and returns their number.
    fn try_write(&self, from: &[u8], offset: u64) -> Result<usize, NbdErrno>;
    /// Writes all bytes; with `fua`, they are durable on return.
    fn write(&self, from: &[u8], offset: u64, fua: bool) -> Result<(), NbdErrno>;
    /// Flushes: all earlier writes are durable on return.
    fn flush(&self) -> io::Result<()>;
    fn discard(&self, range: Range<u64>) -> Result<(), NbdErrno>;
    fn zero(&self, range: Range<u64>, may_unmap: bool) -> Result<(), NbdErrno>;
    /// Returns the extents from the start of the range, data (true) or hole; the list may end
    /// early.
    fn extents(&self, range: Range<u64>) -> Result<Vec<(Range<u64>, bool)>, NbdErrno>;
    /// Returns the first extent of the range at the cost of looking up one. An empty list means
    /// unknown.
    fn first_extent(&self, range: Range<u64>) -> Result<Vec<(Range<u64>, bool)>, NbdErrno> {
        self.extents(range)
    }
}

impl Store for File {
    fn file(&self) -> Option<&File> {
        Some(self)
    }

    fn try_write(&self, from: &[u8], offset: u64) -> Result<usize, NbdErrno> {
        self.try_write_at(from, offset).map_err(|error| errno_of(&error.into()))
    }

    fn write(&self, from: &[u8], offset: u64, fua: bool) -> Result<(), NbdErrno> {
        let mode = if fua { WriteMode::Fua } else { WriteMode::WriteBack };
        self.write_all_at_with(from, offset, mode).map_err(|error| errno_of(&error.into()))
    }

    fn flush(&self) -> io::Result<()> {
        Ok(File::sync_data(self)?)
    }

    fn discard(&self, range: Range<u64>) -> Result<(), NbdErrno> {
        File::discard(self, range).map_err(|error| errno_of(&error.into()))
    }

    fn zero(&self, range: Range<u64>, may_unmap: bool) -> Result<(), NbdErrno> {
        File::write_zeroes(self, range, may_unmap).map_err(|error| errno_of(&error.into()))
    }

    fn extents(&self, range: Range<u64>) -> Result<Vec<(Range<u64>, bool)>, NbdErrno> {
        File::extents(self, range).map_err(|error| errno_of(&error.into()))
    }

    fn first_extent(&self, range: Range<u64>) -> Result<Vec<(Range<u64>, bool)>, NbdErrno> {
        File::extents_up_to(self, range, 1).map_err(|error| errno_of(&error.into()))
    }
}

/// Maps an I/O error to an NBD error number. NBD defines few; every other error counts as a device
/// error.
pub(crate) fn errno_of(error: &io::Error) -> NbdErrno {
    let kind = error.kind();
    let no_space = [
        io::ErrorKind::StorageFull,
        io::ErrorKind::QuotaExceeded,
        // The process hit its file-size limit. NBD has no number for it, and more space helps.
        io::ErrorKind::FileTooLarge,
    ];
    if no_space.contains(&kind) {
        NbdErrno::NoSpc
    } else if kind == io::ErrorKind::OutOfMemory {
        NbdErrno::NoMem
    } else if matches!(kind, io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem) {
        NbdErrno::Perm
    } else {
        NbdErrno::Io
    }
}
