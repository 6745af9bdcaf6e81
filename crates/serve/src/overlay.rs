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
mod blocks;
mod error;
mod format;
mod lock;
mod losses;

use std::fmt;
use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use foreread::{Engine, File, OpenOptions, SourceIdentity, WriteMode};
use foreread_files::CommandInput;
use foreread_files::kept_file::{self, NewFile};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, retry_on_intr};

use crate::nbd::NbdErrno;
use crate::overlay::block_map::{BitsFile, BlockMap};
use crate::overlay::blocks::{BlocksFile, MakeRoom, OverlayBlocks};
pub use crate::overlay::error::OverlayError;
use crate::overlay::error::not_ours;
use crate::overlay::format::{BLOCK, OverlayLayout};
use crate::overlay::losses::LossyFile;
pub use crate::overlay::losses::OverlayLosses;
use crate::store::Store;

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
    blocks: OverlayBlocks<File>,
    /// If this has made it.
    new_file: Option<NewFile>,
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
        map.repair(&blocks).map_err(failed)?;
        // The descriptor has the lock.
        let make_room: MakeRoom = Box::new(move |range| make_room(&file, &range));
        let blocks = OverlayBlocks::new(base, blocks, layout, map, make_room);
        let losses = OverlayLosses(blocks.losses.clone());
        Ok(Self { blocks, new_file, losses })
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
        self.blocks.map.count() * BLOCK
    }

    /// Returns the file that has what was written. The owner accepts lost writes with
    /// [`OverlayLosses::accept`], not of this file: the overlay would know only at its next flush,
    /// which then fails.
    #[must_use]
    pub fn written_file(&self) -> &File {
        &self.blocks.blocks
    }

    /// Returns the handle with which the owner accepts lost writes.
    #[must_use]
    pub fn losses(&self) -> &OverlayLosses {
        &self.losses
    }

    /// Returns the base.
    #[must_use]
    pub fn base(&self) -> &File {
        &self.blocks.base
    }

    /// Reads bytes as clients see them: those that were written, and those of the base.
    ///
    /// # Errors
    ///
    /// If the base or the overlay cannot be read.
    pub fn read_at(&self, to: &mut [u8], offset: u64) -> io::Result<()> {
        Store::read(self, to, offset).map_err(|_| io::Error::other("the bytes cannot be read"))
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
        self.blocks.is_in_file(range)
    }

    fn read(&self, to: &mut [u8], offset: u64) -> Result<(), NbdErrno> {
        self.blocks.read(to, offset)
    }

    fn try_write(&self, from: &[u8], offset: u64) -> Result<usize, NbdErrno> {
        self.blocks.try_write(from, offset)
    }

    fn write(&self, from: &[u8], offset: u64, fua: bool) -> Result<(), NbdErrno> {
        self.blocks.write(from, offset, fua)
    }

    fn flush(&self) -> io::Result<()> {
        self.blocks.flush()
    }

    fn waits_for_base(&self, range: &Range<u64>, is_write: bool) -> bool {
        self.blocks.waits_for_base(range, is_write)
    }

    fn discard(&self, range: Range<u64>) -> Result<(), NbdErrno> {
        self.blocks.discard(range)
    }

    fn zero(&self, range: Range<u64>, may_unmap: bool) -> Result<(), NbdErrno> {
        self.blocks.zero(range, may_unmap)
    }

    /// What the base has of holes is not known.
    fn extents(&self, range: Range<u64>) -> Result<Vec<(Range<u64>, bool)>, NbdErrno> {
        Ok(vec![(range, true)])
    }
}

/// Takes room in a file: a full disk is known before a write is acknowledged.
fn make_room(file: &fs::File, range: &Range<u64>) -> io::Result<()> {
    let (flags, len) = (FallocateFlags::KEEP_SIZE, range.end - range.start);
    match retry_on_intr(|| fallocate(file, flags, range.start, len)) {
        // Not all file systems can: then a full disk is seen by the flush.
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(errno) => Err(errno.into()),
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

impl LossyFile for File {
    fn losses(&self) -> io::Result<u64> {
        Self::losses(self).map_err(io::Error::other)
    }

    fn accept_lost(&self) -> io::Result<()> {
        Ok(Self::accept_lost(self)?)
    }
}

impl BlocksFile for File {
    fn read_all(&self, to: &mut [u8], offset: u64) -> io::Result<()> {
        if to.is_empty() {
            return Ok(());
        }
        let read = self.read_at(to, offset).map_err(io::Error::from)?;
        if read < to.len() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    fn try_write(&self, from: &[u8], offset: u64) -> io::Result<usize> {
        Ok(self.try_write_at(from, offset)?)
    }

    fn zero(&self, range: Range<u64>, may_unmap: bool) -> io::Result<()> {
        Ok(self.write_zeroes(range, may_unmap)?)
    }

    fn discard(&self, range: Range<u64>) -> io::Result<()> {
        Ok(Self::discard(self, range)?)
    }
}

impl fmt::Debug for Overlay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OverlayBlocks { base, layout, .. } = &self.blocks;
        let mut debug = f.debug_struct("Overlay");
        debug.field("base", base).field("layout", layout).field("written", &self.written());
        debug.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod campaign;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod turns;
