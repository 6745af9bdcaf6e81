//! The steps of a write: it begins, is posted to its driver, is woken, and ends.

use alloc::vec::Vec;
use core::ops::Range;

use super::Writeback;
use super::command::{WriteCommand, WriteKind, WriteState};
use super::dirty_page::DirtyList;
use super::write_ends::WriteOutcome;
use crate::device_queue::payload::IoPayload;
use crate::driver_io::{Fault, WriteFill, WriteMode, WriteRange, WriteReady, WriteStep};
use crate::ids::{DeviceId, DirtyId, FileId, WriteId, slot_of};
use crate::read_path::ReadPath;
use crate::sched::Submitter;
use crate::table::Frame;
use crate::units::{ByteCount, Nanos, PageIndex, Pages};

impl Writeback {
    /// Begins a write; also returns true if it is over because there is nothing to write.
    pub(crate) fn begin_write(
        &mut self,
        path: &mut ReadPath,
        range: WriteRange,
        mode: WriteMode,
        submitter: Submitter,
        append: Option<WriteId>,
    ) -> (WriteId, bool) {
        let WriteRange { file, pos, len } = range;
        assert!(len > ByteCount::ZERO, "a write asks for at least one byte");
        let mut write = WriteCommand {
            pos,
            requested: len,
            mode,
            submitter,
            append,
            ..WriteCommand::new(file, WriteKind::Write)
        };
        write.cover(path.files.writable(file).len, self.largest_write(path));
        path.telemetry.stats.writes += 1;
        let is_over = write.len == ByteCount::ZERO;
        let id = self.add_write(path, write);
        if is_over {
            self.end_write(path, id, ByteCount::ZERO, None);
        } else {
            self.lock(path, id);
        }
        (id, is_over)
    }

    /// Handles the driver's report that it has acted, with the error number if it failed.
    pub(crate) fn acted(
        &mut self,
        path: &mut ReadPath,
        now: Nanos,
        id: WriteId,
        result: Result<(), i32>,
    ) {
        let write = self.acting(id);
        let result = result.map_err(Fault::Io);
        match write.kind {
            WriteKind::Zeroes => {
                self.end_zeroes(path, now, id, result.err().or(self.zeroed_fault(id)));
            }
            WriteKind::SetLen => self.end_change_len(path, now, id, result.err()),
            WriteKind::Flush => self.end_device_flush(path, now, id, result),
            WriteKind::Write | WriteKind::WriteBack => panic!("{id:?} has nothing to act"),
        }
    }

    /// Ends a write that the driver does not act on, with this error number.
    pub(crate) fn not_acted(&mut self, path: &mut ReadPath, now: Nanos, id: WriteId, errno: i32) {
        let fault = Some(Fault::Io(errno));
        match self.acting(id).kind {
            WriteKind::Zeroes => self.end_zeroes(path, now, id, fault),
            WriteKind::SetLen => self.end_change_len(path, now, id, fault),
            WriteKind::Flush => {
                self.cancel_device_flush(path, now, id);
                self.end_write(path, id, ByteCount::ZERO, fault);
            }
            WriteKind::Write | WriteKind::WriteBack => panic!("{id:?} has nothing to act"),
        }
    }

    /// Returns a write at its act step.
    pub(super) fn acting(&self, id: WriteId) -> &WriteCommand {
        let write = self.writes.get(id).expect("a write acts once, before it is over");
        assert!(write.state == WriteState::Acting, "{id:?} has not been told to act");
        write
    }

    /// Takes the next step of a write.
    pub(crate) fn pop_step(&mut self) -> Option<WriteReady> {
        self.steps.pop_front()
    }

    /// Returns the destinations of a write that may be over.
    pub(crate) fn fills_of(&self, id: WriteId) -> Vec<WriteFill> {
        self.writes.get(id).map_or_else(Vec::new, |write| write.fills.clone())
    }

    /// Returns the destinations of a write to be filled, page by page.
    pub(crate) fn fills(&self, id: WriteId) -> &[WriteFill] {
        let write = self.writes.get(id).expect("a write that is asked for its frames is not over");
        assert!(write.state == WriteState::Filling, "{id:?} is not to be filled");
        &write.fills
    }

    /// Fails the pages of queued requests whose device was removed.
    pub(crate) fn end_unsent(
        &mut self,
        path: &mut ReadPath,
        now: Nanos,
        device: DeviceId,
        load: &mut IoPayload,
    ) {
        let outcome = WriteOutcome::Unstable(ByteCount::ZERO, Fault::Short);
        self.end_writes(path, now, device, load, outcome);
    }

    /// Ends the waiting flushes and writes of a closed file, and drops its dirty pages.
    pub(crate) fn close_file(&mut self, path: &mut ReadPath, file: FileId) {
        self.end_waiting_flushes(path, file);
        self.end_waiting_writes(path, file);
        self.drop_pages_from(path, file, PageIndex(0), Some(Fault::Short));
        let state = self.files.get(file);
        assert!(state.is_none_or(|it| it.flushes.is_empty()), "a flush of {file:?} still waits");
        assert!(self.dirty_pages(file) == Pages::ZERO, "{file:?} is closed, and has dirty pages");
    }

    /// Drops the dirty pages from `first` on, and wakes the writes that wait for them.
    pub(super) fn drop_pages_from(
        &mut self,
        path: &mut ReadPath,
        file: FileId,
        first: PageIndex,
        fault: Option<Fault>,
    ) {
        for id in self.dirty_ids(file) {
            if self.page_of(id) >= first {
                self.drop_dirty(path, id, fault);
            }
        }
    }

    /// Removes clean pages from the cache. If the file still has their bytes (`is_kept`), unstable
    /// ones are recorded as no longer in memory.
    pub(crate) fn forget_clean(
        &self,
        path: &mut ReadPath,
        file: FileId,
        pages: Range<PageIndex>,
        is_kept: bool,
    ) {
        if pages.start >= pages.end {
            return;
        }
        let (cache, count) = (&mut path.page_in.cache, pages.end - pages.start);
        let is_dirty = |frame| self.is_dirty(frame);
        cache.forget_range_but(slot_of(file), pages.start, count, is_kept, is_dirty);
    }

    /// Returns the number of pages of the file that are dirty or being written.
    pub(crate) fn dirty_pages(&self, file: FileId) -> Pages {
        Pages(self.files.get(file).map_or(0, |dirty_file| dirty_file.dirty))
    }

    /// Returns the number of frames held by writes of all files: dirty, being filled, being
    /// written.
    pub(crate) fn dirty(&self) -> Pages {
        Pages(self.budget.used())
    }

    /// Returns true if a write is not over.
    pub(crate) fn is_known(&self, id: WriteId) -> bool {
        self.writes.get(id).is_some()
    }

    /// Returns true if the page in a frame is dirty. A page dropped while it was being written is
    /// not.
    pub(crate) fn is_dirty(&self, frame: Frame) -> bool {
        self.dirty.of(frame).is_some_and(|id| !self.dirty.get(id).is_dropped)
    }

    /// Returns true if writes that have their pages wait for [`Self::grant_pages`].
    pub(crate) fn has_unlocked(&self) -> bool {
        !self.unlocked.is_empty()
    }

    /// Returns all dirty pages of a file.
    pub(super) fn dirty_ids(&self, file: FileId) -> Vec<DirtyId> {
        let Some(dirty_file) = self.files.get(file) else {
            return Vec::new();
        };
        DirtyList::ALL.into_iter().flat_map(|on| self.dirty.list(dirty_file, on)).collect()
    }

    /// Returns the index of a dirty page in its file.
    pub(super) fn page_of(&self, id: DirtyId) -> PageIndex {
        self.dirty.get(id).page
    }

    /// Returns true if the driver was told to fill, or to act, and has not reported back yet.
    pub(crate) fn awaits_driver(&self, id: WriteId, is_act: bool) -> bool {
        let wants = if is_act { WriteState::Acting } else { WriteState::Filling };
        let awaits = |write: &WriteCommand| write.state == wants && !self.has_flushed_device(write);
        self.writes.get(id).is_some_and(awaits) && !self.steps.iter().any(|ready| ready.id == id)
    }

    pub(super) fn add_write(&mut self, path: &mut ReadPath, write: WriteCommand) -> WriteId {
        let file = path.files.used_mut(write.file);
        assert!(!file.is_closing, "{:?} is closed", write.file);
        file.writes += 1;
        self.writes.insert(write)
    }

    /// Posts a step to the driver; the write waits for no device until then.
    pub(super) fn post(
        &mut self,
        path: &mut ReadPath,
        id: WriteId,
        state: WriteState,
        step: WriteStep,
    ) {
        self.set_watched(path, id, false);
        self.set_awaiting(path, id, false);
        self.writes.get_mut(id).expect("a write that has a step is not over").set_state(state);
        self.steps.push_back(WriteReady { id, step });
    }

    /// Makes the write wait for a device.
    pub(super) fn wait(&mut self, path: &mut ReadPath, id: WriteId, state: WriteState) {
        self.set_watched(path, id, true);
        self.set_awaiting(path, id, state == WriteState::Device);
        self.writes.get_mut(id).expect("a write that waits is not over").set_state(state);
    }

    fn set_watched(&mut self, path: &mut ReadPath, id: WriteId, is_watched: bool) {
        let write = self.writes.get_mut(id).expect("a write that waits is not over");
        match (write.is_watched, is_watched) {
            (false, true) => {
                // The wait for a write gives no information about when earlier reads ended.
                path.devices.observer.begin_without_a_look(path.clock);
            }
            (true, false) => path.devices.observer.end(),
            (false, false) | (true, true) => {}
        }
        write.is_watched = is_watched;
    }

    fn set_awaiting(&mut self, path: &mut ReadPath, id: WriteId, is_awaiting: bool) {
        let write = self.writes.get_mut(id).expect("a write that waits is not over");
        if write.is_awaiting != is_awaiting {
            write.is_awaiting = is_awaiting;
            path.devices.set_awaited(path.files.used(write.file).device, is_awaiting);
        }
    }

    /// Ends a write, which has returned its budget, frames and pages.
    pub(super) fn end_write(
        &mut self,
        path: &mut ReadPath,
        id: WriteId,
        len: ByteCount,
        fault: Option<Fault>,
    ) {
        self.set_watched(path, id, false);
        self.set_awaiting(path, id, false);
        let write = self.writes.remove(id).expect("each write ends once");
        assert!(write.budget == 0, "{id:?} is over and holds budget");
        assert!(write.fresh.is_empty(), "{id:?} is over and holds fresh frames");
        assert!(write.fills.is_empty(), "{id:?} is over and holds old frames");
        debug_assert!(
            self.files.get(write.file).is_none_or(|file| !file.locks.contains(&id)),
            "{id:?} is over and holds pages"
        );
        self.steps.push_back(WriteReady { id, step: WriteStep::Done { len, fault } });
        if write.kind == WriteKind::SetLen {
            self.end_append_len(path, write.file, id);
        }
        path.files.end_work(write.file);
        self.end_file_if_over(path, write.file);
    }

    /// Ends one wait of a write, successful or not.
    ///
    /// No write starts I/O here: it could take the frame whose waiters are being woken, for another
    /// page, and be woken with them.
    pub(super) fn wake_write(&mut self, path: &mut ReadPath, id: WriteId, fault: Option<Fault>) {
        let write = self.writes.get_mut(id).expect("a write that waits is not over");
        write.fault = write.fault.or(fault);
        write.outstanding =
            write.outstanding.checked_sub(1).expect("a write is woken once for each wait");
        if write.outstanding > 0 {
            return;
        }
        let (len, fault) = (write.len, write.fault);
        match (write.kind, write.state) {
            (WriteKind::Write, WriteState::Reading) => self.has_old_bytes(path, id),
            (WriteKind::Write, WriteState::Device) => self.end_write(path, id, len, fault),
            (WriteKind::Zeroes, WriteState::Device) => self.start_act(path, id),
            (WriteKind::SetLen, WriteState::Device) if fault.is_some() => {
                self.end_change_len(path, path.clock, id, fault);
            }
            (WriteKind::SetLen, WriteState::Device) => self.start_len_act(path, id),
            (kind, state) => panic!("{id:?}, a {kind:?}, waits in {state:?}"),
        }
    }

    /// Removes a closed file after its last read or write has ended.
    pub(crate) fn end_file_if_over(&mut self, path: &mut ReadPath, file: FileId) {
        if path.end_file_if_over(file) {
            self.files.remove(file);
        }
    }

    /// Wakes all waiters of a frame that was written, or could not be.
    pub(super) fn wake(&mut self, path: &mut ReadPath, frame: Frame, fault: Option<Fault>) {
        path.wake(frame, fault);
        self.tell_woken(path);
    }

    /// Wakes the writes whose frames the read path has filled, or could not fill.
    pub(crate) fn tell_woken(&mut self, path: &mut ReadPath) {
        while let Some((id, fault)) = path.woken_writes.pop_front() {
            assert!(self.is_known(id), "{id:?} waited for a frame and is over");
            self.wake_write(path, id, fault);
        }
    }
}
