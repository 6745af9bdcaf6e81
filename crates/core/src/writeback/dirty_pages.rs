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

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use super::command::WriteCommand;
use super::refusals::Refusals;
use crate::cache::FlushInterval;
use crate::driver_io::Fault;
use crate::ids::{DirtyId, FileId, WriteId, WriteIdKind};
use crate::sched::Submitter;
use crate::slab::Slab;
use crate::table::Frame;
use crate::units::{Nanos, PageIndex};

/// A page of which a frame has bytes that the device has not.
#[derive(Debug)]
pub(crate) struct DirtyPage {
    pub(crate) file: FileId,
    pub(crate) page: PageIndex,
    /// Held for as long as the page is dirty.
    pub(crate) frame: Frame,
    /// The submitter that wrote it.
    pub(crate) submitter: Submitter,
    /// Since when it may be written; of one that failed, since when it has.
    pub(crate) since: Nanos,
    /// Flushes of this flush_seq and later ones wait for it.
    pub(crate) flush_seq: u64,
    /// Of one being written, that of the page's newer bytes; of that, the one being written.
    pub(crate) other: Option<DirtyId>,
    pub(crate) on: DirtyList,
    /// When it comes free, it is urgent and not merely aging.
    pub(crate) is_urgent: bool,
    /// Its request is done only when the device has it for good.
    pub(crate) is_fua: bool,
    /// After a request that was refused: how many pages the next one with this page may have; 0 for
    /// as many as any.
    pub(crate) most_pages: u8,
    /// How often a flush failed while it was on its way.
    pub(crate) suspicions: u8,
    /// A zero has its page.
    pub(crate) is_locked: bool,
    /// A zero waits for the end of its request.
    pub(crate) is_awaited: bool,
    /// Its bytes are not wanted any more; it goes with the end of its request.
    pub(crate) is_dropped: bool,
    prev: u32,
    next: u32,
}

/// On which list of its file a dirty is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum DirtyList {
    /// None; or none any more.
    Nothing,
    /// Written when it is old enough, or when there is too much of it.
    Aging,
    /// To be written at once.
    Urgent,
    /// Not to be written at present.
    Held,
    /// In a request, queued or at the device.
    Writing,
    /// The device refused it.
    Failed,
}

/// A list of a file's dirty pages, oldest first.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DirtyListEnds {
    head: u32,
    tail: u32,
}

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

/// What writeback keeps of one file.
#[derive(Debug, Default)]
pub(crate) struct FileDirtyPages {
    lists: [DirtyListEnds; 5],
    /// How many pages are dirty, on all lists.
    pub(crate) dirty: u64,
    /// The flush_seq in which pages are dirtied now.
    flush_seq: u64,
    /// Those with dirty pages, oldest first.
    flush_seqs: VecDeque<FlushSeq>,
    /// What its device refused.
    pub(crate) refusals: Refusals,
    /// Flushes that wait, oldest first.
    pub(crate) flushes: VecDeque<WriteId>,
    /// Writes that work on pages, and those that wait for them, in their order.
    pub(crate) locks: VecDeque<WriteId>,
    /// Whether the flusher has it in its line.
    pub(crate) is_listed: bool,
    /// What was written in these intervals is durable.
    pub(crate) durable: FlushInterval,
    /// Some of its unstable pages are to be written again and have no room yet.
    pub(crate) is_rewriting: bool,
    /// Acknowledged writes are lost, and the owner has not accepted that.
    pub(crate) lost: Option<Fault>,
    /// The last loss that was accepted, and how many were.
    pub(crate) accepted: Option<Fault>,
    pub(crate) accepts: u32,
}

/// The dirty pages of one flush_seq: the time between two flushes.
#[derive(Clone, Copy, Debug)]
struct FlushSeq {
    number: u64,
    dirty: u64,
    /// How many of those have failed.
    failed: u64,
    /// How the last of those failed.
    fault: Option<Fault>,
}

/// How a flush stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum FlushState {
    /// Something is still on its way.
    Waits,
    /// All is written, or has failed: then how.
    Over(Option<Fault>),
}

/// What writeback keeps of each file that was written, by the file's slot: few files are.
#[derive(Debug, Default)]
pub(crate) struct DirtyFiles {
    files: Vec<Option<(FileId, Box<FileDirtyPages>)>>,
}

impl DirtyFiles {
    pub(super) fn get(&self, file: FileId) -> Option<&FileDirtyPages> {
        let (id, state) = self.files.get(file.index() as usize)?.as_ref()?;
        (*id == file).then_some(&**state)
    }

    pub(super) fn get_mut(&mut self, file: FileId) -> Option<&mut FileDirtyPages> {
        let (id, state) = self.files.get_mut(file.index() as usize)?.as_mut()?;
        (*id == file).then_some(&mut **state)
    }

    /// What is kept of a file that is open.
    pub(super) fn get_or_insert(&mut self, file: FileId) -> &mut FileDirtyPages {
        let index = file.index() as usize;
        if index >= self.files.len() {
            self.files.resize_with(index + 1, || None);
        }
        let (id, state) = self.files[index].get_or_insert_with(|| (file, Box::default()));
        assert!(*id == file, "{id:?} was removed when it was closed");
        state
    }

    /// A file that was closed is forgotten.
    pub(super) fn remove(&mut self, file: FileId) {
        if let Some(state) = self.files.get_mut(file.index() as usize)
            && state.as_ref().is_some_and(|(id, _)| *id == file)
        {
            *state = None;
        }
    }

    /// All of them, in the order of their slots.
    pub(super) fn ids(&self) -> impl Iterator<Item = FileId> {
        self.files.iter().flatten().map(|(id, _)| *id)
    }
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

    /// Adds a dirty of the present flush_seq. It is on no list yet.
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

    /// Ends a dirty: no flush waits for it, and it is on no list.
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

    /// Flushes that wait for `from` wait for `to`, too: the later one gets the earlier's flush_seq.
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

    /// Puts a dirty at the end of a list of its file.
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

    /// Puts a dirty at the end of the failed ones. Its flushes are told this fault, so there is no
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

impl FileDirtyPages {
    /// What a flush that comes now waits for; what is written from now on is of another flush_seq.
    ///
    /// While the present flush_seq has no dirty page it goes on, and the flush waits for those
    /// before.
    pub(crate) fn end_flush_seq(&mut self) -> u64 {
        if self.flush_seqs.back().is_some_and(|flush_seq| flush_seq.number == self.flush_seq) {
            self.flush_seq += 1;
        }
        self.flush_seq.saturating_sub(1)
    }

    /// How a flush of this flush_seq stands.
    pub(crate) fn flush_state(&self, flush_seq: u64) -> FlushState {
        if self.is_rewriting {
            return FlushState::Waits;
        }
        let mut fault = None;
        for flush_seq in self.flush_seqs.iter().take_while(|each| each.number <= flush_seq) {
            if flush_seq.dirty > flush_seq.failed {
                return FlushState::Waits;
            }
            assert!(
                flush_seq.failed == 0 || flush_seq.fault.is_some(),
                "a failure that no flush is told"
            );
            fault = fault.or(flush_seq.fault);
        }
        FlushState::Over(fault)
    }

    /// How a page of this flush_seq failed, if one has.
    pub(crate) fn fault_of(&self, flush_seq: u64) -> Option<Fault> {
        let at = self.flush_seqs.binary_search_by_key(&flush_seq, |each| each.number);
        at.ok().and_then(|at| self.flush_seqs[at].fault)
    }

    /// Whether the flusher may find something here, now or later.
    pub(crate) fn has_work(&self) -> bool {
        [DirtyList::Aging, DirtyList::Urgent, DirtyList::Failed]
            .iter()
            .any(|on| self.lists[on.index()].head != 0)
    }

    fn list_mut(&mut self, on: DirtyList) -> &mut DirtyListEnds {
        &mut self.lists[on.index()]
    }

    /// Changes the counts of an flush_seq; one without dirty pages is forgotten.
    fn count(&mut self, number: u64, change: impl FnOnce(&mut FlushSeq)) {
        let at = match self.flush_seqs.binary_search_by_key(&number, |flush_seq| flush_seq.number) {
            Ok(at) => at,
            Err(at) => {
                self.flush_seqs.insert(at, FlushSeq { number, dirty: 0, failed: 0, fault: None });
                at
            }
        };
        let flush_seq = &mut self.flush_seqs[at];
        change(flush_seq);
        if flush_seq.failed == 0 {
            flush_seq.fault = None;
        }
        if flush_seq.dirty == 0 {
            self.flush_seqs.remove(at);
        }
    }
}

impl DirtyPage {
    /// Written just now, and on no list yet.
    pub(crate) fn new(
        file: FileId,
        page: PageIndex,
        frame: Frame,
        submitter: Submitter,
        since: Nanos,
    ) -> Self {
        Self {
            file,
            page,
            frame,
            submitter,
            since,
            flush_seq: 0,
            other: None,
            on: DirtyList::Nothing,
            is_urgent: false,
            is_fua: false,
            most_pages: 0,
            suspicions: 0,
            is_locked: false,
            is_awaited: false,
            is_dropped: false,
            prev: 0,
            next: 0,
        }
    }
}

impl DirtyList {
    pub(crate) const ALL: [Self; 5] =
        [Self::Aging, Self::Urgent, Self::Held, Self::Writing, Self::Failed];

    const fn index(self) -> usize {
        match self {
            Self::Nothing => panic!("what is on no list is in none"),
            Self::Aging => 0,
            Self::Urgent => 1,
            Self::Held => 2,
            Self::Writing => 3,
            Self::Failed => 4,
        }
    }
}

// ARCHITECTURE.md and docs/cache.md say 629 bytes a frame, 21 of them here.
const _: () = assert!(DirtyPages::BYTES_PER_FRAME == 21);

/// At most a quarter of the frames are dirty, or being filled or written by a write: with the
/// quarter that may be pinned, half is left for reads.
pub(crate) const DIRTY_DENOM: u64 = 4;
