//! Zeroes and discards: whole pages that their caller changes directly on the device. Dirty pages
//! are dropped only after the act has succeeded.
//!
//! ```text
//!   earlier writes there      are filled first
//!   device writes there       end first, and FUA writes; no other one begins
//!   dirty pages there         stay as they are until the act:   success  dropped
//!                                                               failure  dirty as before
//!   later writes there        wait
//!   reads                     see the old pages until the act is done
//! ```

use alloc::vec::Vec;
use core::ops::Range;

use super::Writeback;
use super::command::{WriteCommand, WriteKind, WriteState};
use super::dirty_page::DirtyList;
use crate::driver_io::{Fault, WriteStep};
use crate::ids::{DirtyId, FileId, WriteId, slot_of};
use crate::read_path::ReadPath;
use crate::units::{ByteCount, Nanos, PageIndex, Pages};

impl Writeback {
    /// Begins a write of zeroes, or a discard, of whole pages.
    pub(crate) fn begin_zeroes(
        &mut self,
        path: &mut ReadPath,
        file: FileId,
        pages: Range<PageIndex>,
        is_discard: bool,
    ) -> WriteId {
        let end = path.files.writable(file).end();
        let pages = pages.start..pages.end.min(end);
        let is_over = pages.start >= pages.end;
        let id = self.add_write(
            path,
            WriteCommand { pages, is_discard, ..WriteCommand::new(file, WriteKind::Zeroes) },
        );
        if is_over {
            self.end_write(path, id, ByteCount::ZERO, None);
        } else {
            self.lock(path, id);
        }
        id
    }

    /// Starts a zero that has its pages: holds dirty pages back, and waits for device writes to
    /// them.
    pub(super) fn start_zeroes(&mut self, path: &mut ReadPath, id: WriteId) {
        let write = self.writes.get(id).expect("a zero that has its pages is not over");
        assert!(write.state == WriteState::Locked, "{id:?} starts once");
        let (file, pages) = (write.file, write.pages.clone());
        let mut awaited = 0;
        for dirty in self.dirty_ids_in(path, file, &pages) {
            awaited += u32::from(self.hold_dirty(dirty, false));
        }
        self.writes.get_mut(id).expect("a zero that has its pages is not over").outstanding =
            awaited;
        if awaited == 0 {
            self.start_act(path, id);
        } else {
            self.wait(path, id, WriteState::Device);
        }
    }

    /// Holds a dirty page back from the flusher, unless it has to be written first or is being
    /// written; returns true if its end is awaited.
    pub(super) fn hold_dirty(&mut self, id: DirtyId, is_written_first: bool) -> bool {
        let dirty = self.dirty.get(id);
        let (file, on) = (dirty.file, dirty.on);
        // A durable write must not be replaced by zeroes, or by a new end of the file, that may be
        // in the device's volatile cache.
        let is_written_first = is_written_first || dirty.is_fua;
        if is_written_first || on == DirtyList::Writing {
            self.dirty.get_mut(id).is_awaited = true;
            if on != DirtyList::Writing {
                self.dirty.get_mut(id).is_urgent = true;
            }
            if on == DirtyList::Failed {
                self.resend(file, id);
            } else if matches!(on, DirtyList::Aging | DirtyList::Urgent) {
                let dirty_file = self.files.get_mut(file).expect(IS_COUNTED);
                self.dirty.put(dirty_file, id, DirtyList::Urgent);
            }
            return true;
        }
        self.dirty.get_mut(id).is_locked = true;
        let dirty_file = self.files.get_mut(file).expect(IS_COUNTED);
        self.dirty.put(dirty_file, id, DirtyList::Held);
        false
    }

    /// Lets the driver act, when no device write is in the way.
    pub(super) fn start_act(&mut self, path: &mut ReadPath, id: WriteId) {
        self.start_act_beside_cache(path, id);
        self.post(path, id, WriteState::Acting, WriteStep::Act);
    }

    /// Returns the range that the driver of a zero or discard acts on: its pages, cut at the end of
    /// the file.
    pub(crate) fn act_range(&self, path: &ReadPath, id: WriteId) -> Range<ByteCount> {
        let write = self.acting(id);
        assert!(write.kind == WriteKind::Zeroes, "{id:?} acts on no range");
        let end = write.pages.end.offset().min(path.files.used(write.file).len);
        write.pages.start.offset().min(end)..end
    }

    /// Ends a device write that a zero or a change of length waited for. A failure counts only if
    /// its bytes are needed afterwards.
    pub(super) fn end_awaited(
        &mut self,
        path: &mut ReadPath,
        file: FileId,
        page: PageIndex,
        fault: Option<Fault>,
    ) {
        if let Some(id) = self.holder_of(file, page)
            && let Some(write) = self.writes.get(id)
            && write.state == WriteState::Device
        {
            let fault = fault.filter(|_| !write.held_pages().contains(&page));
            self.wake_write(path, id, fault);
        }
    }

    /// Returns the zero or change of length that has locked this page and has begun.
    pub(super) fn holder_of(&self, file: FileId, page: PageIndex) -> Option<WriteId> {
        let locks = &self.files.get(file)?.locks;
        locks.iter().copied().find(|&id| {
            let write = self.writes.get(id).expect("a write with a lock is not over");
            let is_holder = matches!(write.kind, WriteKind::Zeroes | WriteKind::SetLen);
            let has_begun = matches!(write.state, WriteState::Device | WriteState::Acting);
            is_holder && has_begun && write.pages.contains(&page)
        })
    }

    pub(super) fn end_zeroes(
        &mut self,
        path: &mut ReadPath,
        now: Nanos,
        id: WriteId,
        fault: Option<Fault>,
    ) {
        let write = self.writes.get(id).expect("a zero that acts is not over");
        assert!(write.outstanding == 0, "{id:?} has acted before device writes there ended");
        let (file, pages) = (write.file, write.pages.clone());
        let locked = self.dirty_ids_in(path, file, &pages);
        for &dirty in &locked {
            if fault.is_none() {
                self.drop_dirty(path, dirty, None);
            } else {
                self.dirty.get_mut(dirty).is_locked = false;
                self.dirty.get_mut(dirty).is_urgent = true;
                self.unhold(now, dirty);
            }
        }
        let is_discard = self.writes.get(id).expect("a zero that acts is not over").is_discard;
        if fault.is_none() && !is_discard {
            // These zeros are in no frame from which they could be rewritten.
            path.page_in.cache.note_unstable_beside_cache(slot_of(file));
        }
        // The act may have been partly done before it failed, so the device is read again.
        self.forget_clean(path, file, pages.clone(), fault.is_some());
        self.unlock(id);
        let len = if fault.is_none() { (pages.end - pages.start).bytes() } else { ByteCount::ZERO };
        self.end_write(path, id, len, fault);
        self.check_flushes(path, file);
    }

    /// Returns the dirty pages in this range, by page or from the file's lists, whichever is
    /// shorter.
    pub(super) fn dirty_ids_in(
        &self,
        path: &ReadPath,
        file: FileId,
        pages: &Range<PageIndex>,
    ) -> Vec<DirtyId> {
        if (pages.end - pages.start) > self.dirty_pages(file) {
            let all = self.dirty_ids(file).into_iter();
            return all.filter(|&id| pages.contains(&self.page_of(id))).collect();
        }
        let mut found = Vec::new();
        let mut page = pages.start;
        while page < pages.end {
            let entry = path.page_in.cache.look_up(slot_of(file), page);
            let newest = entry.and_then(|entry| self.dirty.of(entry.frame()));
            let older = newest.and_then(|id| self.dirty.get(id).other);
            found.extend(newest.into_iter().chain(older));
            page = page + Pages(1);
        }
        found
    }
}

const IS_COUNTED: &str = "a dirty page is counted by its file";
