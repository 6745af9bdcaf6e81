//! Bookkeeping of dirty pages: lists them by state and counts them. It makes no decisions.
//!
//! ```text
//!                 dirty_age, a flush, budget         flusher               it is on the device
//!   --> aging ---------------------------> urgent ------------> writing -------------------> gone
//!         ^                                  ^  ^                  |
//!         |  the older bytes are written     |  '-- with fewer ----+ refused with others
//!       held: behind those, or a zero -------'                     | refused alone, or too often
//!                                            ^                     v
//!                                            '-- flush, probe -- failed
//! ```

use alloc::vec;
use alloc::vec::Vec;

use super::command::WriteCommand;
use super::dirty_file::FileDirtyPages;
use super::dirty_page::{DirtyList, DirtyPage};
use crate::driver_io::Fault;
use crate::ids::{DirtyId, WriteIdKind};
use crate::slab::Slab;
use crate::table::Frame;

/// The dirty pages of all files.
#[derive(Debug)]
pub(crate) struct DirtyPages {
    /// For each frame, its dirty page plus one, so that untouched memory means none.
    of_frame: Vec<u32>,
    pages: Vec<DirtyPage>,
    free: Vec<u32>,
    /// Number of aging, urgent and held pages.
    pub(crate) unsent: u64,
    /// Number of urgent pages.
    pub(crate) urgent: u64,
    /// Number of pages in requests.
    pub(crate) writing: u64,
    /// Number of failed pages.
    pub(crate) failed: u64,
}

impl DirtyPages {
    /// Bytes for each frame: a quarter of the frames may be dirty.
    pub(crate) const BYTES_PER_FRAME: u64 = size_of::<u32>() as u64
        + ((size_of::<DirtyPage>() + size_of::<u32>()) as u64).div_ceil(DIRTY_DENOM);

    pub(crate) fn new(frames: u32) -> Self {
        let most = (u64::from(frames) / DIRTY_DENOM) as usize;
        Self {
            of_frame: vec![0; frames as usize],
            pages: Vec::with_capacity(most),
            free: Vec::with_capacity(most),
            unsent: 0,
            urgent: 0,
            writing: 0,
            failed: 0,
        }
    }

    /// Returns the number of dirty pages on a list, or discarded while in a request.
    pub(super) fn count_all(&self) -> u64 {
        debug_assert!(self.free.len() <= self.pages.len(), "a number is free twice");
        (self.pages.len() - self.free.len()) as u64
    }

    pub(crate) fn get(&self, id: DirtyId) -> &DirtyPage {
        &self.pages[id.0 as usize]
    }

    pub(crate) fn get_mut(&mut self, id: DirtyId) -> &mut DirtyPage {
        &mut self.pages[id.0 as usize]
    }

    /// Returns the dirty page in this frame.
    pub(crate) fn of(&self, frame: Frame) -> Option<DirtyId> {
        self.of_frame[frame.0 as usize].checked_sub(1).map(DirtyId)
    }

    /// Adds a dirty page to the current flush sequence; it is on no list yet.
    pub(crate) fn add(&mut self, dirty_file: &mut FileDirtyPages, mut dirty: DirtyPage) -> DirtyId {
        assert!(self.of(dirty.frame).is_none(), "{:?} is dirty already", dirty.frame);
        assert!(dirty.on == DirtyList::Nothing, "a page that is added is on no list");
        dirty.flush_seq = dirty_file.flush_seq;
        dirty_file.dirty += 1;
        dirty_file.count(dirty.flush_seq, |flush_seq| flush_seq.dirty += 1);
        let (frame, index) = (dirty.frame, self.free.pop());
        let index = match index {
            Some(index) => {
                self.pages[index as usize] = dirty;
                index
            }
            None => {
                self.pages.push(dirty);
                u32::try_from(self.pages.len() - 1).expect("fewer dirty pages than frames")
            }
        };
        self.of_frame[frame.0 as usize] = index + 1;
        DirtyId(index)
    }

    /// Makes the first waiting flush wait for all dirty pages.
    pub(super) fn join_waiting_flushes(
        &mut self,
        dirty_file: &mut FileDirtyPages,
        writes: &Slab<WriteIdKind, WriteCommand>,
    ) {
        let Some(&first) = dirty_file.flushes.front() else { return };
        let flush_seq = writes.get(first).expect("a flush that waits is not over").flush_seq;
        let all =
            DirtyList::ALL.into_iter().flat_map(|on| self.list(dirty_file, on)).collect::<Vec<_>>();
        for id in all {
            let DirtyPage { flush_seq: was, on, .. } = *self.get(id);
            if was <= flush_seq {
                continue;
            }
            let (failed, fault) = match on {
                DirtyList::Failed => (1, dirty_file.fault_of(was)),
                DirtyList::Nothing
                | DirtyList::Aging
                | DirtyList::Urgent
                | DirtyList::Held
                | DirtyList::Writing => (0, None),
            };
            dirty_file.count(flush_seq, |to| {
                (to.dirty, to.failed) = (to.dirty + 1, to.failed + failed);
                to.fault = to.fault.or(fault);
            });
            dirty_file.count(was, |from| {
                (from.dirty, from.failed) = (from.dirty - 1, from.failed - failed);
            });
            self.get_mut(id).flush_seq = flush_seq;
        }
    }

    /// Moves a dirty page to a frame with newer bytes before the older ones were sent; returns the
    /// old frame.
    pub(crate) fn move_to(&mut self, id: DirtyId, frame: Frame) -> Frame {
        let old = core::mem::replace(&mut self.get_mut(id).frame, frame);
        assert!(self.of(frame).is_none(), "{frame:?} is dirty already");
        self.of_frame[old.0 as usize] = 0;
        self.of_frame[frame.0 as usize] = id.0 + 1;
        old
    }

    /// Ends a dirty page: it leaves its list, and no flush waits for it.
    pub(crate) fn settle(&mut self, dirty_file: &mut FileDirtyPages, id: DirtyId) {
        self.put(dirty_file, id, DirtyList::Nothing);
        let flush_seq = self.get(id).flush_seq;
        assert!(dirty_file.dirty > 0, "{id:?} is counted by its file");
        dirty_file.dirty -= 1;
        dirty_file.count(flush_seq, |flush_seq| flush_seq.dirty -= 1);
    }

    /// Frees the id of a settled dirty page; returns the frame.
    pub(crate) fn remove(&mut self, id: DirtyId) -> Frame {
        let dirty = self.get(id);
        assert!(dirty.on == DirtyList::Nothing, "{id:?} is still on a list");
        let frame = dirty.frame;
        self.of_frame[frame.0 as usize] = 0;
        self.free.push(id.0);
        frame
    }

    /// Makes flushes that wait for `from` wait for the newer `to` as well, by moving it to the
    /// earlier flush sequence.
    pub(crate) fn inherit(&mut self, dirty_file: &mut FileDirtyPages, from: DirtyId, to: DirtyId) {
        debug_assert!(self.get(from).page == self.get(to).page, "newer bytes are of the same page");
        assert!(self.get(to).on != DirtyList::Failed, "newer bytes wait for the older ones");
        let flush_seq = self.get(from).flush_seq;
        let was = self.get(to).flush_seq;
        if flush_seq < was {
            dirty_file.count(flush_seq, |flush_seq| flush_seq.dirty += 1);
            dirty_file.count(was, |flush_seq| flush_seq.dirty -= 1);
            self.get_mut(to).flush_seq = flush_seq;
        }
        let is_fua = self.get(from).is_fua;
        let heir = self.get_mut(to);
        heir.is_fua |= is_fua;
        heir.is_urgent = true;
    }

    /// Moves a page to the current flush sequence: later flushes wait for it, and waiting ones no
    /// longer do.
    pub(crate) fn move_to_current_flush_seq(
        &mut self,
        dirty_file: &mut FileDirtyPages,
        id: DirtyId,
    ) {
        assert!(self.get(id).on != DirtyList::Failed, "a flush_seq counts those that failed");
        let (was, now) = (self.get(id).flush_seq, dirty_file.flush_seq);
        dirty_file.count(was, |flush_seq| flush_seq.dirty -= 1);
        dirty_file.count(now, |flush_seq| flush_seq.dirty += 1);
        self.get_mut(id).flush_seq = now;
    }

    /// Moves a dirty page to the end of a list of its file.
    pub(crate) fn put(&mut self, dirty_file: &mut FileDirtyPages, id: DirtyId, on: DirtyList) {
        assert!(on != DirtyList::Failed, "{id:?} fails with a fault");
        self.put_on(dirty_file, id, on);
    }

    fn put_on(&mut self, dirty_file: &mut FileDirtyPages, id: DirtyId, on: DirtyList) {
        assert!(!self.get(id).is_dropped, "{id:?} is dropped, and is on no list any more");
        let was = self.get(id).on;
        if was != DirtyList::Nothing {
            self.unlink(dirty_file, id, was);
        }
        self.count(dirty_file, id, was, false);
        self.get_mut(id).on = on;
        self.count(dirty_file, id, on, true);
        if on != DirtyList::Nothing {
            let list = dirty_file.list_mut(on);
            let tail = core::mem::replace(&mut list.tail, id.0 + 1);
            match tail.checked_sub(1) {
                Some(tail) => self.pages[tail as usize].next = id.0 + 1,
                None => list.head = id.0 + 1,
            }
            let dirty = self.get_mut(id);
            (dirty.prev, dirty.next) = (tail, 0);
        }
    }

    /// Moves a dirty page to the end of the failed list. Its flushes get this fault, so there is no
    /// other way onto that list.
    pub(crate) fn put_failed(
        &mut self,
        dirty_file: &mut FileDirtyPages,
        id: DirtyId,
        fault: Fault,
    ) {
        self.put_on(dirty_file, id, DirtyList::Failed);
        dirty_file.count(self.get(id).flush_seq, |flush_seq| flush_seq.fault = Some(fault));
    }

    /// Returns the dirty pages of a list, oldest first.
    pub(crate) fn list(
        &self,
        dirty_file: &FileDirtyPages,
        on: DirtyList,
    ) -> impl Iterator<Item = DirtyId> {
        let link = |link: u32| link.checked_sub(1).map(DirtyId);
        core::iter::successors(link(dirty_file.lists[on.index()].head), move |&id| {
            link(self.get(id).next)
        })
    }

    /// Returns the oldest page of a list.
    pub(crate) fn oldest(&self, dirty_file: &FileDirtyPages, on: DirtyList) -> Option<DirtyId> {
        dirty_file.lists[on.index()].head.checked_sub(1).map(DirtyId)
    }

    fn unlink(&mut self, dirty_file: &mut FileDirtyPages, id: DirtyId, on: DirtyList) {
        debug_assert!(self.get(id).on == on, "{id:?} is on another list");
        let (prev, next) = (self.get(id).prev, self.get(id).next);
        let list = dirty_file.list_mut(on);
        assert!(prev != 0 || list.head == id.0 + 1, "{id:?} is not where its links say");
        assert!(next != 0 || list.tail == id.0 + 1, "{id:?} is not where its links say");
        match prev.checked_sub(1) {
            Some(prev) => self.pages[prev as usize].next = next,
            None => list.head = next,
        }
        match next.checked_sub(1) {
            Some(next) => self.pages[next as usize].prev = prev,
            None => list.tail = prev,
        }
    }

    fn count(
        &mut self,
        dirty_file: &mut FileDirtyPages,
        id: DirtyId,
        on: DirtyList,
        is_more: bool,
    ) {
        let change = |count: &mut u64| *count = if is_more { *count + 1 } else { *count - 1 };
        match on {
            DirtyList::Nothing => {}
            DirtyList::Aging | DirtyList::Held => change(&mut self.unsent),
            DirtyList::Urgent => {
                change(&mut self.unsent);
                change(&mut self.urgent);
            }
            DirtyList::Writing => change(&mut self.writing),
            DirtyList::Failed => {
                change(&mut self.failed);
                dirty_file.count(self.get(id).flush_seq, |flush_seq| change(&mut flush_seq.failed));
            }
        }
    }
}

// ARCHITECTURE.md and docs/design/cache.md give 629 bytes a frame, 21 of them here.
const _: () = assert!(DirtyPages::BYTES_PER_FRAME == 21);

/// At most a quarter of the frames are dirty, or being filled or written by a write. With the
/// quarter that may be pinned, this leaves half for reads.
pub(crate) const DIRTY_DENOM: u64 = 4;
