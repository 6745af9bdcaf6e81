//! What clients write to an export that cannot be written: blocks in a local file beside it.
//!
//! In:    a base that never changes, a file for blocks; reads and writes, from any thread.
//! Out:   the base with the blocks that were written over it.
//! Never: a block of another base's overlay; a bit on disk for a block that is not; a write
//!        acknowledged as durable whose block or bit is not.
//!
//! ```text
//!   read    base  |....|....|....|....|   whose bit is 0
//!           file  |    |####|    |####|   whose bit is 1
//!   write   a block for the first time:   its other bytes from the base, room in the file, the
//!                                         block, then the bit in memory
//!   flush   blocks, then bits:            a crash between them leaves the bits as they were
//! ```

mod block_map;
mod error;
mod format;
mod losses;

use std::fmt;
use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use foreread::{Engine, File, OpenOptions, SourceIdentity, WriteMode};
use foreread_files::CommandInput;
use foreread_files::kept_file::{self, NewFile};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, retry_on_intr};

use crate::nbd::NbdErrno;
use crate::overlay::block_map::{BitsFile, BlockMap};
pub use crate::overlay::error::OverlayError;
use crate::overlay::error::not_ours;
use crate::overlay::format::{BLOCK, BLOCK_BYTES, OverlayLayout};
pub use crate::overlay::losses::OverlayLosses;
use crate::store::{Store, errno_of};

/// A base that is read, and a local file with what was written over it.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use foreread_serve::Overlay;
/// let engine = foreread::Engine::builder().build()?;
/// let base = engine.open("base.img")?;
/// let identity = foreread::SourceIdentity::new("base.img", "1"); // names this version of it
/// let overlay = Overlay::open(&engine, base, &identity, "disk.overlay".as_ref())?;
/// println!("{} bytes differ", overlay.written());
/// # Ok(()) }
/// ```
pub struct Overlay {
    base: File,
    /// The blocks, as the engine writes them.
    blocks: File,
    layout: OverlayLayout,
    map: Arc<BlockMap>,
    /// The same file, for what does not go through the engine: room for blocks. It has the lock.
    file: fs::File,
    /// If this has made it.
    new_file: Option<NewFile>,
    /// Held while blocks are written for the first time, and while lost ones revert to the base.
    first_writes: Arc<Mutex<()>>,
    losses: OverlayLosses,
}

impl Overlay {
    /// Opens an overlay, or makes one, for this version of a base. No other program may use the
    /// file meanwhile.
    ///
    /// # Errors
    ///
    /// If the path names anything but an overlay of this base in this version.
    pub fn open(
        engine: &Engine,
        base: File,
        identity: &SourceIdentity,
        path: &Path,
    ) -> Result<Self, OverlayError> {
        Self::open_with(engine, base, identity, path, &OpenOptions::new().write(true))
    }

    fn open_with(
        engine: &Engine,
        base: File,
        identity: &SourceIdentity,
        path: &Path,
        options: &OpenOptions,
    ) -> Result<Self, OverlayError> {
        let layout = OverlayLayout::new(base.len());
        let header = layout.header(identity).map_err(|what| not_ours(path, what))?;
        let inputs = [CommandInput { name: "TARGET", path: Path::new(identity.name()) }];
        let make = |file: &fs::File| layout.make(file, &header);
        let (file, new_file) =
            kept_file::open_or_make(path, &inputs, make).map_err(OverlayError::File)?;
        let failed = |source| OverlayError::Io { path: path.to_owned(), source };
        if new_file.is_none() {
            layout.check(&file, &header).map_err(failed)?.map_err(|what| not_ours(path, what))?;
        }
        // The server before was perhaps killed in a flush: bits that are read count as saved.
        file.sync_data().map_err(failed)?;
        let map = BlockMap::read(|bytes, at| file.read_exact_at(bytes, at), layout);
        let map = map.map_err(failed)?.map_err(|what| not_ours(path, what))?;
        // The file that is locked, whatever has its name by now.
        let same = file.try_clone().map_err(failed)?;
        let blocks = engine.open_file(same, options).map_err(OverlayError::Open)?;
        if blocks.len() < layout.end() {
            return Err(not_ours(path, format::CUT.to_owned()));
        }
        let (map, first_writes) = (Arc::new(map), Arc::default());
        let losses =
            OverlayLosses::new(blocks.clone(), Arc::clone(&map), Arc::clone(&first_writes));
        Ok(Self { base, blocks, layout, map, file, new_file, first_writes, losses })
    }

    /// Returns the name of the file, if it was made just now: dropped, it removes the file. For a
    /// program that may still refuse to serve it. Otherwise the file stays.
    pub fn take_new_file(&mut self) -> Option<NewFile> {
        self.new_file.take()
    }

    /// Returns how many bytes differ from the base, or were written as they are there: whole blocks
    /// of 4 KiB.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.map.count() * BLOCK
    }

    /// Returns the file that has what was written. The owner accepts lost writes with
    /// [`OverlayLosses::accept`], not of this file: the overlay would know only at its next flush,
    /// which then fails.
    #[must_use]
    pub fn written_file(&self) -> &File {
        &self.blocks
    }

    /// Returns the handle with which the owner accepts lost writes.
    #[must_use]
    pub fn losses(&self) -> &OverlayLosses {
        &self.losses
    }

    /// Returns the base.
    #[must_use]
    pub fn base(&self) -> &File {
        &self.base
    }

    /// Reads bytes as clients see them: those that were written, and those of the base.
    ///
    /// # Errors
    ///
    /// If the base or the overlay cannot be read.
    pub fn read_at(&self, to: &mut [u8], offset: u64) -> io::Result<()> {
        Store::read(self, to, offset).map_err(|_| io::Error::other("the bytes cannot be read"))
    }

    fn read_once(&self, to: &mut [u8], offset: u64) -> Result<(), NbdErrno> {
        let end = offset + to.len() as u64;
        let mut rest = to;
        for (run, is_there) in self.map.runs(blocks_of(offset..end)) {
            let (start, end) = ((run.start * BLOCK).max(offset), (run.end * BLOCK).min(end));
            let len = usize::try_from(end - start).expect("a part of a buffer");
            let (part, tail) = rest.split_at_mut(len);
            rest = tail;
            let (file, at) = if is_there {
                (&self.blocks, self.layout.data_at + start)
            } else {
                (&self.base, start)
            };
            read_all(file, part, at).map_err(|error| errno_of(&error))?;
        }
        assert!(rest.is_empty(), "the runs of a range are all of it");
        Ok(())
    }

    fn write_once(
        &self,
        from: &[u8],
        offset: u64,
        fua: bool,
        reverts: u64,
    ) -> Result<(), NbdErrno> {
        let blocks = blocks_of(offset..offset + from.len() as u64);
        let mode = if fua { WriteMode::Fua } else { WriteMode::WriteBack };
        if self.map.has_all(blocks.clone()) {
            let written = self.blocks.write_all_at_with(from, self.layout.data_at + offset, mode);
            written.map_err(|error| errno_of(&error.into()))?;
        } else {
            self.write_first(from, offset, mode)?;
        }
        if fua {
            // The blocks are durable, whatever else is not.
            self.losses.notice().map_err(|error| errno_of(&error))?;
            let saved = self.map.save_these(&self.blocks, blocks, reverts);
            saved.map_err(|error| errno_of(&error))?;
        }
        Ok(())
    }

    /// Writes blocks of which some are not there yet.
    fn write_first(&self, from: &[u8], offset: u64, mode: WriteMode) -> Result<(), NbdErrno> {
        let end = offset + from.len() as u64;
        let all = blocks_of(offset..end);
        // The base never changes, so what lies beside the write can be read before the lock.
        let before = self.beside(all.start * BLOCK..offset)?;
        let behind = self.beside(end..(all.end * BLOCK).min(self.base.len()))?;
        let _lock = self.first_writes.lock().unwrap_or_else(PoisonError::into_inner);
        // Another write may have been first meanwhile: then its bytes stay.
        let is_new = |block: u64| !self.map.has_any(block..block + 1);
        let before = if is_new(all.start) { &before[..] } else { &[] };
        let behind = if is_new(all.end - 1) { &behind[..] } else { &[] };
        self.make_room(&all)?;
        let at = self.layout.data_at + offset - before.len() as u64;
        let whole;
        let bytes = if before.is_empty() && behind.is_empty() {
            from
        } else {
            whole = [before, from, behind].concat();
            &whole[..]
        };
        let written = self.blocks.write_all_at_with(bytes, at, mode);
        written.map_err(|error| errno_of(&error.into()))?;
        self.map.set(all);
        Ok(())
    }

    /// What the base has beside a write, in the same block.
    fn beside(&self, range: Range<u64>) -> Result<Vec<u8>, NbdErrno> {
        let len = range.end.saturating_sub(range.start);
        let len = usize::try_from(len).expect("a part of a block of 4 KiB");
        let mut bytes = vec![0; len];
        read_all(&self.base, &mut bytes, range.start).map_err(|error| errno_of(&error))?;
        Ok(bytes)
    }

    /// Takes room in the file for blocks that are not there: a full disk is known before a write is
    /// acknowledged.
    fn make_room(&self, blocks: &Range<u64>) -> Result<(), NbdErrno> {
        for (run, is_there) in self.map.runs(blocks.clone()) {
            if is_there {
                continue;
            }
            let end = (run.end * BLOCK).min(self.base.len());
            let (at, len) = (self.layout.data_at + run.start * BLOCK, end - run.start * BLOCK);
            let flags = FallocateFlags::KEEP_SIZE;
            match retry_on_intr(|| fallocate(&self.file, flags, at, len)) {
                // Not all file systems can: then a full disk is seen by the flush.
                Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
                Err(errno) => return Err(errno_of(&errno.into())),
            }
        }
        Ok(())
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        if let Some(new_file) = self.new_file.take() {
            new_file.keep();
        }
    }
}

impl Store for Overlay {
    fn is_in_file(&self, range: &Range<u64>) -> bool {
        !self.map.has_any(blocks_of(range.clone()))
    }

    fn read(&self, to: &mut [u8], offset: u64) -> Result<(), NbdErrno> {
        self.map.unless_reverted(|_| self.read_once(to, offset))
    }

    fn try_write(&self, from: &[u8], offset: u64) -> Result<usize, NbdErrno> {
        let range = offset..offset + from.len() as u64;
        if !self.map.has_all(blocks_of(range)) {
            return Ok(0);
        }
        let reverts = self.map.reverts();
        let written = self.blocks.try_write_at(from, self.layout.data_at + offset);
        let written = written.map_err(|error| errno_of(&error.into()))?;
        // The caller writes again what this did not take.
        Ok(if self.map.reverts() == reverts { written } else { 0 })
    }

    fn write(&self, from: &[u8], offset: u64, fua: bool) -> Result<(), NbdErrno> {
        if from.is_empty() {
            return Ok(());
        }
        self.map.unless_reverted(|reverts| self.write_once(from, offset, fua, reverts))
    }

    fn flush(&self) -> io::Result<()> {
        let saved = self.map.save(&self.blocks, || self.losses.notice());
        if saved.is_err() {
            self.losses.notice()?;
        }
        saved
    }

    fn waits_for_base(&self, range: &Range<u64>, is_write: bool) -> bool {
        let Range { start, end } = *range;
        if !is_write {
            return !self.map.has_all(blocks_of(start..end));
        }
        let is_end = end == self.base.len();
        let edges =
            [(start, start % BLOCK == 0), (end.saturating_sub(1), end % BLOCK == 0 || is_end)];
        let block = |at: u64| at / BLOCK..at / BLOCK + 1;
        edges.into_iter().any(|(at, is_edge)| !is_edge && !self.map.has_all(block(at)))
    }

    /// Blocks of the base have nothing to give back.
    fn discard(&self, range: Range<u64>) -> Result<(), NbdErrno> {
        let at = self.layout.data_at;
        for (run, is_there) in self.map.runs(blocks_of(range.clone())) {
            let start = (run.start * BLOCK).max(range.start);
            let end = (run.end * BLOCK).min(range.end);
            if is_there {
                let discarded = self.blocks.discard(at + start..at + end);
                discarded.map_err(|error| errno_of(&error.into()))?;
            }
        }
        Ok(())
    }

    fn zero(&self, range: Range<u64>, may_unmap: bool) -> Result<(), NbdErrno> {
        let first = range.start.next_multiple_of(BLOCK).min(range.end);
        let is_at_end = range.end == self.base.len();
        let last = if is_at_end { range.end } else { range.end - range.end % BLOCK }.max(first);
        for part in [range.start..first, last..range.end] {
            let len = usize::try_from(part.end - part.start).expect("a part of a block");
            self.write(&[0; BLOCK_BYTES][..len], part.start, false)?;
        }
        if first == last {
            return Ok(());
        }
        let blocks = blocks_of(first..last);
        let _lock = self.first_writes.lock().unwrap_or_else(PoisonError::into_inner);
        if !may_unmap {
            self.make_room(&blocks)?;
        }
        let at = self.layout.data_at;
        let zeroed = self.blocks.write_zeroes(at + first..at + last, may_unmap);
        zeroed.map_err(|error| errno_of(&error.into()))?;
        self.map.set(blocks);
        Ok(())
    }

    /// What the base has of holes is not known.
    fn extents(&self, range: Range<u64>) -> Result<Vec<(Range<u64>, bool)>, NbdErrno> {
        Ok(vec![(range, true)])
    }
}

/// The engine's view of the overlay's file: blocks and bits share its dirty pages and its flushes.
impl BitsFile for File {
    fn write(&self, bytes: &[u8], at: u64, fua: bool) -> io::Result<()> {
        let mode = if fua { WriteMode::Fua } else { WriteMode::WriteBack };
        Ok(self.write_all_at_with(bytes, at, mode)?)
    }

    fn flush(&self) -> io::Result<()> {
        Ok(self.sync_data()?)
    }
}

/// The blocks that a range of bytes is in.
fn blocks_of(range: Range<u64>) -> Range<u64> {
    if range.is_empty() {
        return 0..0;
    }
    range.start / BLOCK..range.end.div_ceil(BLOCK)
}

fn read_all(file: &File, to: &mut [u8], offset: u64) -> io::Result<()> {
    if to.is_empty() {
        return Ok(());
    }
    let read = file.read_at(to, offset).map_err(io::Error::from)?;
    if read < to.len() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

impl fmt::Debug for Overlay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { base, layout, .. } = self;
        let mut debug = f.debug_struct("Overlay");
        debug.field("base", base).field("layout", layout).field("written", &self.written());
        debug.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
