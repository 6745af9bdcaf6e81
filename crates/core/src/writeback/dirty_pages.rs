//! Bookkeeping of dirty pages: those whose newest bytes are in a frame and nowhere else.
//!
//! In:    pages that were written, and what becomes of them.
//! Out:   which of a file's pages are to be written next, and which flush still waits.
//! Never: a frame, a request, a decision. It only counts and lists.
//!
//! ```text
//!                 dirty_age, a flush, room           flusher               it is on the device
//!   --> aging ---------------------------> urgent ------------> writing -------------------> gone
//!         ^                                  ^  ^                  |
//!         |  the older bytes are written     |  '-- with fewer ----+ refused with others
//!       held: not before those, or a zero ---'                     | refused alone, or too often
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
    /// Per frame its dirty plus one, so that untouched memory means none.
    of_frame: Vec<u32>,
    pages: Vec<DirtyPage>,
    free: Vec<u32>,
    /// How many are aging, urgent or held.
    pub(crate) unsent: u64,
    /// How many are urgent.
    pub(crate) urgent: u64,
    /// How many are in requests.
    pub(crate) writing: u64,
    /// How many have failed.
    pub(crate) failed: u64,
}

impl DirtyPages {
    /// What each frame costs here: a quarter of them may be dirty.
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

    pub(crate) fn get(&self, id: DirtyId) -> &DirtyPage {
        &self.pages[id.0 as usize]
    }

    pub(crate) fn get_mut(&mut self, id: DirtyId) -> &mut DirtyPage {
        &mut self.pages[id.0 as usize]
    }

    /// The dirty of the bytes in this frame.
    pub(crate) fn of(&self, frame: Frame) -> Option<DirtyId> {
        self.of_frame[frame.0 as usize].checked_sub(1).map(DirtyId)
    }

    /// Adds a dirty page of the present flush sequence. It is on no list yet.
    pub(crate) fn add(&mut self, dirty_file: &mut FileDirtyPages, mut dirty: DirtyPage) -> DirtyId {
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

    /// Makes the first flush that waits wait for all dirty pages.
    pub(super) fn join_waiting_flushes(
        &mut self,
        dirty_file: &mut FileDirtyPages,
        writes: &Slab<WriteIdKind, WriteCommand>,
    ) {
        let Some(&first) = dirty_file.flushes.front() else { return };
        let flush_seq = writes.get(first).expect("it waits").flush_seq;
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

    /// The page has newer bytes, in this frame, before the older ones were sent.
    pub(crate) fn move_to(&mut self, id: DirtyId, frame: Frame) -> Frame {
        let old = core::mem::replace(&mut self.get_mut(id).frame, frame);
        self.of_frame[old.0 as usize] = 0;
        self.of_frame[frame.0 as usize] = id.0 + 1;
        old
    }

    /// Ends a dirty page: no flush waits for it, and it is on no list.
    pub(crate) fn settle(&mut self, dirty_file: &mut FileDirtyPages, id: DirtyId) {
        self.put(dirty_file, id, DirtyList::Nothing);
        let flush_seq = self.get(id).flush_seq;
        dirty_file.dirty -= 1;
        dirty_file.count(flush_seq, |flush_seq| flush_seq.dirty -= 1);
    }

    /// Lets the number of a settled dirty be used again; returns the frame.
    pub(crate) fn remove(&mut self, id: DirtyId) -> Frame {
        let dirty = self.get(id);
        assert!(dirty.on == DirtyList::Nothing, "{id:?} is still on a list");
        let frame = dirty.frame;
        self.of_frame[frame.0 as usize] = 0;
        self.free.push(id.0);
        frame
    }

    /// Flushes that wait for `from` wait for `to`, too: the later one gets the earlier's flush
    /// sequence.
    pub(crate) fn inherit(&mut self, dirty_file: &mut FileDirtyPages, from: DirtyId, to: DirtyId) {
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

    /// Flushes that come later wait for it, and those that wait already do not any more.
    pub(crate) fn move_to_current_flush_seq(
        &mut self,
        dirty_file: &mut FileDirtyPages,
        id: DirtyId,
    ) {
        assert!(self.get(id).on != DirtyList::Failed, "an flush_seq counts those that failed");
        let (was, now) = (self.get(id).flush_seq, dirty_file.flush_seq);
        dirty_file.count(was, |flush_seq| flush_seq.dirty -= 1);
        dirty_file.count(now, |flush_seq| flush_seq.dirty += 1);
        self.get_mut(id).flush_seq = now;
    }

    /// Puts a dirty page at the end of a list of its file.
    pub(crate) fn put(&mut self, dirty_file: &mut FileDirtyPages, id: DirtyId, on: DirtyList) {
        assert!(on != DirtyList::Failed, "{id:?} fails with a fault");
        self.put_on(dirty_file, id, on);
    }

    fn put_on(&mut self, dirty_file: &mut FileDirtyPages, id: DirtyId, on: DirtyList) {
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

    /// Puts a dirty page at the end of the failed ones. Its flushes are told this fault, so there
    /// is no other way onto that list.
    pub(crate) fn put_failed(
        &mut self,
        dirty_file: &mut FileDirtyPages,
        id: DirtyId,
        fault: Fault,
    ) {
        self.put_on(dirty_file, id, DirtyList::Failed);
        dirty_file.count(self.get(id).flush_seq, |flush_seq| flush_seq.fault = Some(fault));
    }

    /// The dirty pages of a list, oldest first.
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

    /// The oldest of a list.
    pub(crate) fn oldest(&self, dirty_file: &FileDirtyPages, on: DirtyList) -> Option<DirtyId> {
        dirty_file.lists[on.index()].head.checked_sub(1).map(DirtyId)
    }

    fn unlink(&mut self, dirty_file: &mut FileDirtyPages, id: DirtyId, on: DirtyList) {
        let (prev, next) = (self.get(id).prev, self.get(id).next);
        let list = dirty_file.list_mut(on);
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

// ARCHITECTURE.md and docs/cache.md say 629 bytes a frame, 21 of them here.
const _: () = assert!(DirtyPages::BYTES_PER_FRAME == 21);

/// At most a quarter of the frames are dirty, or being filled or written by a write: with the
/// quarter that may be pinned, half is left for reads.
pub(crate) const DIRTY_DENOM: u64 = 4;
