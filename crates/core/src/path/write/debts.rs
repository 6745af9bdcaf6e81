//! Bookkeeping of dirty pages: those whose newest bytes are in a frame and nowhere else.
//!
//! In:    pages that were written, and what becomes of them.
//! Out:   which of a file's pages are to be written next, and which flush still waits.
//! Never: a frame, a request, a decision. It keeps the books of `write.rs` and its neighbours.
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

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use super::refused::Refusals;
use super::{Fault, FileId, WriteCommand, WriteId};
use crate::cache::FlushInterval;
use crate::sched::Submitter;
use crate::slab::Slab;
use crate::table::Frame;
use crate::units::{Nanos, PageIndex};

/// Names a debt; a number that is used again when the debt is gone.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::path) struct DirtyId(u32);

/// A page of which a frame has bytes that the device has not.
#[derive(Debug)]
pub(in crate::path) struct DirtyPage {
    pub(in crate::path) file: FileId,
    pub(in crate::path) page: PageIndex,
    /// Held for as long as the page is dirty.
    pub(in crate::path) frame: Frame,
    /// The submitter that wrote it.
    pub(in crate::path) submitter: Submitter,
    /// Since when it may be written; of one that failed, since when it has.
    pub(in crate::path) since: Nanos,
    /// Flushes of this epoch and later ones wait for it.
    pub(in crate::path) epoch: u64,
    /// Of one being written, that of the page's newer bytes; of that, the one being written.
    pub(in crate::path) other: Option<DirtyId>,
    pub(in crate::path) on: DirtyList,
    /// When it comes free, it is urgent and not merely aging.
    pub(in crate::path) is_urgent: bool,
    /// Its request is done only when the device has it for good.
    pub(in crate::path) is_fua: bool,
    /// After a request that was refused: how many pages the next one with this page may have; 0 for
    /// as many as any.
    pub(in crate::path) most_pages: u8,
    /// How often a flush failed while it was on its way.
    pub(in crate::path) suspicions: u8,
    /// A zero has its page.
    pub(in crate::path) is_locked: bool,
    /// A zero waits for the end of its request.
    pub(in crate::path) is_awaited: bool,
    /// Its bytes are not wanted any more; it goes with the end of its request.
    pub(in crate::path) is_dropped: bool,
    prev: u32,
    next: u32,
}

/// On which list of its file a debt is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::path) enum DirtyList {
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

/// A list of a file's debts, oldest first.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::path) struct DirtyListEnds {
    head: u32,
    tail: u32,
}

/// The debts of all files.
#[derive(Debug)]
pub(in crate::path) struct DirtyPages {
    /// Per frame its debt plus one, so that untouched memory means none.
    of_frame: Vec<u32>,
    debts: Vec<DirtyPage>,
    free: Vec<u32>,
    /// How many are aging, urgent or held.
    pub(in crate::path) unsent: u64,
    /// How many are urgent.
    pub(in crate::path) urgent: u64,
    /// How many are in requests.
    pub(in crate::path) writing: u64,
    /// How many have failed.
    pub(in crate::path) failed: u64,
}

/// The books of one file.
#[derive(Debug, Default)]
pub(in crate::path) struct FileDirtyPages {
    lists: [DirtyListEnds; 5],
    /// How many pages are dirty, on all lists.
    pub(in crate::path) owed: u64,
    /// The epoch in which pages are dirtied now.
    epoch: u64,
    /// Those with dirty pages, oldest first.
    epochs: VecDeque<FlushSeq>,
    /// What its device refused.
    pub(in crate::path) refusals: Refusals,
    /// Flushes that wait, oldest first.
    pub(in crate::path) flushes: VecDeque<WriteId>,
    /// Writes that work on pages, and those that wait for them, in their order.
    pub(in crate::path) locks: VecDeque<WriteId>,
    /// Whether the flusher has it in its line.
    pub(in crate::path) is_listed: bool,
    /// What was written in these intervals is durable.
    pub(in crate::path) durable: FlushInterval,
    /// Some of its unstable pages are to be written again and have no room yet.
    pub(in crate::path) is_rewriting: bool,
    /// Acknowledged writes are lost, and the owner has not accepted that.
    pub(in crate::path) lost: Option<Fault>,
    /// The last loss that was accepted, and how many were.
    pub(in crate::path) accepted: Option<Fault>,
    pub(in crate::path) accepts: u32,
}

/// The dirty pages of one epoch: the time between two flushes.
#[derive(Clone, Copy, Debug)]
struct FlushSeq {
    number: u64,
    owed: u64,
    /// How many of those have failed.
    failed: u64,
    /// How the last of those failed.
    fault: Option<Fault>,
}

/// How a flush stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::path) enum FlushState {
    /// Something is still on its way.
    Waits,
    /// All is written, or has failed: then how.
    Over(Option<Fault>),
}

impl DirtyPages {
    /// What each frame costs here: a quarter of them may be dirty.
    pub(in crate::path) const BYTES_PER_FRAME: u64 = size_of::<u32>() as u64
        + ((size_of::<DirtyPage>() + size_of::<u32>()) as u64).div_ceil(SHARE_OF_DIRTY);

    pub(in crate::path) fn new(frames: u32) -> Self {
        let most = (u64::from(frames) / SHARE_OF_DIRTY) as usize;
        Self {
            of_frame: vec![0; frames as usize],
            debts: Vec::with_capacity(most),
            free: Vec::with_capacity(most),
            unsent: 0,
            urgent: 0,
            writing: 0,
            failed: 0,
        }
    }

    pub(in crate::path) fn get(&self, id: DirtyId) -> &DirtyPage {
        &self.debts[id.0 as usize]
    }

    pub(in crate::path) fn get_mut(&mut self, id: DirtyId) -> &mut DirtyPage {
        &mut self.debts[id.0 as usize]
    }

    /// The debt of the bytes in this frame.
    pub(in crate::path) fn of(&self, frame: Frame) -> Option<DirtyId> {
        self.of_frame[frame.0 as usize].checked_sub(1).map(DirtyId)
    }

    /// Adds a debt of the present epoch. It is on no list yet.
    pub(in crate::path) fn add(
        &mut self,
        books: &mut FileDirtyPages,
        mut debt: DirtyPage,
    ) -> DirtyId {
        debt.epoch = books.epoch;
        books.owed += 1;
        books.count(debt.epoch, |epoch| epoch.owed += 1);
        let (frame, index) = (debt.frame, self.free.pop());
        let index = match index {
            Some(index) => {
                self.debts[index as usize] = debt;
                index
            }
            None => {
                self.debts.push(debt);
                u32::try_from(self.debts.len() - 1).expect("fewer debts than frames")
            }
        };
        self.of_frame[frame.0 as usize] = index + 1;
        DirtyId(index)
    }

    /// Makes the first flush that waits wait for all dirty pages.
    pub(in crate::path) fn join_waiting_flushes(
        &mut self,
        books: &mut FileDirtyPages,
        writes: &Slab<WriteCommand>,
    ) {
        let Some(&first) = books.flushes.front() else { return };
        let epoch = writes.get(first).expect("it waits").epoch;
        let all =
            DirtyList::ALL.into_iter().flat_map(|on| self.list(books, on)).collect::<Vec<_>>();
        for id in all {
            let DirtyPage { epoch: was, on, .. } = *self.get(id);
            if was <= epoch {
                continue;
            }
            let (failed, fault) = match on {
                DirtyList::Failed => (1, books.fault_of(was)),
                DirtyList::Nothing
                | DirtyList::Aging
                | DirtyList::Urgent
                | DirtyList::Held
                | DirtyList::Writing => (0, None),
            };
            books.count(epoch, |to| {
                (to.owed, to.failed) = (to.owed + 1, to.failed + failed);
                to.fault = to.fault.or(fault);
            });
            books.count(was, |from| {
                (from.owed, from.failed) = (from.owed - 1, from.failed - failed);
            });
            self.get_mut(id).epoch = epoch;
        }
    }

    /// The page has newer bytes, in this frame, before the older ones were sent.
    pub(in crate::path) fn move_to(&mut self, id: DirtyId, frame: Frame) -> Frame {
        let old = core::mem::replace(&mut self.get_mut(id).frame, frame);
        self.of_frame[old.0 as usize] = 0;
        self.of_frame[frame.0 as usize] = id.0 + 1;
        old
    }

    /// Ends a debt: no flush waits for it, and it is on no list.
    pub(in crate::path) fn settle(&mut self, books: &mut FileDirtyPages, id: DirtyId) {
        self.put(books, id, DirtyList::Nothing);
        let epoch = self.get(id).epoch;
        books.owed -= 1;
        books.count(epoch, |epoch| epoch.owed -= 1);
    }

    /// Lets the number of a settled debt be used again; returns the frame.
    pub(in crate::path) fn remove(&mut self, id: DirtyId) -> Frame {
        let debt = self.get(id);
        assert!(debt.on == DirtyList::Nothing, "{id:?} is still on a list");
        let frame = debt.frame;
        self.of_frame[frame.0 as usize] = 0;
        self.free.push(id.0);
        frame
    }

    /// Flushes that wait for `from` wait for `to`, too: the later one gets the earlier's epoch.
    pub(in crate::path) fn inherit(
        &mut self,
        books: &mut FileDirtyPages,
        from: DirtyId,
        to: DirtyId,
    ) {
        let epoch = self.get(from).epoch;
        let was = self.get(to).epoch;
        if epoch < was {
            books.count(epoch, |epoch| epoch.owed += 1);
            books.count(was, |epoch| epoch.owed -= 1);
            self.get_mut(to).epoch = epoch;
        }
        let is_fua = self.get(from).is_fua;
        let heir = self.get_mut(to);
        heir.is_fua |= is_fua;
        heir.is_urgent = true;
    }

    /// Flushes that come later wait for it, and those that wait already do not any more.
    pub(in crate::path) fn move_to_this_epoch(&mut self, books: &mut FileDirtyPages, id: DirtyId) {
        assert!(self.get(id).on != DirtyList::Failed, "an epoch counts those that failed");
        let (was, now) = (self.get(id).epoch, books.epoch);
        books.count(was, |epoch| epoch.owed -= 1);
        books.count(now, |epoch| epoch.owed += 1);
        self.get_mut(id).epoch = now;
    }

    /// Puts a debt at the end of a list of its file.
    pub(in crate::path) fn put(&mut self, books: &mut FileDirtyPages, id: DirtyId, on: DirtyList) {
        assert!(on != DirtyList::Failed, "{id:?} fails with a fault");
        self.put_on(books, id, on);
    }

    fn put_on(&mut self, books: &mut FileDirtyPages, id: DirtyId, on: DirtyList) {
        let was = self.get(id).on;
        if was != DirtyList::Nothing {
            self.unlink(books, id, was);
        }
        self.count(books, id, was, false);
        self.get_mut(id).on = on;
        self.count(books, id, on, true);
        if on != DirtyList::Nothing {
            let list = books.list_mut(on);
            let tail = core::mem::replace(&mut list.tail, id.0 + 1);
            match tail.checked_sub(1) {
                Some(tail) => self.debts[tail as usize].next = id.0 + 1,
                None => list.head = id.0 + 1,
            }
            let debt = self.get_mut(id);
            (debt.prev, debt.next) = (tail, 0);
        }
    }

    /// Puts a debt at the end of the failed ones. Its flushes are told this fault, so there is no
    /// other way onto that list.
    pub(in crate::path) fn put_failed(
        &mut self,
        books: &mut FileDirtyPages,
        id: DirtyId,
        fault: Fault,
    ) {
        self.put_on(books, id, DirtyList::Failed);
        books.count(self.get(id).epoch, |epoch| epoch.fault = Some(fault));
    }

    /// The debts of a list, oldest first.
    pub(in crate::path) fn list(
        &self,
        books: &FileDirtyPages,
        on: DirtyList,
    ) -> impl Iterator<Item = DirtyId> {
        let link = |link: u32| link.checked_sub(1).map(DirtyId);
        core::iter::successors(link(books.lists[on.index()].head), move |&id| {
            link(self.get(id).next)
        })
    }

    /// The oldest of a list.
    pub(in crate::path) fn oldest(&self, books: &FileDirtyPages, on: DirtyList) -> Option<DirtyId> {
        books.lists[on.index()].head.checked_sub(1).map(DirtyId)
    }

    fn unlink(&mut self, books: &mut FileDirtyPages, id: DirtyId, on: DirtyList) {
        let (prev, next) = (self.get(id).prev, self.get(id).next);
        let list = books.list_mut(on);
        match prev.checked_sub(1) {
            Some(prev) => self.debts[prev as usize].next = next,
            None => list.head = next,
        }
        match next.checked_sub(1) {
            Some(next) => self.debts[next as usize].prev = prev,
            None => list.tail = prev,
        }
    }

    fn count(&mut self, books: &mut FileDirtyPages, id: DirtyId, on: DirtyList, is_more: bool) {
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
                books.count(self.get(id).epoch, |epoch| change(&mut epoch.failed));
            }
        }
    }
}

impl FileDirtyPages {
    /// What a flush that comes now waits for; what is written from now on is of another epoch.
    ///
    /// While the present epoch has no dirty page it goes on, and the flush waits for those before.
    pub(in crate::path) fn end_epoch(&mut self) -> u64 {
        if self.epochs.back().is_some_and(|epoch| epoch.number == self.epoch) {
            self.epoch += 1;
        }
        self.epoch.saturating_sub(1)
    }

    /// How a flush of this epoch stands.
    pub(in crate::path) fn standing(&self, epoch: u64) -> FlushState {
        if self.is_rewriting {
            return FlushState::Waits;
        }
        let mut fault = None;
        for epoch in self.epochs.iter().take_while(|each| each.number <= epoch) {
            if epoch.owed > epoch.failed {
                return FlushState::Waits;
            }
            assert!(epoch.failed == 0 || epoch.fault.is_some(), "a failure that no flush is told");
            fault = fault.or(epoch.fault);
        }
        FlushState::Over(fault)
    }

    /// How a page of this epoch failed, if one has.
    pub(in crate::path) fn fault_of(&self, epoch: u64) -> Option<Fault> {
        let at = self.epochs.binary_search_by_key(&epoch, |each| each.number);
        at.ok().and_then(|at| self.epochs[at].fault)
    }

    /// Whether the flusher may find something here, now or later.
    pub(in crate::path) fn has_work(&self) -> bool {
        [DirtyList::Aging, DirtyList::Urgent, DirtyList::Failed]
            .iter()
            .any(|on| self.lists[on.index()].head != 0)
    }

    fn list_mut(&mut self, on: DirtyList) -> &mut DirtyListEnds {
        &mut self.lists[on.index()]
    }

    /// Changes the counts of an epoch; one without dirty pages is forgotten.
    fn count(&mut self, number: u64, change: impl FnOnce(&mut FlushSeq)) {
        let at = match self.epochs.binary_search_by_key(&number, |epoch| epoch.number) {
            Ok(at) => at,
            Err(at) => {
                self.epochs.insert(at, FlushSeq { number, owed: 0, failed: 0, fault: None });
                at
            }
        };
        let epoch = &mut self.epochs[at];
        change(epoch);
        if epoch.failed == 0 {
            epoch.fault = None;
        }
        if epoch.owed == 0 {
            self.epochs.remove(at);
        }
    }
}

impl DirtyPage {
    /// Written just now, and on no list yet.
    pub(in crate::path) fn new(
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
            epoch: 0,
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
    pub(in crate::path) const ALL: [Self; 5] =
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
pub(in crate::path) const SHARE_OF_DIRTY: u64 = 4;
