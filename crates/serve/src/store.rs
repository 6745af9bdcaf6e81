//! What changes the export's bytes, and what waits for its device.
//!
//! In:    writes, flushes, ranges.
//! Out:   what became of them, in the protocol's numbers.
//! Never: a wait in `try_write`.

use std::io;
use std::ops::Range;

use foreread::{File, WriteMode};

use crate::nbd::NbdErrno;

/// Where writes go: the engine's file, or an overlay; in tests, something that waits and fails as
/// it is told.
pub(crate) trait Store: Send + Sync {
    /// Whether the export's file has these bytes as clients see them.
    fn is_in_file(&self, _: &Range<u64>) -> bool {
        true
    }
    /// Whether a read or a write of these bytes may wait for a base that is elsewhere.
    fn waits_for_base(&self, _: &Range<u64>, _is_write: bool) -> bool {
        false
    }
    /// Reads bytes of which the export's file has not all.
    fn read(&self, _: &mut [u8], _: u64) -> Result<(), NbdErrno> {
        Err(NbdErrno::Io)
    }
    /// Takes as many bytes as it can without waiting.
    fn try_write(&self, from: &[u8], offset: u64) -> Result<usize, NbdErrno>;
    /// Takes all of them; with `fua`, they are durable afterwards.
    fn write(&self, from: &[u8], offset: u64, fua: bool) -> Result<(), NbdErrno>;
    /// All that was written is durable afterwards.
    fn flush(&self) -> io::Result<()>;
    fn discard(&self, range: Range<u64>) -> Result<(), NbdErrno>;
    fn zero(&self, range: Range<u64>, may_unmap: bool) -> Result<(), NbdErrno>;
    /// What is data (true) and what is a hole, from the start of the range on; it may end early.
    fn extents(&self, range: Range<u64>) -> Result<Vec<(Range<u64>, bool)>, NbdErrno>;
    /// The first extent of the range, at the cost of one. An empty list: not known.
    fn first_extent(&self, range: Range<u64>) -> Result<Vec<(Range<u64>, bool)>, NbdErrno> {
        self.extents(range)
    }
}

impl Store for File {
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

/// The protocol has few numbers: what has none of its own is an error of the device.
pub(crate) fn errno_of(error: &io::Error) -> NbdErrno {
    let kind = error.kind();
    let no_space = [
        io::ErrorKind::StorageFull,
        io::ErrorKind::QuotaExceeded,
        // Beyond the limit of the process: the protocol has no word for it, and more room helps.
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
