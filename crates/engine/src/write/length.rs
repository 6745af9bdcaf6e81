//! File lengths: truncation, growth and appends. An append never interleaves with another, nor
//! overwrites bytes of another after a truncation.
//!
//! ```text
//!   append     lock | change_len | unlock   reserve, ftruncate   lock | acted | unlock
//!              lock | write      | unlock   copy into frames     lock | filled | unlock
//!   set_len    the first line
//! ```

use std::cell::Cell;
use std::io;
use std::sync::Arc;

use foreread_core::path::{IoPath, LenChange, WriteId};
use foreread_core::units::{ByteCount, MAX_FILE_BYTES, Nanos};

use super::pieces::Pieces;
use super::steps::{StepWork, keep_open};
use crate::driver::Driver;
use crate::engine_state::{DriverGuard, EngineState};
use crate::error::{WriteError, WriteErrorKind};
use crate::file::File;
use crate::file_state::FileState;
use crate::handle::Handle;
use crate::task_step::TaskStep;

impl File {
    /// Sets the length of the file. A file that grows is sparse there: it reads as zeros, which
    /// take no space. A file that shrinks loses the bytes past its new end, and reads as zeros
    /// there if it grows again. Readers see the new length when this returns. It is durable when a
    /// later [`Self::sync_data`] returns, or a later write with
    /// [`WriteMode::Fua`](crate::WriteMode).
    ///
    /// Concurrent writes and appends by other threads are cut at the new end, as if they had
    /// preceded the call.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = foreread::Engine::builder().build()?;
    /// let file = engine.create("/var/lib/db/table")?;
    /// file.set_len(1 << 30)?; // takes no space yet
    /// file.write_all_at(b"header", 0)?;
    /// file.set_len(4096)?;
    /// file.sync_data()?; // bytes and length are durable
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// If the file was opened for reading, or is a block device, whose length is fixed; if the
    /// system refuses the length. The file then keeps its length.
    pub fn set_len(&self, len: u64) -> Result<(), WriteError> {
        let handle = self.handle();
        handle.check_may_write()?;
        handle.change_len(LenChange::Exact(ByteCount(len)), len, 0).map(drop)
    }

    /// Appends `from`, and returns the offset at which it begins. Appends of several threads and
    /// handles are serialized, each contiguous at any size: one begins when the bytes of the
    /// previous one are in memory. A concurrent [`Self::set_len`] takes effect before or after the
    /// whole append. [`OpenOptions::write_mode`](crate::OpenOptions::write_mode) sets when the
    /// bytes are written; until then a reader at the new end may find zeros.
    ///
    /// With [`WriteMode::Fua`](crate::WriteMode) these bytes and the length are durable. Records
    /// appended earlier in another mode need a [`Self::sync_data`].
    ///
    /// An [`Self::append_async`] that has begun and is not polled blocks this call: indefinitely on
    /// the thread that would poll it, unless the engine has a
    /// [time-out](crate::EngineBuilder::timeout).
    ///
    /// Space is reserved before the file grows, if the file system supports it, so that a full file
    /// system refuses the append rather than a later flush.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = foreread::Engine::builder().build()?;
    /// let options = foreread::OpenOptions::new().append(true).create(true);
    /// let log = engine.open_with("/var/lib/db/log", &options)?;
    /// let offset = log.append(b"a record")?;
    /// log.sync_data()?; // the record and the length that the file has with it
    /// println!("the record is at {offset}");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// If the file was opened for reading, or is a block device, whose length is fixed; if there is
    /// no space, or the system refuses the length. The file then keeps its length. If the device
    /// fails afterwards, or times out, the file keeps the part of `from` that was in memory by
    /// then, and the rest is cut off before the next append begins. If the system refuses that cut,
    /// flushes return [`WriteErrorKind::Lost`].
    pub fn append(&self, from: &[u8]) -> Result<u64, WriteError> {
        let handle = self.handle();
        handle.check_may_write()?;
        let append = AppendGuard { file: &handle.file, id: Cell::new(None) };
        let more = from.len() as u64;
        let target = handle.file.len().0.saturating_add(more);
        let offset = handle.grow(&append, LenChange::Append(ByteCount(more)), target, more)?;
        handle.write_pieces(from, offset, handle.write_mode, append.pieces()).1?;
        Ok(offset)
    }

    /// Blocks until all earlier writes are durable, as [`Self::sync_data`] does, and with them the
    /// file's times and mode. The name of a new file is durable once its directory is synced:
    /// `std::fs::File::open(directory)?.sync_all()`.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let file = foreread::Engine::builder().build()?.create("/var/lib/db/table")?;
    /// file.write_all_at(b"bytes", 0)?;
    /// file.sync_all()?; // with the time of this write
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Self::sync_data`].
    pub fn sync_all(&self) -> Result<(), WriteError> {
        self.handle().sync(true)
    }
}

impl Handle {
    /// Changes the length, and returns the previous one. `target` is the expected new length, for
    /// an error message; the caller is about to write the last `written` bytes.
    fn change_len(&self, change: LenChange, target: u64, written: u64) -> Result<u64, WriteError> {
        let file = self.file.id;
        self.change_len_by(target, written, |path, now| path.change_len(now, file, change))
    }

    /// Changes the length for an append or a growing write, which then writes `more` bytes, and
    /// returns the previous length.
    fn grow(
        &self,
        append: &AppendGuard<'_>,
        change: LenChange,
        target: u64,
        more: u64,
    ) -> Result<u64, WriteError> {
        let file = self.file.id;
        self.change_len_by(target, more, |path, now| {
            let id = path.begin_append(now, file, change);
            append.id.set(Some(id));
            id
        })
    }

    fn change_len_by(
        &self,
        target: u64,
        written: u64,
        begin: impl FnOnce(&mut IoPath, Nanos) -> WriteId,
    ) -> Result<u64, WriteError> {
        self.check_len_change(target)?;
        let file = &*self.file;
        let target = Cell::new(target);
        let act = |len: ByteCount| {
            target.set(len.0);
            file.backend.set_len(len.0, written)
        };
        let changed = self.run_to_end("change of length", 0, begin, &StepWork::SetLen(file, &act));
        changed.map(|before| before.0).map_err(|error| length_error(error, target.get()))
    }

    /// Checks that the length of this file can change, and that `target` is a valid length.
    pub(super) fn check_len_change(&self, target: u64) -> Result<(), WriteError> {
        if !self.file.can_change_len() {
            let (path, len) = (self.path.clone(), self.file.len().0);
            return Err(WriteErrorKind::FixedLength { len }.of(path));
        }
        if target > MAX_FILE_BYTES.0 {
            let (path, source) = (self.path.clone(), io::Error::from_raw_os_error(libc::EFBIG));
            return Err(WriteErrorKind::Length { len: target, source }.of(path));
        }
        Ok(())
    }

    /// Grows the file for a write of `len` bytes at `offset`, if necessary and possible. Appends
    /// wait for the pieces of the write until the guard is dropped.
    pub(super) fn grow_for(&self, offset: u64, len: u64) -> Result<AppendGuard<'_>, WriteError> {
        let append = AppendGuard { file: &self.file, id: Cell::new(None) };
        if let Some(end) = self.growth_for(offset, len)? {
            self.grow(&append, LenChange::AtLeast(ByteCount(end)), end, len)?;
        }
        Ok(append)
    }

    /// Returns the minimum length for a write of `len` bytes at `offset`, or None if the file is
    /// long enough.
    pub(super) fn growth_for(&self, offset: u64, len: u64) -> Result<Option<u64>, WriteError> {
        let file_len = self.file.len().0;
        let end = offset.checked_add(len);
        let is_inside = end.is_some_and(|end| end <= file_len);
        if is_inside || (len == 0 && self.file.can_change_len()) {
            return Ok(None);
        }
        let end = end.unwrap_or(u64::MAX);
        if !self.file.can_change_len() {
            return Err(WriteErrorKind::PastEnd { end, len: file_len }.of(self.path.clone()));
        }
        // `check_len_change` refuses lengths that no file can have.
        Ok(Some(end))
    }
}

/// A growing write of the calling thread. Dropping it always reports its end to the core.
pub(super) struct AppendGuard<'h> {
    file: &'h Arc<FileState>,
    /// None until the write has begun.
    id: Cell<Option<WriteId>>,
}

impl AppendGuard<'_> {
    /// Returns the kind of pieces for this write.
    pub(super) fn pieces(&self) -> Pieces {
        self.id.get().map_or(Pieces::Any, Pieces::OfAppend)
    }
}

impl Drop for AppendGuard<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.get() {
            self.file.end_append(id);
        }
    }
}

impl FileState {
    /// Ends a growing write whose pieces are all filled or given up, and cuts the file to the
    /// filled part.
    pub(super) fn end_append(self: &Arc<Self>, append: WriteId) {
        if let Some(mut driver) = self.engine.drive_in_drop() {
            let now = driver.now();
            let cut = driver.path.end_append(now, self.id, append);
            self.run_cut(&mut driver, cut);
        }
    }

    /// Ends a growing write whose caller left before the length changed.
    pub(super) fn end_left_append(self: &Arc<Self>, driver: &mut Driver, append: WriteId) {
        let now = driver.now();
        let cut = driver.path.end_left_append(now, self.id, append);
        self.run_cut(driver, cut);
    }

    /// Cuts the file on a thread of the blocking pool; no caller waits for it.
    fn run_cut(self: &Arc<Self>, driver: &mut Driver, cut: Option<WriteId>) {
        match cut {
            Some(id) => driver.begin_detached(id, TaskStep::set_len(self, 0), keep_open(self)),
            None => driver.go_on(),
        }
    }
}

impl EngineState {
    /// Changes the length of the file on the calling thread.
    pub(super) fn act_on_len<'s>(
        &'s self,
        driver: DriverGuard<'s>,
        id: WriteId,
        file: &FileState,
        len: ByteCount,
        act: &dyn Fn(ByteCount) -> Result<(), i32>,
    ) -> DriverGuard<'s> {
        let before = file.before_len_change(len);
        drop(driver);
        let result = act(len);
        let mut driver = self.drive_again();
        driver.stepped(id, |path, now| path.acted(now, id, result));
        file.after_len_change(before, len, result);
        driver
    }
}

/// Converts an I/O error into the error of a failed length change.
pub(super) fn length_error(error: WriteError, len: u64) -> WriteError {
    if let WriteError { path, kind: WriteErrorKind::Io { source, .. } } = error {
        WriteErrorKind::Length { len, source }.of(path)
    } else {
        error
    }
}
