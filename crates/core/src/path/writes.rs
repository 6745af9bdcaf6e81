//! The calls of a path for writes and flushes.
//!
//! In:    what writers do; the driver's word that it has copied or acted.
//! Out:   steps of writes.
//! Never: a page's bytes.

use core::ops::Range;

use super::IoPath;
use crate::call_log::steps::{PathCall, PathOutput};
use crate::driver_io::{Fault, LenChange, WriteFill, WriteMode, WriteReady};
use crate::ids::{FileId, WriteId};
use crate::sched::Submitter;
use crate::units::{ByteCount, MAX_FILE_BYTES, Nanos, PageIndex, Pages};

/// # Writes
impl IoPath {
    /// Writes `len` bytes at `pos` of an open file.
    ///
    /// At most an eighth of all frames serve one write, and no more than may be dirty:
    /// [`WriteStep::Fill`](super::WriteStep::Fill) says how much it covers. It is cut at the end of
    /// the file, which a write never moves; one behind the end is done at once, with a length of 0.
    ///
    /// ```text
    ///   mode           Done when                            a failed device write is told to
    ///   WriteBack      it is in the cache                   the flushes that follow
    ///   WriteThrough   the device has each of its pages     this write, and those flushes
    ///   Fua            each of its pages is durable           this write, and those flushes
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
        self.begin_write(now, (file, pos, len), mode, submitter, None)
    }

    fn begin_write(
        &mut self,
        now: Nanos,
        what: (FileId, ByteCount, ByteCount),
        mode: WriteMode,
        submitter: Submitter,
        append: Option<WriteId>,
    ) -> WriteId {
        self.read_path.clock = now;
        let (writeback, path) = (&mut self.writeback, &mut self.read_path);
        let (id, is_over) = writeback.begin_write(path, what, mode, submitter, append);
        if !is_over {
            self.make_progress(now);
        }
        self.gave(|| PathOutput::Write(id));
        id
    }

    /// Waits until the device has all that was written to the file before, and then wants
    /// [its own flush](super::WriteStep::Act). Writes that are not done yet are not waited for.
    ///
    /// If the device refused a page, this is done with its fault, without an act. The page stays
    /// dirty; each later flush tries it again, and says so again until it is written.
    ///
    /// # Panics
    ///
    /// If the file is closed.
    pub fn flush(&mut self, now: Nanos, file: FileId) -> WriteId {
        self.did(|| PathCall::Flush { now, file });
        self.begin_flush(now, file, true)
    }

    /// The same without the device's own flush: it may have all in a cache that a power cut
    /// empties.
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

    /// Keeps writes out of whole pages while the caller zeroes or discards them on the device: when
    /// [`WriteStep::Act`](super::WriteStep::Act) comes. What the cache has of them is forgotten
    /// once that is over, well or not, but for dirty pages, if it failed.
    ///
    /// A range is cut at the end of the file, which may have become shorter when the act comes:
    /// the driver acts on [`Self::act_range`]. Of nothing, it is done at once.
    ///
    /// # Panics
    ///
    /// If the file is closed or extent-mapped.
    pub fn write_zeroes(&mut self, now: Nanos, file: FileId, pages: Range<PageIndex>) -> WriteId {
        self.did(|| PathCall::WriteZeroes { now, file, pages: pages.clone() });
        self.begin_zeroes(now, file, pages, false)
    }

    /// The same of pages that the caller discards: what they hold afterwards is undefined, so no
    /// later flush answers for it.
    ///
    /// # Panics
    ///
    /// If the file is closed or extent-mapped.
    pub fn discard(&mut self, now: Nanos, file: FileId, pages: Range<PageIndex>) -> WriteId {
        self.did(|| PathCall::Discard { now, file, pages: pages.clone() });
        self.begin_zeroes(now, file, pages, true)
    }

    /// Changes the length of a file: for drivers whose files grow. Changes of one file and writes
    /// there go one after the other; a write that is asked for before
    /// [`WriteStep::Done`](super::WriteStep::Done) is cut at the end that the file had.
    ///
    /// ```text
    ///   the length is         what comes
    ///   right already         Done
    ///   to grow               SetLen
    ///   to shrink             SetLen, when device writes behind the new end have ended, and the
    ///                         page at the new end is written; or Done, with the fault of that page
    ///   to be more than a     Done, with EFBIG: what an append comes to is not known before
    ///     file may have
    /// ```
    ///
    /// When [`SetLen`](super::WriteStep::SetLen) comes, the driver gives the file that length. If it
    /// does, dirty pages behind a new end are dropped, reads that wait for frames are cut, and what
    /// the file gets at its end is zeros. If it fails, all is as it was. Done tells the length
    /// before: there the bytes of an append begin. A device flush that fails afterwards may undo
    /// the change: that is [`Fault::Lost`].
    ///
    /// ```
    /// # use foreread_core::geometry::Geometry;
    /// # use foreread_core::path::{Config, IoPath, LenChange, WriteStep};
    /// # use foreread_core::prefetch::{Policy, Rules};
    /// # use foreread_core::sched::Choice;
    /// # use foreread_core::units::{ByteCount, Nanos, Pages};
    /// # let (memory, policy, rules) = (ByteCount(1 << 20), Policy::None, Rules::default());
    /// # let mut path = IoPath::new(Config { memory, policy, max_window: Pages(0), rules });
    /// # let device = path.add_device(Geometry::new(ByteCount(1 << 30)), &Choice::Noop);
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
    /// If the file is closed or extent-mapped, or no file may have the length that is asked for.
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

    /// Makes a file longer for an append, or for another write behind its end, that is written in
    /// pieces by [`Self::write_appended`], as [`Self::change_len`] does. Those of one file change
    /// its length one after the other, each when the pieces of the one before are filled: where an
    /// append begins, all bytes before it are there. If the file is cut before all pieces are
    /// written, what they write ends there, although the file may have become longer again: as if
    /// the append had been written at once, and then the file been cut.
    ///
    /// Until [`Self::end_append`] it costs 40 bytes of the file.
    ///
    /// # Panics
    ///
    /// If the file is closed or extent-mapped, or no file may have the length that is asked for.
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

    /// Writes a piece of an append that has made the file longer, as [`Self::write`] does.
    ///
    /// # Panics
    ///
    /// As [`Self::write`].
    pub fn write_appended(
        &mut self,
        now: Nanos,
        append: WriteId,
        what: (FileId, ByteCount, ByteCount),
        mode: WriteMode,
        submitter: Submitter,
    ) -> WriteId {
        self.did(|| PathCall::WriteAppended { now, append, what, mode, submitter });
        self.begin_write(now, what, mode, submitter, Some(append))
    }

    /// No more pieces of an append follow, because all are filled, one has failed, or its caller
    /// has left. Returns the change of length, if there is one, that takes back what was not
    /// written, so that the next append follows what was: the driver does it as for
    /// [`Self::change_len`]. If it fails, the file has lost writes.
    ///
    /// To be called after the change of length that the append began with is done. If it is called
    /// before, that is to be cancelled first ([`Self::cancel_write`]), and once it is done
    /// nevertheless, [`Self::end_left_append`] is to be called.
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

    /// Ends an append whose change of length is done, if [`Self::end_append`] was called before.
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

    /// The next step of a write.
    pub fn poll_write(&mut self) -> Option<WriteReady> {
        self.did(|| PathCall::PollWrite);
        let ready = self.writeback.pop_step();
        self.gave_with(|path| {
            PathOutput::Step(ready.map(|ready| (ready, path.writeback.fills_of(ready.id))))
        });
        ready
    }

    /// Where a write goes that is to be [filled](super::WriteStep::Fill), page by page.
    ///
    /// # Panics
    ///
    /// If the write's driver has not been told to fill, or has filled.
    #[must_use]
    pub fn fills(&self, id: WriteId) -> &[WriteFill] {
        self.writeback.fills(id)
    }

    /// What a zero or a discard is to [act](super::WriteStep::Act) on: the bytes that the file has
    /// of the pages that it was asked for. Other writes may be on their way behind them.
    ///
    /// # Panics
    ///
    /// If this is no zero or discard, or its driver has not been told to act.
    #[must_use]
    pub fn act_range(&self, id: WriteId) -> Range<ByteCount> {
        self.writeback.act_range(&self.read_path, id)
    }

    /// The driver has copied what [`WriteStep::Fill`](super::WriteStep::Fill) said: from here on
    /// readers find the new bytes, and the pages are dirty.
    ///
    /// # Panics
    ///
    /// If the write was not to be filled.
    pub fn filled(&mut self, now: Nanos, id: WriteId) {
        self.did(|| PathCall::Filled { now, id });
        self.read_path.clock = now;
        self.writeback.end_fill(&mut self.read_path, now, id);
        self.make_progress(now);
    }

    /// The driver has acted, well or not: the error number.
    ///
    /// # Panics
    ///
    /// If the write's driver has not been told to act.
    pub fn acted(&mut self, now: Nanos, id: WriteId, result: Result<(), i32>) {
        self.did(|| PathCall::Acted { now, id, result });
        self.read_path.clock = now;
        self.writeback.acted(&mut self.read_path, now, id, result);
        self.make_progress(now);
    }

    /// The driver does not act, because no caller waits for this any more: it ends with this error
    /// number. A flush that was not sent to the device says nothing of what the device has.
    ///
    /// # Panics
    ///
    /// If the write's driver has not been told to act.
    pub fn not_acted(&mut self, now: Nanos, id: WriteId, errno: i32) {
        self.did(|| PathCall::NotActed { now, id, errno });
        self.read_path.clock = now;
        self.writeback.not_acted(&mut self.read_path, now, id, errno);
        self.make_progress(now);
    }

    /// The caller of this write has left, and will not copy. To be called before
    /// [`WriteStep::Fill`](super::WriteStep::Fill) was polled: a write that is being filled has to
    /// be filled.
    ///
    /// ```text
    ///   it waits for pages, budget or frames   it is over now
    ///   it reads the old bytes of a page       it is over when they come, and is not filled
    ///   it was filled; a flush; a zero or a    it goes on: others may be told, and the driver is
    ///     change of length that has begun
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

    /// The owner of a file accepts that acknowledged writes are lost, after a flush has said
    /// [`Fault::Lost`]: later flushes say nothing of that loss any more. Of a file that has lost
    /// nothing: nothing.
    pub fn accept_lost(&mut self, file: FileId) {
        self.did(|| PathCall::AcceptLost { file });
        self.writeback.accept_lost(file);
    }

    /// How writes of the file were lost, if any were and the loss is not accepted.
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

    /// How many pages of the file the device does not have yet: dirty, or being written.
    #[must_use]
    pub fn dirty_pages(&self, file: FileId) -> Pages {
        self.writeback.dirty_pages(file)
    }

    /// How many frames writes hold, in all files: dirty, being filled, being written.
    #[must_use]
    pub fn dirty(&self) -> Pages {
        self.writeback.dirty()
    }
}
