//! Changes of a file's length, and their effect on the pages at its end. When a file has shrunk and
//! grown again, the bytes behind the former end are zeros.
//!
//! ```text
//!   shrinks     |=====|=====|=====|==        its new end is in page 1
//!                        ^
//!   page 1      dirty: it is written first, with its old length, and then forgotten
//!   behind it   device writes and FUA writes end first; the rest stays dirty until the driver has
//!               acted:         success  dropped
//!                              failure  dirty as before
//!
//!   grows       |=====|=====|=====|== . . .
//!   page 3      stays: its frame has zeros behind the old end
//! ```
//!
//! Changes of one file and writes to the affected pages are serialised by its page locks. A change
//! locks all pages from the lower of both ends on. It learns the file's length only when the lock
//! is granted, so its range begins no later in the file than the range of any change before it in
//! the line.

use core::ops::Range;

use super::Writeback;
use super::command::{WriteCommand, WriteKind, WriteState};
use super::refusals::EFBIG;
use super::rewrite::EIO;
use crate::driver_io::{Fault, LenChange, WriteStep};
use crate::ids::{FileId, WriteId, slot_of};
use crate::read_path::ReadPath;
use crate::units::{ByteCount, MAX_FILE_BYTES, Nanos, PageIndex};

impl Writeback {
    /// Begins a change of a file's length.
    pub(crate) fn begin_change_len(
        &mut self,
        path: &mut ReadPath,
        file: FileId,
        change: LenChange,
    ) -> WriteId {
        let pages = self.pages_of_change(path, file, change);
        let change = Some(change);
        let id = self.add_write(
            path,
            WriteCommand { pages, change, ..WriteCommand::new(file, WriteKind::SetLen) },
        );
        self.lock(path, id);
        id
    }

    /// Returns the pages that a change of length locks if it joins the line of page locks now.
    pub(super) fn pages_of_change(
        &self,
        path: &ReadPath,
        file: FileId,
        change: LenChange,
    ) -> Range<PageIndex> {
        let mut first = path.files.writable(file).len.page();
        if let LenChange::Exact(len) = change {
            first = first.min(len.page());
        }
        let dirty_file = self.files.get(file);
        for &id in dirty_file.iter().flat_map(|dirty_file| &dirty_file.locks) {
            let write = self.writes.get(id).expect("a write with a lock is not over");
            if write.kind == WriteKind::SetLen {
                first = first.min(write.pages.start);
            }
        }
        first..END_OF_PAGES
    }

    /// Starts a change of length that has its pages: computes the new length from the current one.
    pub(super) fn start_change_len(&mut self, path: &mut ReadPath, id: WriteId) {
        let write = self.writes.get_mut(id).expect("a change that has its pages is not over");
        assert!(write.state == WriteState::Locked, "{id:?} starts once");
        let (file, change) = (write.file, write.change.expect("a change says to what"));
        let before = path.files.used(file).len;
        let is_stale = write.only_from.is_some_and(|from| from != before);
        let change = if is_stale { LenChange::Exact(before) } else { change };
        let Some(target) = change.target(before) else {
            self.unlock(id);
            self.end_write(path, id, ByteCount::ZERO, Some(Fault::Io(EFBIG)));
            return;
        };
        assert!(
            is_stale || write.pages.start <= before.min(target).page(),
            "{id:?} has all that it changes"
        );
        (write.requested, write.len) = (target, before);
        if target == before {
            self.unlock(id);
            self.end_write(path, id, before, None);
            return;
        }
        let mut awaited = 0;
        if target < before {
            let held = write.held_pages();
            for dirty in self.dirty_ids_in(path, file, &(target.page()..held.end)) {
                let is_boundary = !held.contains(&self.page_of(dirty));
                awaited += u32::from(self.hold_dirty(dirty, is_boundary));
            }
            self.list_file(file);
        }
        self.writes.get_mut(id).expect("a change that has its pages is not over").outstanding =
            awaited;
        if awaited == 0 {
            self.start_len_act(path, id);
        } else {
            self.wait(path, id, WriteState::Device);
        }
    }

    /// Lets the driver change the length, when no device write is in the way.
    pub(super) fn start_len_act(&mut self, path: &mut ReadPath, id: WriteId) {
        let write = self.writes.get(id).expect("a change that begins to act is not over");
        let (file, len, before) = (write.file, write.requested, write.len);
        if len < before {
            // In memory, it could become dirty again after a failed flush, with its old length.
            let boundary = len.page()..PageIndex(len.pages_up().0);
            assert!(self.dirty_ids_in(path, file, &boundary).is_empty(), "{boundary:?} is dirty");
            self.forget_clean(path, file, boundary, true);
            path.begin_cut(file, len);
        }
        self.start_act_beside_cache(path, id);
        self.post(path, id, WriteState::Acting, WriteStep::SetLen { len });
    }

    /// Ends a change of length. On a fault (the driver's, or that of writing the page at the new
    /// end), the file and its pages stay as they were.
    pub(super) fn end_change_len(
        &mut self,
        path: &mut ReadPath,
        now: Nanos,
        id: WriteId,
        fault: Option<Fault>,
    ) {
        let write = self.writes.get(id).expect("a change ends once");
        assert!(write.outstanding == 0, "{id:?} has acted before device writes there ended");
        let (file, len, before) = (write.file, write.requested, write.len);
        let (pages, is_of_append) = (write.pages.clone(), write.only_from.is_some());
        path.end_cut(file);
        if let Some(fault) = fault {
            if is_of_append && !path.files.used(file).is_closing {
                // Zeros that no caller wrote stay in the file, and later appends follow them.
                self.note_len_lost(file, fault);
            }
            for dirty in self.dirty_ids_in(path, file, &pages) {
                if core::mem::take(&mut self.dirty.get_mut(dirty).is_locked) {
                    self.dirty.get_mut(dirty).is_urgent = true;
                    self.unhold(now, dirty);
                }
            }
        } else if !path.files.used(file).is_closing {
            // No frame contains the change that a failed flush may undo.
            path.page_in.cache.note_unstable_beside_cache(slot_of(file));
            if let Some(fault) = self.zeroed_fault(id) {
                self.note_len_lost(file, fault);
            }
            self.set_len(path, file, len, true);
            self.has_appended(file, id, before, len);
        }
        self.unlock(id);
        let len = if fault.is_none() { before } else { ByteCount::ZERO };
        self.end_write(path, id, len, fault);
        self.check_flushes(path, file);
    }

    /// Records a loss: a flush failed during the change, so the file may not keep its new length.
    fn note_len_lost(&mut self, file: FileId, fault: Fault) {
        let errno = match fault {
            Fault::Io(errno) | Fault::Lost(errno) => errno,
            Fault::Short => EIO,
        };
        let dirty_file = self.files.get_mut(file).expect("a file with a lock is listed");
        dirty_file.note_loss(Fault::Lost(errno));
    }

    /// Sets the file's length, which its driver or another program has changed. Dirty pages behind
    /// its end are dropped; if another program changed it, writes that wait for them fail.
    ///
    /// If the driver extends the file, the new bytes are zeros, like those of the page at the old
    /// end in memory. Bytes added by another program have to be read.
    pub(crate) fn set_len(
        &mut self,
        path: &mut ReadPath,
        file: FileId,
        len: ByteCount,
        is_by_driver: bool,
    ) {
        let before = core::mem::replace(&mut path.files.used_mut(file).len, len);
        if before == len {
            return;
        }
        if is_by_driver && before < len {
            path.cover_queued(file, len);
            return;
        }
        let first = before.min(len).page();
        let end = PageIndex(before.pages_up().0);
        let kept = PageIndex(len.min(before).pages_up().0);
        if len < before {
            self.cut_appends(file, len);
            path.was_cut(file, len);
            let dropped = (!is_by_driver).then_some(Fault::Short);
            self.drop_pages_from(path, file, kept, dropped);
        }
        // Pages behind the new end are not lost, because they no longer belong to the file.
        self.forget_clean(path, file, first..kept.min(end), true);
        self.forget_clean(path, file, kept..end, false);
        path.cover_queued(file, len);
        self.check_flushes(path, file);
    }
}

impl LenChange {
    /// Returns the new length for a file of `len` bytes. None if it exceeds the largest file.
    fn target(self, len: ByteCount) -> Option<ByteCount> {
        let target = match self {
            Self::Exact(target) => target,
            Self::AtLeast(target) => target.max(len),
            Self::Append(more) => ByteCount(len.0.checked_add(more.0)?),
        };
        (target <= MAX_FILE_BYTES).then_some(target)
    }
}

/// Index after the last possible page of a file.
const END_OF_PAGES: PageIndex = PageIndex(MAX_FILE_BYTES.pages_up().0 + 1);
