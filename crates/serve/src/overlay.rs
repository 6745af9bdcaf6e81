//! Copy-on-write overlay: blocks that clients write over a read-only export go to a local file.
//!
//! In:    a base that never changes, a file for blocks; reads and writes, from any thread.
//! Out:   the base with the written blocks over it.
//! Never: the overlay of another base; a bit on disk before its block is durable; a write
//!        acknowledged as durable before its block and bit are.
//!
//! ```text
//!   read    base  |....|....|....|....|   blocks with bit 0
//!           file  |    |####|    |####|   blocks with bit 1
//!   write   a block for the first time:   read its other bytes from the base, allocate space in
//!                                         the file, write the block, then set the bit in memory
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

/// Read-only base, and a local file with the blocks written over it.
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
    /// Present if the file was created by this call.
    new_file: Option<NewFile>,
    losses: OverlayLosses,
}

impl Overlay {
    /// Opens or creates an overlay of this version of a base, and locks its file against other
    /// programs. Copies of the bits that a power cut has torn are repaired first.
    ///
    /// # Errors
    ///
    /// If the path names anything but an overlay of this base in this version, or the file cannot
    /// be read, repaired or locked.
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
        // The last server may have been killed in a flush, and bits that are read count as saved.
        file.sync_data().map_err(failed)?;
        let map = BlockMap::read(|bytes, at| file.read_exact_at(bytes, at), layout);
        let map = map.map_err(failed)?.map_err(|what| not_ours(path, what))?;
        // The locked file, even if its path names another one by now.
        let same = file.try_clone().map_err(failed)?;
        let blocks = engine.open_file(same, options).map_err(OverlayError::Open)?;
        if blocks.len() < layout.end() {
            return Err(not_ours(path, format::CUT.to_owned()));
        }
        map.repair(&blocks).map_err(failed)?;
        // This descriptor holds the lock.
        let make_room: MakeRoom = Box::new(move |range| make_room(&file, &range));
        let blocks = OverlayBlocks::new(base, blocks, layout, map, make_room);
        let losses = OverlayLosses(blocks.losses.clone());
        Ok(Self { blocks, new_file, losses })
    }

    /// Returns a guard that removes the file when dropped, if [`Self::open`] created it: for a
    /// program that may still fail before it serves. Without this call the file stays.
    pub fn take_new_file(&mut self) -> Option<NewFile> {
        self.new_file.take()
    }

    /// Returns the number of bytes in written blocks of 4 KiB, whether or not they differ from the
    /// base.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.blocks.map.count() * BLOCK
    }

    /// Returns the file that holds the written blocks. Accept lost writes with
    /// [`OverlayLosses::accept`], not on this file: the next flush of the overlay would notice and
    /// fail.
    #[must_use]
    pub fn written_file(&self) -> &File {
        &self.blocks.blocks
    }

    /// Returns the handle that accepts lost writes.
    #[must_use]
    pub fn losses(&self) -> &OverlayLosses {
        &self.losses
    }

    /// Returns the base.
    #[must_use]
    pub fn base(&self) -> &File {
        &self.blocks.base
    }

    /// Reads bytes as clients see them: written blocks over the base.
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

    /// Reports everything as data: holes of the base are unknown.
    fn extents(&self, range: Range<u64>) -> Result<Vec<(Range<u64>, bool)>, NbdErrno> {
        Ok(vec![(range, true)])
    }
}

/// Allocates space in a file, so that a full disk fails the write before it is acknowledged.
fn make_room(file: &fs::File, range: &Range<u64>) -> io::Result<()> {
    let (flags, len) = (FallocateFlags::KEEP_SIZE, range.end - range.start);
    match retry_on_intr(|| fallocate(file, flags, range.start, len)) {
        // Where the file system cannot, a full disk fails the flush instead.
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
        Ok(self.lost_writes().count()?)
    }

    fn accept_lost(&self) -> io::Result<()> {
        Ok(self.lost_writes().accept()?)
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
