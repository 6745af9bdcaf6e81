//! What is in files.
//!
//! In:    an inode's number, an offset.
//! Out:   bytes, as the engine reads them ahead.
//! Never: an open file that the kernel has to close: it does not tell us of opens and closes, so
//!        the last files that were read are kept, and no more.
//!
//! ```text
//!   small     device   |a|b|c|.|d|e|     one stream over many files: if a program reads one after
//!                                        another, the next ones are read ahead
//!   large     file     |------------|    an extent-mapped file of the engine: windows
//!             device   |--|   |----|     follow the file, not what lies behind a piece
//! ```

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use foreread::{File, FileExtent};
use foreread_ext4::{Error, FileKind, Inode};

use crate::inodes::Inodes;

/// The files that were read last.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// The last one at the end.
    kept: Mutex<VecDeque<Arc<OpenContents>>>,
}

#[derive(Debug)]
struct OpenContents {
    inode: Inode,
    /// In pieces of the device; None: small, without blocks, encrypted, damaged, or in too many
    /// pieces.
    file: Option<File>,
}

impl Contents {
    /// Calls `give` with bytes of a regular file: fewer than asked only at its end.
    ///
    /// Each thread has one buffer for what passes through it: a new one would be given back to the
    /// system, and be filled with zeros by it, for each megabyte that is read.
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
        // Without the lock: others find theirs meanwhile.
        let inode = inodes.inode(number)?;
        let file = if inode.size > SMALL_BYTES { in_pieces(inodes, &inode) } else { None };
        let file = Arc::new(OpenContents { inode, file });
        let mut kept = kept();
        let oldest = if kept.len() >= KEPT { kept.pop_front() } else { None };
        kept.push_back(Arc::clone(&file));
        drop(kept);
        // It may be the last handle, and closes its file.
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
    /// As long as the largest request of the kernel so far: a megabyte.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A file of the engine, if the inode has blocks in not too many pieces, and all of them are known:
/// of a map that is damaged in one place the rest can be read piece by piece.
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
    // What the engine has no room for is read piece by piece.
    source.file.open_extents(inode.number.into(), inode.size, extents).ok()
}

/// How many files are kept.
const KEPT: usize = 128;

/// Up to here a file is one request of the kernel, and has no windows of its own.
const SMALL_BYTES: u64 = 128 << 10;

/// In how many pieces a file may be that is opened as one: their list is read as a whole.
const PIECES: usize = 4096;
