//! Writes: into the cache, to the device, durably.
//!
//! In:    bytes and an offset, of any alignment; a flush; ranges to zero or to discard.
//! Never: a copy, a flush or any other wait under the engine's mutex. A silent loss: unwritten
//!        pages stay in memory, and a flush reports them.
//!
//! ```text
//!   write      lock | path.write | unlock   copy into fresh frames   lock | filled | unlock
//!   sync_data  lock | path.flush | unlock   (its pages are written)  fdatasync   lock | acted
//! ```

mod length;
mod pieces;
mod progress;
mod steps;
mod task;
mod zeroes;

use std::ops::Range;

use foreread_core::path::{IoPath, WriteMode};
use foreread_core::units::ByteCount;

use crate::backend::EXTENTS_MAX;
use crate::error::{
    EngineError, ForkedError, ReadError, ReadErrorKind, WriteError, WriteErrorKind,
};
use crate::file::File;
use crate::handle::Handle;

use pieces::Pieces;
pub(crate) use progress::{WriteEnd, WritePlace, WriteProgress};
use steps::StepWork;
pub(crate) use task::{WriteBytes, WriteTask};

impl File {
    /// Writes from `from` at `offset`, and returns the number of bytes written. It is smaller than
    /// `from.len()` only if an error followed, which the next call hits again. Use
    /// [`Self::write_all_at`] to write all bytes or fail.
    ///
    /// [`OpenOptions::write_mode`](crate::OpenOptions::write_mode) sets when the write is complete.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let file = foreread::Engine::builder().build()?.create("/var/lib/db/table")?;
    /// let written = file.write_at(b"some bytes", 4090)?; // across two pages
    /// assert_eq!(written, 10);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Self::write_all_at`], if no byte was written.
    pub fn write_at(&self, from: &[u8], offset: u64) -> Result<usize, WriteError> {
        let handle = self.handle();
        handle.check_may_overwrite()?;
        let growth = handle.grow_for(offset, from.len() as u64)?;
        let (written, result) =
            handle.write_pieces(from, offset, handle.write_mode, growth.pieces());
        if written > 0 { Ok(written) } else { result.map(|()| 0) }
    }

    /// Writes all of `from` at `offset`.
    /// [`OpenOptions::write_mode`](crate::OpenOptions::write_mode) sets when the write is complete:
    ///
    /// ```text
    ///   WriteBack      it is in memory, where reads find it. The device gets it later:
    ///                  sync_data() waits until it has it
    ///   WriteThrough   the device has it, perhaps in a volatile cache of its own
    ///   Fua            the device has it durably
    /// ```
    ///
    /// Offset and length need no alignment. A write that covers a page partly reads the rest of the
    /// page first. While the dirty limit
    /// ([`EngineBuilder::dirty_limit`](crate::EngineBuilder::dirty_limit)) is reached, the write
    /// blocks until the device has taken earlier ones.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use foreread::{Engine, OpenOptions};
    ///
    /// let engine = Engine::builder().build()?;
    /// let image = engine.open_with("/var/lib/images/disk.img", &OpenOptions::new().write(true))?;
    /// image.write_all_at(b"some bytes", 1 << 20)?;
    /// image.sync_data()?; // from here on no power cut takes them away
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// If the file was opened for reading, or ends before the write does; if the device fails, or
    /// the rest of a page cannot be read. A failed write may have been done in part.
    pub fn write_all_at(&self, from: &[u8], offset: u64) -> Result<(), WriteError> {
        self.write_all_at_with(from, offset, self.handle().write_mode)
    }

    /// Writes as [`Self::write_all_at`] does, with a write mode for this call alone.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let file = foreread::Engine::builder().build()?.create("/var/lib/db/table")?;
    /// // This one is durable when it returns.
    /// file.write_all_at_with(b"superblock", 0, foreread::WriteMode::Fua)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Self::write_all_at`].
    pub fn write_all_at_with(
        &self,
        from: &[u8],
        offset: u64,
        mode: WriteMode,
    ) -> Result<(), WriteError> {
        let handle = self.handle();
        handle.check_may_overwrite()?;
        let growth = handle.grow_for(offset, from.len() as u64)?;
        handle.write_pieces(from, offset, mode, growth.pieces()).1
    }

    /// Writes as many bytes of `from` at `offset` as possible without waiting for I/O: neither for
    /// dirty budget nor for the rest of a page. It may wait for other threads of this engine.
    /// Returns the number of bytes written; they are in memory, as with [`WriteMode::WriteBack`].
    /// The file does not grow, because that waits for the file system.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let file = foreread::Engine::builder().build()?.create("/var/lib/db/table")?;
    /// let page = [7; 4096];
    /// let written = file.try_write_at(&page, 0)?;
    /// if written < page.len() {
    ///     println!("{} bytes are for a thread that may wait", page.len() - written);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// If the file was opened for reading or for appending; if the write ends past the end of a
    /// file that cannot grow.
    pub fn try_write_at(&self, from: &[u8], offset: u64) -> Result<usize, WriteError> {
        let handle = self.handle();
        handle.check_may_overwrite()?;
        let mut from = from;
        if handle.file.can_change_len() {
            let left = handle.file.len().0.saturating_sub(offset);
            from = &from[..from.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
        } else {
            handle.check_range(offset, from.len() as u64)?;
        }
        let (written, result) =
            handle.write_pieces(from, offset, WriteMode::WriteBack, Pieces::Unwaited);
        result.map(|()| written)
    }

    /// Blocks until all earlier writes to the file, by any handle, are durable on the device: they
    /// survive a kill or a power cut. Concurrent writes may or may not be included.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = foreread::Engine::builder().build()?;
    /// let options = foreread::OpenOptions::new().write(true);
    /// let file = engine.open_with("/dev/sdb", &options)?;
    /// file.write_zeroes(0..1 << 20, false)?;
    /// if let Err(error) = file.sync_data() {
    ///     // What did not get there is still in memory: put things right, and flush again.
    ///     eprintln!("{error}");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// If the device refused some of these bytes, now or earlier. Each flush then retries the
    /// write, and fails until it succeeds. If the device took all bytes but failed to flush its
    /// cache, or the kernel failed to flush its page cache (for a
    /// [buffered](File::direct_io_unavailable) file), the bytes still in memory are written once
    /// more, and a later flush can succeed. If some of them are no longer in memory, the error is
    /// [`WriteErrorKind::Lost`], which each later flush repeats until [`Self::accept_lost`], or
    /// until the file is opened again.
    pub fn sync_data(&self) -> Result<(), WriteError> {
        self.handle().sync(false)
    }

    /// Accepts the loss of acknowledged writes, after [`Self::sync_data`] has returned
    /// [`WriteErrorKind::Lost`]: later flushes cover only the writes that follow. Before this call,
    /// rewrite or restore the data worth keeping. Does nothing if no write was lost.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let file = foreread::Engine::builder().build()?.create("/var/lib/db/table")?;
    /// if file.sync_data().is_err() && file.has_lost()? {
    ///     // What has to be kept is written again from the program's own copy.
    ///     file.write_all_at(b"again", 0)?;
    ///     file.accept_lost()?;
    ///     file.sync_data()?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// In a child process after `fork`, which does not own the engine.
    pub fn accept_lost(&self) -> Result<(), WriteError> {
        let (handle, file) = (self.handle(), &self.handle().file);
        let mut driver = file.engine.drive().map_err(|forked| handle.forked(forked))?;
        driver.path.accept_lost(file.id);
        Ok(())
    }

    /// Returns whether acknowledged writes were lost and [`Self::accept_lost`] was not called yet:
    /// until then each flush returns [`WriteErrorKind::Lost`].
    ///
    /// # Errors
    ///
    /// In a forked child.
    pub fn has_lost(&self) -> Result<bool, EngineError> {
        let file = &self.handle().file;
        Ok(file.engine.drive()?.path.lost(file.id).is_some())
    }

    /// Returns the number of times that the file has lost writes since it was opened, accepted or
    /// not. A program that keeps an index of its writes compares this number with an earlier one,
    /// and so detects a loss even if another handle has accepted it since.
    ///
    /// # Errors
    ///
    /// In a forked child.
    pub fn losses(&self) -> Result<u64, EngineError> {
        let file = &self.handle().file;
        Ok(file.engine.drive()?.path.losses(file.id))
    }

    /// Returns the data (true) and holes (false) of the file in this range, in order and without
    /// gaps, from the start of the range. There are at most 4096 parts, so that the last one may
    /// end before the range does. Written bytes are data, even before they reach the device. A
    /// block device is all data.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let file = foreread::Engine::builder().build()?.open("/dev/sdb")?;
    /// for (range, is_data) in file.extents(0..1 << 30)? {
    ///     println!("{range:?}: {}", if is_data { "data" } else { "hole" });
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// If dirty pages cannot be written back, or the file system does not answer.
    pub fn extents(&self, range: Range<u64>) -> Result<Vec<(Range<u64>, bool)>, ReadError> {
        self.extents_up_to(range, EXTENTS_MAX)
    }

    /// Returns the first `max` parts of [`Self::extents`], and queries the file system for these
    /// alone.
    ///
    /// # Errors
    ///
    /// As [`Self::extents`].
    pub fn extents_up_to(
        &self,
        range: Range<u64>,
        max: usize,
    ) -> Result<Vec<(Range<u64>, bool)>, ReadError> {
        let max = max.min(EXTENTS_MAX);
        let (handle, file) = (self.handle(), &self.handle().file);
        let (path, end) = (|| handle.path.clone(), range.end.min(file.len().0));
        if range.start > end {
            return Err(ReadErrorKind::PastEnd { offset: range.start, len: end }.of(path()));
        }
        let offset = range.start;
        let forked = |ForkedError| ReadErrorKind::Forked.of(path());
        if file.backend.is_writable() && file.has_dirty_pages().map_err(forked)? {
            let begin = |path: &mut IoPath, now| path.write_back(now, file.id);
            let nothing = || Ok(());
            handle
                .run_to_end("write-back", offset, begin, &StepWork::Act(&nothing))
                .map_err(|error| ReadErrorKind::Io { offset, source: error.into() }.of(path()))?;
        }
        if let Some(mapping) = &file.mapping {
            return Ok(mapping.extents(offset, end, max));
        }
        let extents = file.backend.extents(offset, end, max);
        extents.map_err(|errno| {
            let source = std::io::Error::from_raw_os_error(errno);
            ReadErrorKind::Io { offset, source }.of(path())
        })
    }

    /// Returns whether this handle may write.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.handle().may_write
    }
}

impl Handle {
    pub(crate) fn check_may_write(&self) -> Result<(), WriteError> {
        if self.may_write { Ok(()) } else { Err(WriteErrorKind::ReadOnly.of(self.path.clone())) }
    }

    /// Checks that the handle may write anywhere, not only at the end.
    fn check_may_overwrite(&self) -> Result<(), WriteError> {
        self.check_may_write()?;
        if self.appends { Err(WriteErrorKind::AppendOnly.of(self.path.clone())) } else { Ok(()) }
    }

    /// Checks that the handle may write these `len` bytes at `offset`, and that they are in the
    /// file.
    fn check_writable(&self, offset: u64, len: u64) -> Result<(), WriteError> {
        self.check_may_overwrite()?;
        self.check_range(offset, len)
    }

    /// Checks that the file contains these bytes.
    fn check_range(&self, offset: u64, len: u64) -> Result<(), WriteError> {
        let path = || self.path.clone();
        let (end, file_len) = (offset.checked_add(len), self.file.len().0);
        if end.is_none_or(|end| end > file_len) {
            let end = end.unwrap_or(u64::MAX);
            return Err(WriteErrorKind::PastEnd { end, len: file_len }.of(path()));
        }
        Ok(())
    }

    /// Flushes the data; if `all`, the file's metadata too.
    fn sync(&self, all: bool) -> Result<(), WriteError> {
        let file = &self.file;
        if !file.backend.is_writable() {
            return Ok(());
        }
        let act = || file.backend.sync(all);
        let begin = |path: &mut IoPath, now| path.flush(now, file.id);
        self.run_to_end("flush", 0, begin, &StepWork::Act(&act)).map(drop)
    }

    pub(crate) fn forked(&self, _: ForkedError) -> WriteError {
        WriteErrorKind::Forked.of(self.path.clone())
    }
}

fn usize_of(len: ByteCount) -> usize {
    usize::try_from(len.0).expect("no more is written than the caller's slice has")
}
