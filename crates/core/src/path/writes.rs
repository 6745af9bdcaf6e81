//! Calls for writes and flushes. The driver reports when it has copied bytes or acted.

use core::ops::Range;

use super::IoPath;
use crate::call_log::steps::{PathCall, PathOutput};
use crate::driver_io::{Fault, LenChange, WriteFill, WriteMode, WriteRange, WriteReady};
use crate::ids::{FileId, WriteId};
use crate::sched::Submitter;
use crate::units::{ByteCount, MAX_FILE_BYTES, Nanos, PageIndex, Pages};

/// # Writes
impl IoPath {
    /// Writes `len` bytes at `pos` of an open file.
    ///
    /// One write covers at most an eighth of all frames, and at most the dirty limit;
    /// [`WriteStep::Fill`](super::WriteStep::Fill) reports the covered length. It is cut at the end
    /// of the file, which a write never moves. A write past the end is done at once, with a length
    /// of 0.
    ///
    /// ```text
    ///   mode           Done when                            a failed device write is reported to
    ///   WriteBack      it is in the cache                   the flushes that follow
    ///   WriteThrough   the device has each of its pages     this write, and those flushes
    ///   Fua            each of its pages is durable         this write, and those flushes
    /// ```
    ///
    /// # Panics
    ///
    /// If the file is closed or extent-mapped, or `len` is 0.
    pub fn write(
        &mut self,
        now: Nanos,
        file: FileId,
        pos: ByteCount,
        len: ByteCount,
        mode: WriteMode,
        submitter: Submitter,
    ) -> WriteId {
        self.did(|| PathCall::Write { now, file, pos, len, mode, submitter });
        self.begin_write(now, WriteRange { file, pos, len }, mode, submitter, None)
    }

    fn begin_write(
        &mut self,
        now: Nanos,
        range: WriteRange,
        mode: WriteMode,
        submitter: Submitter,
        append: Option<WriteId>,
    ) -> WriteId {
        self.read_path.clock = now;
        let (writeback, path) = (&mut self.writeback, &mut self.read_path);
        let (id, is_over) = writeback.begin_write(path, range, mode, submitter, append);
        if !is_over {
            self.make_progress(now);
        }
        self.gave(|| PathOutput::Write(id));
        id
    }

    /// Writes all dirty pages of the file to the device, and then requests [the device's
    /// flush](super::WriteStep::Act). It does not wait for writes that are not done yet.
    ///
    /// If the device refused a page, the flush ends with that fault, without an act. The page stays
    /// dirty; each later flush retries it, and fails as well until it is written.
    ///
    /// # Panics
    ///
    /// If the file is closed.
    pub fn flush(&mut self, now: Nanos, file: FileId) -> WriteId {
        self.did(|| PathCall::Flush { now, file });
        self.begin_flush(now, file, true)
    }

    /// Writes all dirty pages of the file without flushing the device, which may keep them in a
    /// volatile cache.
    ///
    /// # Panics
    ///
    /// If the file is closed.
    pub fn write_back(&mut self, now: Nanos, file: FileId) -> WriteId {
        self.did(|| PathCall::WriteBack { now, file });
        self.begin_flush(now, file, false)
    }

    fn begin_flush(&mut self, now: Nanos, file: FileId, with_device: bool) -> WriteId {
        self.read_path.clock = now;
        let id = self.writeback.begin_flush(&mut self.read_path, file, with_device);
        self.make_progress(now);
        self.gave(|| PathOutput::Write(id));
        id
    }

    /// Locks whole pages against writes while the caller zeroes or discards them on the device, at
    /// [`WriteStep::Act`](super::WriteStep::Act). Afterwards their cached contents are dropped,
    /// except dirty pages if the act failed.
    ///
    /// The range is cut at the end of the file, which may have moved when the act comes; the driver
    /// acts on [`Self::act_range`]. An empty range is done at once.
    ///
    /// # Panics
    ///
    /// If the file is closed or extent-mapped.
    pub fn write_zeroes(&mut self, now: Nanos, file: FileId, pages: Range<PageIndex>) -> WriteId {
        self.did(|| PathCall::WriteZeroes { now, file, pages: pages.clone() });
        self.begin_zeroes(now, file, pages, false)
    }

    /// Locks pages in the same way while the caller discards them. Their contents are undefined
    /// afterwards, so no later flush reports errors for them.
    ///
    /// # Panics
    ///
    /// If the file is closed or extent-mapped.
    pub fn discard(&mut self, now: Nanos, file: FileId, pages: Range<PageIndex>) -> WriteId {
        self.did(|| PathCall::Discard { now, file, pages: pages.clone() });
        self.begin_zeroes(now, file, pages, true)
    }

    /// Changes the length of a file, for drivers whose files grow. Changes of one file and
    /// overlapping writes are serialised. A write begun before
    /// [`WriteStep::Done`](super::WriteStep::Done) is cut at the old end.
    ///
    /// ```text
    ///   the length            step
    ///   is right already      Done
    ///   grows                 SetLen
    ///   shrinks               SetLen, once device writes behind the new end have ended and the
    ///                         page at the new end is written; or Done, with that page's fault
    ///   exceeds the largest   Done, with EFBIG: the result of an append is not known before
    ///     file
    /// ```
    ///
    /// At [`SetLen`](super::WriteStep::SetLen), the driver gives the file that length. On success,
    /// dirty pages behind a new end are dropped, reads that wait for frames are cut, and bytes
    /// added to the file are zeros. On failure, nothing changes. Done reports the previous length,
    /// which is where the bytes of an append begin. If a later device flush fails, the change may
    /// be undone; that is [`Fault::Lost`].
    ///
    /// ```
    /// # use foreread_core::geometry::Geometry;
    /// # use foreread_core::path::{Config, IoPath, LenChange, WriteStep};
    /// # use foreread_core::prefetch::{Policy, Rules};
    /// # use foreread_core::sched::SchedulerKind;
    /// # use foreread_core::units::{ByteCount, Nanos, Pages};
    /// # let (memory, policy, rules) = (ByteCount(1 << 20), Policy::None, Rules::default());
    /// # let mut path = IoPath::new(Config { memory, policy, max_window: Pages(0), rules });
    /// # let device = path.add_device(Geometry::new(ByteCount(1 << 30)), &SchedulerKind::Noop);
    /// let file = path.open(device, ByteCount(100)).unwrap();
    /// let id = path.change_len(Nanos(0), file, LenChange::Append(ByteCount(50)));
    /// let len = ByteCount(150);
    /// assert_eq!(path.poll_write().unwrap().step, WriteStep::SetLen { len });
    /// // ... ftruncate(2) ...
    /// path.acted(Nanos(1), id, Ok(()));
    /// let done = WriteStep::Done { len: ByteCount(100), fault: None };
    /// assert_eq!(path.poll_write().unwrap().step, done);
    /// ```
    ///
    /// # Panics
    ///
    /// If the file is closed or extent-mapped, or the requested length exceeds the largest file.
    pub fn change_len(&mut self, now: Nanos, file: FileId, change: LenChange) -> WriteId {
        if let LenChange::Exact(len) | LenChange::AtLeast(len) = change {
            assert!(len <= MAX_FILE_BYTES, "a file of {len} bytes");
        }
        self.did(|| PathCall::ChangeLen { now, file, change });
        self.read_path.clock = now;
        let id = self.writeback.begin_change_len(&mut self.read_path, file, change);
        self.make_progress(now);
        self.gave(|| PathOutput::Write(id));
        id
    }

    /// Extends a file, as [`Self::change_len`] does, for an append or another write past its end
    /// that is written in pieces by [`Self::write_appended`]. Appends to one file are serialised:
    /// each changes the length after the pieces of the previous one are filled, so all bytes before
    /// the start of an append are present. If the file is cut before all pieces are written, later
    /// pieces end there even if the file has grown again, as if the append had been written at once
    /// and the file been cut afterwards.
    ///
    /// It takes 40 bytes of memory until [`Self::end_append`].
    ///
    /// # Panics
    ///
    /// If the file is closed or extent-mapped, or the requested length exceeds the largest file.
    pub fn begin_append(&mut self, now: Nanos, file: FileId, change: LenChange) -> WriteId {
        if let LenChange::Exact(len) | LenChange::AtLeast(len) = change {
            assert!(len <= MAX_FILE_BYTES, "a file of {len} bytes");
        }
        self.did(|| PathCall::BeginAppend { now, file, change });
        self.read_path.clock = now;
        let id = self.writeback.begin_append(&mut self.read_path, file, change);
        self.make_progress(now);
        self.gave(|| PathOutput::Write(id));
        id
    }

    /// Writes a piece of an append, as [`Self::write`] does.
    ///
    /// # Panics
    ///
    /// As [`Self::write`].
    pub fn write_appended(
        &mut self,
        now: Nanos,
        append: WriteId,
        range: WriteRange,
        mode: WriteMode,
        submitter: Submitter,
    ) -> WriteId {
        self.did(|| PathCall::WriteAppended { now, append, range, mode, submitter });
        self.begin_write(now, range, mode, submitter, Some(append))
    }

    /// Ends an append after all its pieces are filled, one has failed, or its caller has gone.
    /// Returns the change of length, if needed, that removes the part that was not written, so that
    /// the next append follows the written bytes; the driver executes it as for
    /// [`Self::change_len`]. If it fails, the file has lost writes.
    ///
    /// Call it after the append's initial change of length is done. If it is called earlier, first
    /// cancel that change ([`Self::cancel_write`]); if the change still gets done, call
    /// [`Self::end_left_append`].
    pub fn end_append(&mut self, now: Nanos, file: FileId, append: WriteId) -> Option<WriteId> {
        self.did(|| PathCall::EndAppend { now, file, append });
        self.read_path.clock = now;
        let cut = self.writeback.end_append(&mut self.read_path, file, append);
        self.make_progress(now);
        if let Some(cut) = cut {
            self.gave(|| PathOutput::Write(cut));
        }
        cut
    }

    /// Ends an append whose change of length is done, if [`Self::end_append`] was called before
    /// that.
    pub fn end_left_append(
        &mut self,
        now: Nanos,
        file: FileId,
        append: WriteId,
    ) -> Option<WriteId> {
        let is_left = self.writeback.is_left_append(file, append);
        if is_left { self.end_append(now, file, append) } else { None }
    }

    fn begin_zeroes(
        &mut self,
        now: Nanos,
        file: FileId,
        pages: Range<PageIndex>,
        is_discard: bool,
    ) -> WriteId {
        self.read_path.clock = now;
        let id = self.writeback.begin_zeroes(&mut self.read_path, file, pages, is_discard);
        self.make_progress(now);
        self.gave(|| PathOutput::Write(id));
        id
    }

    /// Takes the next step of a write.
    pub fn poll_write(&mut self) -> Option<WriteReady> {
        self.did(|| PathCall::PollWrite);
        let ready = self.writeback.pop_step();
        self.gave_with(|path| {
            PathOutput::Step(ready.map(|ready| (ready, path.writeback.fills_of(ready.id))))
        });
        ready
    }

    /// Returns the destinations of a write to be [filled](super::WriteStep::Fill), page by page.
    ///
    /// # Panics
    ///
    /// If the write is not between its fill step and [`Self::filled`].
    #[must_use]
    pub fn fills(&self, id: WriteId) -> &[WriteFill] {
        self.writeback.fills(id)
    }

    /// Returns the range that a zero or discard [acts](super::WriteStep::Act) on: the requested
    /// pages, cut at the end of the file. Other writes past that range may be in progress.
    ///
    /// # Panics
    ///
    /// If this is no zero or discard, or not at its act step.
    #[must_use]
    pub fn act_range(&self, id: WriteId) -> Range<ByteCount> {
        self.writeback.act_range(&self.read_path, id)
    }

    /// Reports that the driver has copied the bytes of [`WriteStep::Fill`](super::WriteStep::Fill).
    /// Readers find the new bytes from now on, and the pages are dirty.
    ///
    /// # Panics
    ///
    /// If the write is not at its fill step.
    pub fn filled(&mut self, now: Nanos, id: WriteId) {
        self.did(|| PathCall::Filled { now, id });
        self.read_path.clock = now;
        self.writeback.end_fill(&mut self.read_path, now, id);
        self.make_progress(now);
    }

    /// Reports that the driver has acted, with the error number if it failed.
    ///
    /// # Panics
    ///
    /// If the write is not at its act step.
    pub fn acted(&mut self, now: Nanos, id: WriteId, result: Result<(), i32>) {
        self.did(|| PathCall::Acted { now, id, result });
        self.read_path.clock = now;
        self.writeback.acted(&mut self.read_path, now, id, result);
        self.make_progress(now);
    }

    /// Reports that the driver does not act because the caller has gone; the operation ends with
    /// this error number. A flush that was not sent gives no information about the device.
    ///
    /// # Panics
    ///
    /// If the write is not at its act step.
    pub fn not_acted(&mut self, now: Nanos, id: WriteId, errno: i32) {
        self.did(|| PathCall::NotActed { now, id, errno });
        self.read_path.clock = now;
        self.writeback.not_acted(&mut self.read_path, now, id, errno);
        self.make_progress(now);
    }

    /// Abandons a write whose caller has gone and will not copy. Call it before
    /// [`WriteStep::Fill`](super::WriteStep::Fill) was polled: a write being filled must be filled.
    ///
    /// ```text
    ///   waits for pages, budget or frames      ends now
    ///   reads the old bytes of a page          ends when they arrive, and is not filled
    ///   was filled; a flush; a zero or a       continues: others may depend on it, and its end
    ///     change of length that has begun        is reported
    /// ```
    ///
    /// # Panics
    ///
    /// If the write is being filled.
    pub fn cancel_write(&mut self, now: Nanos, id: WriteId) {
        self.did(|| PathCall::CancelWrite { now, id });
        if self.writeback.is_known(id) {
            self.writeback.cancel_write(&mut self.read_path, id);
            self.make_progress(now);
        }
    }

    /// Accepts the loss of acknowledged writes after a flush has reported [`Fault::Lost`]; later
    /// flushes no longer report it. Does nothing if the file has lost nothing.
    pub fn accept_lost(&mut self, file: FileId) {
        self.did(|| PathCall::AcceptLost { file });
        self.writeback.accept_lost(file);
    }

    /// Returns the fault of lost writes of the file, until the loss is accepted.
    #[must_use]
    pub fn lost(&self, file: FileId) -> Option<Fault> {
        self.writeback.lost(file)
    }

    /// Returns the number of times that the file has lost writes since it was opened, accepted or
    /// not.
    #[must_use]
    pub fn losses(&self, file: FileId) -> u64 {
        self.writeback.losses(file)
    }

    /// Returns the number of pages of the file that are dirty or being written.
    #[must_use]
    pub fn dirty_pages(&self, file: FileId) -> Pages {
        self.writeback.dirty_pages(file)
    }

    /// Returns the number of frames held by writes of all files: dirty, being filled, being
    /// written.
    #[must_use]
    pub fn dirty(&self) -> Pages {
        self.writeback.dirty()
    }
}
