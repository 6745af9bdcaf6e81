//! Zeroes and discards: whole pages that their caller changes on the device itself.
//!
//! In:    a range of pages; that the caller has acted.
//! Out:   [`WriteStep::Act`] when no write is in the way; pages forgotten afterwards.
//! Never: dirty bytes dropped before the act has succeeded: if it fails, they are still dirty.
//!
//! ```text
//!   writes there that came before    are filled first
//!   device writes there              end first, and those of FUA writes; no other one begins
//!   dirty pages there                stay as they are until the act:  done    dropped
//!                                                                     failed  dirty as before
//!   writes there that come after     wait
//!   reads                            see the pages as they were, until the act is done
//! ```

use alloc::vec::Vec;
use core::ops::Range;

use super::debts::{DirtyId, DirtyList};
use super::{WriteCommand, WriteId, WriteKind, WriteState, WriteStep};
use crate::path::{Fault, FileId, IoPath};
use crate::replay::{PathCall, PathOutput};
use crate::units::{ByteCount, Nanos, PageIndex, Pages};

impl IoPath {
    /// Keeps writes out of whole pages while the caller zeroes or discards them on the device: when
    /// [`WriteStep::Act`] comes. What the cache has of them is forgotten once that is over, well or
    /// not, but for dirty pages, if it failed.
    ///
    /// A range is cut at the end of the file; of nothing, it is done at once.
    pub fn zero(&mut self, now: Nanos, file: FileId, pages: Range<PageIndex>) -> WriteId {
        self.log().did(|| PathCall::Zero { now, file, pages: pages.clone() });
        self.begin_zero(now, file, pages, false)
    }

    /// The same of pages that the caller discards: what they hold afterwards is undefined, so no
    /// later flush answers for it.
    pub fn discard(&mut self, now: Nanos, file: FileId, pages: Range<PageIndex>) -> WriteId {
        self.log().did(|| PathCall::Discard { now, file, pages: pages.clone() });
        self.begin_zero(now, file, pages, true)
    }

    fn begin_zero(
        &mut self,
        now: Nanos,
        file: FileId,
        pages: Range<PageIndex>,
        is_discard: bool,
    ) -> WriteId {
        self.clock = now;
        let end = PageIndex(self.open_file(file).len.pages_up().0);
        let pages = pages.start..pages.end.min(end);
        let is_over = pages.start >= pages.end;
        let id = self.add_write(WriteCommand {
            pages,
            is_discard,
            ..WriteCommand::new(file, WriteKind::Zero)
        });
        if is_over {
            self.end_write(id, ByteCount::ZERO, None);
        } else {
            self.lock(id);
        }
        self.admit(now);
        self.log().gave(|| PathOutput::Write(id));
        id
    }

    /// No write has its pages: dirty ones are kept from the flusher, and device writes there end.
    pub(super) fn start_zero(&mut self, id: WriteId) {
        let write = self.writes.get(id).expect("a zero");
        let (file, pages) = (write.file, write.pages.clone());
        let mut awaited = 0;
        for debt in self.debts_in(file, &pages) {
            let books = self.files.get_mut(file).expect("a file outlives its writes");
            let books = books.debts.as_mut().expect("it owes something");
            // What is to be on the device for good is not left to a zero that may be in its cache.
            if self.debts.get(debt).is_fua && self.debts.get(debt).on != DirtyList::Writing {
                self.debts.get_mut(debt).is_urgent = true;
                if self.debts.get(debt).on != DirtyList::Held {
                    self.debts.put(books, debt, DirtyList::Urgent);
                }
            }
            if self.debts.get(debt).is_fua || self.debts.get(debt).on == DirtyList::Writing {
                self.debts.get_mut(debt).is_awaited = true;
                awaited += 1;
            } else {
                self.debts.get_mut(debt).is_locked = true;
                self.debts.put(books, debt, DirtyList::Held);
            }
        }
        self.writes.get_mut(id).expect("a zero").outstanding = awaited;
        if awaited == 0 {
            self.start_act(id);
        } else {
            self.wait(id, WriteState::Device);
        }
    }

    /// Nothing is in the way any more.
    pub(super) fn start_act(&mut self, id: WriteId) {
        self.start_act_beside_cache(id);
        self.post(id, WriteState::Acting, WriteStep::Act);
    }

    /// A device write ended for which a zero waited.
    pub(super) fn end_awaited(&mut self, file: FileId, page: PageIndex) {
        let books = self.files.get(file).and_then(|file| file.debts.as_ref());
        let mut locks = books.iter().flat_map(|books| books.locks.iter().copied());
        let zero = locks.find(|&id| {
            let write = self.writes.get(id).expect("it has a lock");
            let waits = write.kind == WriteKind::Zero && write.state == WriteState::Device;
            waits && write.pages.contains(&page)
        });
        if let Some(zero) = zero {
            self.wake_write(zero, None);
        }
    }

    pub(super) fn end_zero(&mut self, now: Nanos, id: WriteId, fault: Option<Fault>) {
        let write = self.writes.get(id).expect("a zero");
        let (file, pages) = (write.file, write.pages.clone());
        let locked = self.debts_in(file, &pages);
        for &debt in &locked {
            if fault.is_none() {
                self.drop_debt(debt, None);
            } else {
                self.debts.get_mut(debt).is_locked = false;
                self.debts.get_mut(debt).is_urgent = true;
                self.let_go(now, debt);
            }
        }
        let is_discard = self.writes.get(id).expect("a zero").is_discard;
        if fault.is_none() && !is_discard {
            // These zeros are in no frame from which they could be written again.
            self.cache.note_unstable_beside_cache(Self::slot(file));
        }
        // It is unknown what the act did before it failed: the device is read again.
        self.forget_clean(file, pages.clone(), fault.is_some());
        self.unlock(id);
        let len = if fault.is_none() { (pages.end - pages.start).bytes() } else { ByteCount::ZERO };
        self.end_write(id, len, fault);
        self.check_flushes(file);
    }

    /// The debts of these pages: looked up page by page, or found among all of the file's.
    fn debts_in(&self, file: FileId, pages: &Range<PageIndex>) -> Vec<DirtyId> {
        if (pages.end - pages.start) > self.dirty_pages(file) {
            let all = self.all_debts(file).into_iter();
            return all.filter(|&id| pages.contains(&self.page_owed(id))).collect();
        }
        let mut found = Vec::new();
        let mut page = pages.start;
        while page < pages.end {
            let entry = self.cache.look_up(Self::slot(file), page);
            let newest = entry.and_then(|entry| self.debts.of(entry.frame()));
            let older = newest.and_then(|id| self.debts.get(id).other);
            found.extend(newest.into_iter().chain(older));
            page = page + Pages(1);
        }
        found
    }
}
