//! Reads the contents of files, with the engine's read-ahead.
//!
//! The kernel does not report opens and closes, so the files read last are kept open, up to a
//! limit.
//!
//! ```text
//!   small     device   |a|b|c|.|d|e|     one stream over many files: if a program reads one after
//!                                        another, the next ones are read ahead
//!   large     file     |------------|    an extent-mapped file of the engine: windows
//!             device   |--|   |----|     follow the file, not the device's blocks
//! ```

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use foreread::{File, FileExtent};
use foreread_ext4::{Error, FileKind, Inode};

use crate::inodes::Inodes;

/// Recently read files.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// Least recently used first.
    kept: Mutex<VecDeque<Arc<OpenContents>>>,
}

#[derive(Debug)]
struct OpenContents {
    inode: Inode,
    /// The extent-mapped file of the engine; None for a file that is small, without blocks,
    /// encrypted, damaged, or too fragmented.
    file: Option<File>,
}

impl Contents {
    /// Calls `give` with bytes of a regular file: fewer than requested only at its end.
    ///
    /// Each thread has one buffer. A new one for each megabyte would be returned to the system, and
    /// zeroed by it, every time.
    pub(crate) fn read(
        &self,
        inodes: &Inodes,
        number: u32,
        offset: u64,
        len: usize,
        give: impl FnOnce(Result<&[u8], Error>),
    ) {
        BUFFER.with_borrow_mut(|buffer| {
            let read = self.kept(inodes, number).and_then(|kept| {
                let left = kept.inode.size.saturating_sub(offset);
                let len = len.min(usize::try_from(left).unwrap_or(usize::MAX));
                if buffer.len() < len {
                    buffer.resize(len, 0);
                }
                let bytes = &mut buffer[..len];
                let read = kept.read(inodes, offset, bytes)?;
                Ok(&bytes[..read])
            });
            give(read);
        });
    }

    fn kept(&self, inodes: &Inodes, number: u32) -> Result<Arc<OpenContents>, Error> {
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut kept = kept();
            let at = kept.iter().rposition(|kept| kept.inode.number == number);
            if let Some(file) = at.and_then(|at| kept.remove(at)) {
                kept.push_back(Arc::clone(&file));
                return Ok(file);
            }
        }
        // Without the lock, so that others can use open files at the same time.
        let inode = inodes.inode(number)?;
        let file = if inode.size > SMALL_BYTES { in_pieces(inodes, &inode) } else { None };
        let file = Arc::new(OpenContents { inode, file });
        let mut kept = kept();
        let oldest = if kept.len() >= KEPT { kept.pop_front() } else { None };
        kept.push_back(Arc::clone(&file));
        drop(kept);
        // This may drop the last handle, which closes the file.
        drop(oldest);
        Ok(file)
    }
}

impl OpenContents {
    fn read(&self, inodes: &Inodes, offset: u64, bytes: &mut [u8]) -> Result<usize, Error> {
        match &self.file {
            Some(_) if bytes.is_empty() => Ok(0),
            Some(file) => file
                .read_at(bytes, offset)
                .map_err(|error| Error::Io { offset, source: io::Error::other(error) }),
            None => inodes.fs().read_at(&self.inode, offset, bytes),
        }
    }
}

thread_local! {
    /// Size of the largest kernel request so far: one megabyte.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Opens an extent-mapped file of the engine, if the inode has few enough extents and all can be
/// read. If the map is partly damaged, the rest is still readable run by run.
fn in_pieces(inodes: &Inodes, inode: &Inode) -> Option<File> {
    let is_regular = inode.kind == FileKind::Regular && inode.has_blocks();
    if !is_regular || inode.is_encrypted() {
        return None;
    }
    let block_size = u64::from(inodes.fs().superblock().block_size);
    let source = inodes.fs().source();
    let mut extents = Vec::new();
    for run in inodes.fs().layout(inode) {
        let run = run.ok()?;
        if extents.len() == PIECES {
            return None;
        }
        let Some(at) = run.at else { continue };
        extents.push(FileExtent {
            start: run.first * block_size,
            len: run.blocks * block_size,
            place: Some(source.place(at * block_size)),
        });
    }
    // If the engine has no space for the map, the file is read run by run.
    source.file.open_extents(inode.number.into(), inode.size, extents).ok()
}

/// Number of files kept open.
const KEPT: usize = 128;

/// Largest file that the kernel reads in one request; such a file needs no windows.
const SMALL_BYTES: u64 = 128 << 10;

/// Most extents of a file opened as one, because their list is read as a whole.
const PIECES: usize = 4096;
