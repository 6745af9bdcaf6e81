//! Completes the fill of a write: its entries are swapped and its pages become dirty. A page has at
//! most two dirty versions, and the older one is then in a request.

use core::mem;

use super::Writeback;
use super::command::WriteState;
use super::dirty_page::{DirtyList, DirtyPage};
use crate::cache::Fresh;
use crate::driver_io::{Fault, WriteMode};
use crate::ids::{Waiter, WriteId, slot_of};
use crate::read_path::ReadPath;
use crate::units::{Nanos, PageIndex};

impl Writeback {
    /// Publishes the pages of a write that the driver has copied; they are dirty from now on.
    pub(crate) fn end_fill(&mut self, path: &mut ReadPath, now: Nanos, id: WriteId) {
        let write = self.writes.get_mut(id).expect("a write is filled before it is over");
        assert!(write.state == WriteState::Filling, "{id:?} was not to be filled");
        assert!(write.fresh.len() == write.fills.len(), "{id:?} has a frame for each page");
        let (file, mode, submitter, len) = (write.file, write.mode, write.submitter, write.len);
        let (append, filled_to) = (write.append, write.pos + len);
        let state = path.files.used(file);
        if state.is_closing {
            self.abandon(path, id, Some(Fault::Short));
            return;
        }
        // The file may have been cut in the meantime.
        let end = PageIndex(state.len.pages_up().0);
        let (fills, fresh) = (mem::take(&mut write.fills), mem::take(&mut write.fresh));
        let mut outstanding = 0;
        for (fill, fresh) in fills.iter().zip(fresh) {
            if fill.page >= end {
                path.page_in.cache.drop_fresh(fresh);
                continue;
            }
            assert!(fresh.frame() == fill.new, "{:?} was filled, not {fresh:?}", fill.new);
            let mut dirty = DirtyPage::new(file, fill.page, fill.new, submitter, now);
            dirty.is_urgent = mode != WriteMode::WriteBack;
            dirty.is_fua = mode == WriteMode::Fua;
            self.swap_page(path, fresh, dirty);
            let write = self.writes.get_mut(id).expect("a write is filled before it is over");
            write.budget = write.budget.checked_sub(1).expect("a write has budget for each page");
            if mode != WriteMode::WriteBack {
                path.page_in.waiters.add(fill.new, Waiter::Write(id));
                outstanding += 1;
            }
        }
        for old in fills.iter().filter_map(|fill| fill.old) {
            path.page_in.cache.release(old);
        }
        self.release_budget(id);
        self.unlock(id);
        self.has_filled_append(path, file, append, filled_to);
        self.writes.get_mut(id).expect("a write is filled before it is over").outstanding =
            outstanding;
        if outstanding == 0 {
            self.end_write(path, id, len, None);
        } else {
            self.wait(path, id, WriteState::Device);
        }
    }

    /// Swaps the page's entry, and lists the page as dirty.
    ///
    /// ```text
    ///   the page was        its old frame                       dirty afterwards
    ///   not resident        -                                   the new bytes
    ///   clean, in flight    an orphan until its users end       the new bytes
    ///   dirty, failed       the same                            the new bytes instead of the old
    ///   being written       an orphan until that ends           the old bytes, then the new ones
    /// ```
    fn swap_page(&mut self, path: &mut ReadPath, fresh: Fresh, mut dirty: DirtyPage) {
        let DirtyPage { file, page, frame, submitter, is_urgent, is_fua, .. } = dirty;
        let slot = slot_of(file);
        let old = path.page_in.cache.look_up(slot, page).and_then(|old| self.dirty.of(old.frame()));
        path.page_in.cache.put_written(slot, page, fresh);
        path.telemetry.stats.pages_written += 1;

        let dirty_file =
            self.files.get_mut(file).expect("a write that had a lock is counted by its file");
        let list = if is_urgent { DirtyList::Urgent } else { DirtyList::Aging };
        match old.map(|id| (id, self.dirty.get(id).on)) {
            None => {
                let id = self.dirty.add(dirty_file, dirty);
                self.dirty.put(dirty_file, id, list);
            }
            Some((older, DirtyList::Writing)) => {
                assert!(self.dirty.get(older).other.is_none(), "{older:?} has newer bytes already");
                dirty.other = Some(older);
                let id = self.dirty.add(dirty_file, dirty);
                self.dirty.put(dirty_file, id, DirtyList::Held);
                self.dirty.get_mut(older).other = Some(id);
            }
            Some((id, on)) => {
                let old = self.dirty.move_to(id, frame);
                path.page_in.waiters.move_to(old, frame);
                path.page_in.cache.release(old);
                self.budget.release(1);
                let dirty = self.dirty.get_mut(id);
                dirty.submitter = submitter;
                dirty.is_urgent |= is_urgent;
                dirty.is_fua |= is_fua;
                if on == DirtyList::Aging && is_urgent {
                    self.dirty.put(dirty_file, id, DirtyList::Urgent);
                }
                if on == DirtyList::Failed {
                    // The device may accept these bytes.
                    self.resend(file, id);
                }
            }
        }
        self.list_file(file);
    }
}
