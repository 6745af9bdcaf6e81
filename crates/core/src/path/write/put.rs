//! A write that was filled: readers see its pages, which are dirty now.
//!
//! In:    a write whose frames hold its bytes.
//! Out:   entries swapped, debts noted; the write is over, or waits for the device.
//! Never: two debts of a page, unless the older bytes are in a request already.

use core::mem;

use super::debts::{DirtyList, DirtyPage};
use super::{WriteFill, WriteId, WriteMode, WriteState};
use crate::cache::Fresh;
use crate::path::waiters::Waiter;
use crate::path::{Fault, FileId, IoPath};
use crate::sched::Submitter;
use crate::units::{Nanos, PageIndex};

impl IoPath {
    pub(super) fn put_write(&mut self, now: Nanos, id: WriteId) {
        let write = self.writes.get_mut(id).expect("a write is filled before it is over");
        assert!(write.state == WriteState::Filling, "{id:?} was not to be filled");
        let (file, mode, submitter, len) = (write.file, write.mode, write.submitter, write.len);
        let state = self.files.get(file).expect("a file outlives its writes");
        if state.is_closing {
            self.abandon(id, Some(Fault::Short));
            return;
        }
        // The file may have been cut meanwhile.
        let end = PageIndex(state.len.pages_up().0);
        let (fills, fresh) = (mem::take(&mut write.fills), mem::take(&mut write.fresh));
        let mut outstanding = 0;
        for (fill, fresh) in fills.iter().zip(fresh) {
            if fill.page >= end {
                self.cache.drop_fresh(fresh);
                continue;
            }
            self.put_page(now, file, fill, fresh, mode, submitter);
            self.writes.get_mut(id).expect("a write").room -= 1;
            if mode != WriteMode::WriteBack {
                self.waiters.add(fill.new, Waiter::Write(id));
                outstanding += 1;
            }
        }
        for old in fills.iter().filter_map(|fill| fill.old) {
            self.cache.release(old);
        }
        self.give_back_room(id);
        self.unlock(id);
        self.writes.get_mut(id).expect("a write").outstanding = outstanding;
        if outstanding == 0 {
            self.end_write(id, len, None);
        } else {
            self.wait(id, WriteState::Device);
        }
    }

    /// Swaps the page's entry, and notes the debt.
    ///
    /// ```text
    ///   the page was        its old frame                       what is dirty
    ///   not there           -                                   the new bytes
    ///   clean, on its way   an orphan until its users end       the new bytes
    ///   dirty, failed       the same                            the new bytes in place of the old
    ///   being written       an orphan until that ends           those, and then the new bytes
    /// ```
    fn put_page(
        &mut self,
        now: Nanos,
        file: FileId,
        fill: &WriteFill,
        fresh: Fresh,
        mode: WriteMode,
        submitter: Submitter,
    ) {
        let slot = Self::slot(file);
        let old = self.cache.look_up(slot, fill.page).and_then(|old| self.debts.of(old.frame()));
        self.cache.put_written(slot, fill.page, fresh);
        self.stats.pages_written += 1;

        let books = self.files.get_mut(file).expect("a file outlives its writes");
        let books = books.debts.as_mut().expect("a write had a lock there");
        let is_urgent = mode != WriteMode::WriteBack;
        let is_fua = mode == WriteMode::Fua;
        let mut debt = DirtyPage::new(file, fill.page, fill.new, submitter, now);
        (debt.is_urgent, debt.is_fua) = (is_urgent, is_fua);
        let list = if is_urgent { DirtyList::Urgent } else { DirtyList::Aging };
        match old.map(|id| (id, self.debts.get(id).on)) {
            None => {
                let id = self.debts.add(books, debt);
                self.debts.put(books, id, list);
            }
            Some((older, DirtyList::Writing)) => {
                debt.other = Some(older);
                let id = self.debts.add(books, debt);
                self.debts.put(books, id, DirtyList::Held);
                self.debts.get_mut(older).other = Some(id);
            }
            Some((id, on)) => {
                let old = self.debts.move_to(id, fill.new);
                self.waiters.move_to(old, fill.new);
                self.cache.release(old);
                self.room.give_back(1);
                let debt = self.debts.get_mut(id);
                debt.submitter = submitter;
                debt.is_urgent |= is_urgent;
                debt.is_fua |= is_fua;
                if on == DirtyList::Aging && is_urgent {
                    self.debts.put(books, id, DirtyList::Urgent);
                }
                if on == DirtyList::Failed {
                    // The device may take these bytes.
                    self.send_again(file, id);
                }
            }
        }
        self.list_file(file);
    }
}
