//! How a write starts: it gets its pages, then room, then frames, then the old bytes it needs.
//!
//! In:    a write that was asked for; writes that end, room and frames that come free.
//! Out:   writes that can be filled.
//! Never: half a write; a write that overtakes another one of the same pages.
//!
//! ```text
//!   write --> [ pages: one line a file ] --> [ room: one line ] --> [ frames: the reads' line ]
//!                   |                             |                        |
//!         until no earlier one            until fewer frames       until all can be had
//!         works on any of them            are dirty                at once
//!                                                                          |
//!                                 Fill <-- [ old bytes of partial pages ] <-'
//! ```
//!
//! There is no deadlock: pages are given back by writes further on, room by the device, which needs
//! neither, and frames by reads and by the device.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;

use super::debts::SHARE_OF_DIRTY;
use super::{WriteCommand, WriteFill, WriteId, WriteKind, WriteState, WriteStep};
use crate::cache::Use;
use crate::path::fetching::page_len;
use crate::path::job::{PageFill, PageRun};
use crate::path::waiters::Waiter;
use crate::path::{Fault, FileId, IoPath, OpenFile, SHARE_OF_ONE_READ};
use crate::sched::{Class, Op, Origin};
use crate::table::FileSlot;
use crate::units::{ByteCount, Nanos, PageIndex, Pages, SECTORS_PER_PAGE, Sectors};

/// The frames that writes may hold.
///
/// ```text
///   all frames   |-- pinned --|-- writes --|------------- reads ------------|
///                   a quarter   a quarter, or the limit that was set
/// ```
#[derive(Debug)]
pub(in crate::path) struct DirtyBudget {
    used: u64,
    limit: u64,
    most: u64,
    /// The writes that wait for some of it, first come, first served.
    line: VecDeque<WriteId>,
}

impl DirtyBudget {
    pub(in crate::path) fn new(frames: u32) -> Self {
        let most = u64::from(frames) / SHARE_OF_DIRTY;
        Self { used: 0, limit: most, most, line: VecDeque::new() }
    }

    pub(in crate::path) fn used(&self) -> u64 {
        self.used
    }

    pub(in crate::path) fn limit(&self) -> u64 {
        self.limit
    }

    pub(super) fn set_limit(&mut self, limit: u64) {
        self.limit = limit.clamp(LEAST_LIMIT, self.most.max(LEAST_LIMIT));
    }

    /// What is wanted by the first in the line.
    pub(super) fn first(&self) -> Option<WriteId> {
        self.line.front().copied()
    }

    /// A write has left the line.
    pub(super) fn forget(&mut self, id: WriteId) {
        self.line.retain(|&other| other != id);
    }

    /// Room for a page that is dirty again, before all that wait in the line.
    pub(super) fn take_one(&mut self) -> bool {
        let fits = self.used < self.limit;
        self.used += u64::from(fits);
        fits
    }

    fn take(&mut self, pages: u64) -> bool {
        // A limit may have been lowered under a write that was cut to the old one.
        let fits = self.used + pages <= self.limit || self.used == 0;
        if fits {
            self.used += pages;
        }
        fits
    }

    pub(super) fn give_back(&mut self, pages: u64) {
        self.used = self.used.checked_sub(pages).expect("what is given back was taken");
    }
}

impl IoPath {
    /// An open file that may be written.
    pub(super) fn open_file(&self, file: FileId) -> &OpenFile {
        let state = self.files.get(file).expect("the file is open");
        assert!(!state.is_closing, "{file:?} is closed");
        assert!(self.is_in_one_run(file), "{file:?} is in pieces, and read only");
        state
    }

    /// The most pages that one write may have.
    pub(super) fn largest_write(&self) -> Pages {
        let share = u64::from(self.cache.frames()) / SHARE_OF_ONE_READ;
        // The old pages at both ends count, too.
        Pages(share.min(self.room.limit() - EDGES as u64).max(1))
    }

    /// Gives the write its pages, or a place in the line of its file.
    pub(super) fn lock(&mut self, id: WriteId) {
        let Self { files, writes, .. } = self;
        let WriteCommand { file, pages, .. } = writes.get(id).expect("a write");
        let (file, pages) = (*file, pages.clone());
        let books = files.get_mut(file).expect("the file is open").debts.get_or_insert_default();
        let others = books.locks.iter().map(|&other| writes.get(other).expect("it has a lock"));
        let blockers = others.filter(|other| overlap(&other.pages, &pages)).count();
        books.locks.push_back(id);
        let blockers = u32::try_from(blockers).expect("fewer than 2^32 at a time");
        writes.get_mut(id).expect("a write").blockers = blockers;
        if blockers == 0 {
            self.unlocked.push_back(id);
        } else {
            self.stats.writes_waited_for_pages += 1;
            self.wait(id, WriteState::Locked);
        }
    }

    /// The write is done with its pages: those can go on that waited for nothing else.
    pub(super) fn unlock(&mut self, id: WriteId) {
        let Self { files, writes, unlocked, .. } = self;
        let WriteCommand { file, pages, .. } = writes.get(id).expect("a write");
        let pages = pages.clone();
        let file = files.get_mut(*file).expect("a file outlives its writes");
        let books = file.debts.as_mut().expect("a locked write is in the books");
        let at = books.locks.iter().position(|&each| each == id).expect("it has a lock");
        books.locks.remove(at);
        for &later in books.locks.range(at..) {
            let write = writes.get_mut(later).expect("it has a lock");
            if overlap(&write.pages, &pages) {
                write.blockers -= 1;
                if write.blockers == 0 {
                    unlocked.push_back(later);
                }
            }
        }
    }

    /// Lets those go on that have their pages.
    pub(in crate::path) fn give_pages(&mut self, now: Nanos) {
        while let Some(id) = self.unlocked.pop_front() {
            self.has_pages(now, id);
        }
    }

    fn has_pages(&mut self, now: Nanos, id: WriteId) {
        let kind = self.writes.get(id).expect("a write").kind;
        match kind {
            WriteKind::Zero => self.start_zero(id),
            WriteKind::Write => {
                let is_open = self.room.line.is_empty() && self.rewriting.is_empty();
                if is_open && self.try_room(now, id) {
                    return;
                }
                self.stats.writes_waited_for_room += 1;
                self.room.line.push_back(id);
                self.wait(id, WriteState::Room);
            }
            WriteKind::Flush | WriteKind::WriteBack => panic!("a flush has no pages"),
        }
    }

    /// Lets those in the line for room go on, as far as there is room.
    pub(in crate::path) fn give_room(&mut self, now: Nanos) {
        while let Some(id) = self.room.first() {
            if !self.rewriting.is_empty() {
                return;
            }
            if self.try_room(now, id) {
                self.room.line.pop_front();
            } else if self.room.used == self.debts.failed {
                // All room is held by pages that their device refuses: nothing will come.
                let fault = self.last_fault;
                self.room.line.pop_front();
                self.unlock(id);
                self.end_write(id, ByteCount::ZERO, Some(fault));
                self.probe_soon(now);
            } else {
                return;
            }
        }
    }

    fn try_room(&mut self, now: Nanos, id: WriteId) -> bool {
        let write = self.writes.get(id).expect("a write");
        let file_len = self.files.get(write.file).expect("a file outlives its writes").len;
        let partial = write.partial_pages(file_len).into_iter().flatten().count() as u64;
        let wants = (write.pages.end - write.pages.start).0 + partial;
        if !self.room.take(wants) {
            return false;
        }
        self.writes.get_mut(id).expect("a write").room = wants;
        self.wait(id, WriteState::Frames);
        if !self.try_frames(now, id, self.queued.is_empty()) {
            self.stats.waited_for_frames += 1;
            self.queued.push_back(Waiter::Write(id));
        }
        true
    }

    /// Gives the write all frames that it lacks, if they can be had now; else leaves everything as
    /// it was. As for a read: all or none, in the order of arrival.
    pub(in crate::path) fn try_frames(
        &mut self,
        now: Nanos,
        id: WriteId,
        is_its_turn: bool,
    ) -> bool {
        let write = self.writes.get(id).expect("a write");
        let (file, pages, submitter) = (write.file, write.pages.clone(), write.submitter);
        let state = self.files.get(file).expect("a file outlives its writes");
        let (slot, file_len, device) = (Self::slot(file), state.len, state.device);
        let file_start = state.place.start();
        let partial = write.partial_pages(file_len);
        // First what is there: what is held is neither evicted for the rest nor available.
        let there = partial.map(|page| {
            let entry = self.cache.look_up(slot, page?)?;
            self.cache.hold(entry.frame());
            Some(entry.frame())
        });
        let missing = partial.iter().flatten().count() - there.iter().flatten().count();
        let lacks = pages.end - pages.start + Pages(missing as u64);
        if !is_its_turn || self.cache.available() < lacks {
            there.into_iter().flatten().for_each(|frame| self.cache.release(frame));
            return false;
        }
        let mut runs = Vec::new();
        for &page in partial.iter().flatten() {
            if self.cache.look_up(slot, page).is_none() {
                let filling = self.cache.start_fill(slot, page, Use::Wanted, false);
                self.cache.hold(filling.frame());
                let fill = PageFill::whole(filling, page_len(file_len, page));
                let start = file_start + Sectors(page.0 * SECTORS_PER_PAGE);
                runs.push(PageRun::of_page(start, fill, false));
            }
        }
        self.stats.pages_rmw += runs.len() as u64;
        self.take_fresh(id, slot, &pages, &partial);
        let origin = Origin { op: Op::Read, class: Class::BestEffort, submitter };
        self.queue(now, device, runs, origin);
        self.wait_for_old_bytes(id);
        true
    }

    /// Takes a frame for each page. The old ones are held.
    fn take_fresh(
        &mut self,
        id: WriteId,
        slot: FileSlot,
        pages: &Range<PageIndex>,
        partial: &[Option<PageIndex>],
    ) {
        let mut page = pages.start;
        while page < pages.end {
            let fresh = self.cache.start_write();
            let keeps_some = partial.contains(&Some(page));
            let old = keeps_some.then(|| self.cache.look_up(slot, page).expect("held").frame());
            let write = self.writes.get_mut(id).expect("a write");
            write.fills.push(WriteFill { page, new: fresh.frame(), old });
            write.fresh.push(fresh);
            page = page + Pages(1);
        }
    }

    /// Notes which old pages are still on their way; without any, the write can be filled.
    fn wait_for_old_bytes(&mut self, id: WriteId) {
        let Self { cache, waiters, writes, .. } = self;
        let write = writes.get_mut(id).expect("a write");
        let slot = Self::slot(write.file);
        for fill in &write.fills {
            let Some(old) = fill.old else { continue };
            let entry = cache.look_up(slot, fill.page).expect("held");
            if !entry.is_up_to_date() {
                write.outstanding += 1;
                waiters.add(old, Waiter::Write(id));
            }
        }
        if write.outstanding == 0 {
            let len = write.len;
            self.post(id, WriteState::Filling, WriteStep::Fill { len });
        } else {
            self.wait(id, WriteState::Reading);
        }
    }

    /// The old bytes are there, or one of the pages could not be read.
    pub(super) fn has_old_bytes(&mut self, id: WriteId) {
        let write = self.writes.get(id).expect("a write");
        let is_closing = self.files.get(write.file).is_none_or(|file| file.is_closing);
        let fault = write.fault.or(is_closing.then_some(Fault::Short));
        match fault {
            None => {
                let len = write.len;
                self.post(id, WriteState::Filling, WriteStep::Fill { len });
            }
            Some(_) => self.abandon(id, fault),
        }
    }

    /// Abandons a write that has its frames.
    pub(super) fn abandon(&mut self, id: WriteId, fault: Option<Fault>) {
        let write = self.writes.get_mut(id).expect("a write");
        for fresh in write.fresh.drain(..) {
            self.cache.drop_fresh(fresh);
        }
        for old in write.fills.drain(..).filter_map(|fill| fill.old) {
            self.cache.release(old);
        }
        self.give_back_room(id);
        self.unlock(id);
        self.end_write(id, ByteCount::ZERO, fault);
    }

    pub(super) fn give_back_room(&mut self, id: WriteId) {
        let write = self.writes.get_mut(id).expect("a write");
        self.room.give_back(core::mem::take(&mut write.room));
    }

    /// The file is closed: abandons writes without frames, and those that have not begun to act.
    pub(in crate::path) fn end_waiting_writes(&mut self, file: FileId) {
        let books = self.files.get(file).and_then(|file| file.debts.as_ref());
        let locks = books.map_or_else(Vec::new, |books| books.locks.iter().copied().collect());
        // The last first: so no write is left to go on with what another one gives back.
        for id in locks.into_iter().rev() {
            let write = self.writes.get(id).expect("it has a lock");
            let has_begun = match write.state {
                WriteState::Locked | WriteState::Room | WriteState::Frames => false,
                WriteState::Device => write.kind != WriteKind::Zero,
                WriteState::Reading | WriteState::Filling | WriteState::Acting => true,
            };
            if !has_begun {
                self.unlocked.retain(|&other| other != id);
                self.room.line.retain(|&other| other != id);
                self.queued.retain(|&other| other != Waiter::Write(id));
                self.give_back_room(id);
                self.unlock(id);
                self.end_write(id, ByteCount::ZERO, Some(Fault::Short));
            }
        }
    }
}

impl WriteCommand {
    /// What it covers of a file of this length: less than was asked if the file ends before, or if
    /// it would need more than the `largest` number of pages.
    pub(super) fn cover(&mut self, file_len: ByteCount, largest: Pages) {
        let first = self.pos.page();
        let end = (self.pos + self.asked).min(file_len).min((first + largest).offset());
        self.len = end.saturating_sub(self.pos);
        let after = if self.len == ByteCount::ZERO { first } else { PageIndex(end.pages_up().0) };
        self.pages = first..after;
    }

    /// The pages of which something stays as it was.
    ///
    /// ```text
    ///   file    |------------|------------|------------|-------.      the file ends here
    ///   write          |=======================================|
    ///             partial       whole        whole       whole: all that the file has
    /// ```
    fn partial_pages(&self, file_len: ByteCount) -> [Option<PageIndex>; EDGES] {
        let is_partial = |page: &PageIndex| {
            let start = page.offset();
            let end = file_len.min((*page + Pages(1)).offset());
            start < end && (self.pos > start || self.pos + self.len < end)
        };
        let first = self.pages.start;
        let last = PageIndex(self.pages.end.0.saturating_sub(1));
        let last = Some(last).filter(|last| *last > first);
        [Some(first).filter(is_partial), last.filter(is_partial)]
    }
}

fn overlap(one: &Range<PageIndex>, other: &Range<PageIndex>) -> bool {
    one.start < other.end && other.start < one.end
}

/// A write has a page at each end that may be partial.
const EDGES: usize = 2;

/// The smallest limit: a write of one page, and its old page, and some that are on their way.
pub(super) const LEAST_LIMIT: u64 = 8;
