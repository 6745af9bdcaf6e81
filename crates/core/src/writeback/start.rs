//! The start of a write: it acquires its pages, then dirty budget, then frames, then the old bytes
//! of partial pages. A write never overtakes an earlier one of the same pages.
//!
//! ```text
//!   write --> [ pages: one line a file ] --> [ budget: one line ] --> [ frames: the reads' line ]
//!                   |                             |                        |
//!         until no earlier one            until fewer frames       until all are
//!         works on any of them            are dirty                available
//!                                                                          |
//!                                 Fill <-- [ old bytes of partial pages ] <-'
//! ```
//!
//! There is no deadlock: pages are released by writes that are further on, budget by the device,
//! which needs neither, and frames by reads and by the device.

use alloc::vec::Vec;
use core::ops::Range;

use super::Writeback;
use super::command::{EDGES, WriteCommand, WriteKind, WriteState};
use crate::cache::Use;
use crate::device_queue::payload::{PageFill, PageRun};
use crate::driver_io::{Fault, WriteFill, WriteStep};
use crate::ids::{Waiter, WriteId, slot_of};
use crate::page_in::{PageIn, page_len};
use crate::read_path::{ONE_READ_DENOM, ReadPath, file_pages};
use crate::sched::{Class, Op, Origin};
use crate::units::{ByteCount, Nanos, PageIndex, Pages, SECTORS_PER_PAGE, Sectors};

impl Writeback {
    /// Returns the largest number of pages that one write may have.
    pub(super) fn largest_write(&self, path: &ReadPath) -> Pages {
        let share = u64::from(path.page_in.cache.frames()) / ONE_READ_DENOM;
        // The old pages at both ends count, too.
        assert!(self.budget.limit() > EDGES as u64, "the smallest limit has room for the edges");
        Pages(share.min(self.budget.limit() - EDGES as u64).max(1))
    }

    /// Locks the write's pages, or queues it in the line of its file.
    pub(super) fn lock(&mut self, path: &mut ReadPath, id: WriteId) {
        let Self { files, writes, .. } = self;
        let WriteCommand { file, pages, .. } =
            writes.get(id).expect("a write that locks is not over");
        assert!(pages.start < pages.end, "{id:?} locks at least one page");
        let (file, pages) = (*file, pages.clone());
        let dirty_file = files.get_or_insert(file);
        let others = dirty_file
            .locks
            .iter()
            .map(|&other| writes.get(other).expect("a write with a lock is not over"));
        let blockers = others.filter(|other| overlap(&other.pages, &pages)).count();
        dirty_file.locks.push_back(id);
        let blockers = u32::try_from(blockers).expect("fewer than 2^32 writes are there at a time");
        writes.get_mut(id).expect("a write that locks is not over").blockers = blockers;
        if blockers == 0 {
            self.unlocked.push_back(id);
        } else {
            path.telemetry.stats.writes_waited_for_pages += 1;
            self.wait(path, id, WriteState::Locked);
        }
    }

    /// Cuts a write at the end of the file, which may have become shorter while it waited, and a
    /// piece of an append also where the file was cut since. Returns true if any of it is left.
    fn cut_at_end(&mut self, path: &ReadPath, id: WriteId) -> bool {
        let write = self.writes.get(id).expect("a write that has its pages is not over");
        let limit = self.append_limit(write.file, write.append);
        let write = self.writes.get_mut(id).expect("a write that has its pages is not over");
        let file = path.files.used(write.file);
        let end = file.end().min(PageIndex(limit.pages_up().0));
        let pages = write.pages.start..write.pages.end.min(end);
        write.len = file.len.min(limit).saturating_sub(write.pos).min(write.len);
        if pages.start >= pages.end || write.kind == WriteKind::Write && write.len.0 == 0 {
            return false;
        }
        if pages != write.pages {
            self.narrow_lock(id, pages);
        }
        true
    }

    /// Unlocks the write's pages, and lets the writes proceed that waited only for them.
    pub(super) fn unlock(&mut self, id: WriteId) {
        self.narrow_lock(id, PageIndex(0)..PageIndex(0));
        let write = self.writes.get(id).expect("a write unlocks before it is over");
        let dirty_file =
            self.files.get_mut(write.file).expect("a locked write is counted by its file");
        dirty_file.locks.retain(|&each| each != id);
    }

    /// Unlocks the pages outside `kept`, and lets the writes proceed that waited only for them.
    fn narrow_lock(&mut self, id: WriteId, kept: Range<PageIndex>) {
        let Self { files, writes, unlocked, .. } = self;
        let write = writes.get_mut(id).expect("a write unlocks before it is over");
        let pages = core::mem::replace(&mut write.pages, kept.clone());
        let dirty_file = files.get_mut(write.file).expect("a locked write is counted by its file");
        let at = dirty_file
            .locks
            .iter()
            .position(|&each| each == id)
            .expect("a write with a lock is not over");
        for &later in dirty_file.locks.range(at + 1..) {
            let write = writes.get_mut(later).expect("a write with a lock is not over");
            if overlap(&write.pages, &pages) && !overlap(&write.pages, &kept) {
                write.blockers =
                    write.blockers.checked_sub(1).expect("each blocker is counted once");
                if write.blockers == 0 {
                    unlocked.push_back(later);
                }
            }
        }
    }

    /// Starts the writes that have got their pages.
    pub(crate) fn grant_pages(&mut self, path: &mut ReadPath, now: Nanos) {
        while let Some(id) = self.unlocked.pop_front() {
            self.has_pages(path, now, id);
        }
    }

    fn has_pages(&mut self, path: &mut ReadPath, now: Nanos, id: WriteId) {
        let write = self.writes.get(id).expect("a write that has its pages is not over");
        assert!(write.blockers == 0, "{id:?} has its pages while others have them");
        let kind = write.kind;
        if matches!(kind, WriteKind::Write | WriteKind::Zeroes) && !self.cut_at_end(path, id) {
            self.unlock(id);
            self.end_write(path, id, ByteCount::ZERO, None);
            return;
        }
        match kind {
            WriteKind::Zeroes => self.start_zeroes(path, id),
            WriteKind::SetLen => self.start_change_len(path, id),
            WriteKind::Write => {
                let is_open = self.budget.line.is_empty() && self.rewriting.is_empty();
                if is_open && self.try_budget(path, now, id) {
                    return;
                }
                path.telemetry.stats.writes_waited_for_room += 1;
                self.budget.line.push_back(id);
                self.wait(path, id, WriteState::Budget);
            }
            WriteKind::Flush | WriteKind::WriteBack => panic!("a flush has no pages"),
        }
    }

    /// Starts writes in the line for budget while budget is available.
    pub(crate) fn grant_budget(&mut self, path: &mut ReadPath, now: Nanos) {
        while let Some(id) = self.budget.first() {
            if !self.rewriting.is_empty() && !self.goes_before_rewrites(id) {
                return;
            }
            if self.try_budget(path, now, id) {
                let first = self.budget.line.pop_front();
                debug_assert!(first == Some(id), "{id:?} is the first in line");
            } else if self.budget.used() == self.dirty.failed {
                // Refused pages hold the entire budget, so none will become free.
                let fault = self.last_fault;
                self.budget.line.pop_front();
                self.unlock(id);
                self.end_write(path, id, ByteCount::ZERO, Some(fault));
                self.probe_soon(now);
            } else {
                return;
            }
        }
    }

    fn try_budget(&mut self, path: &mut ReadPath, now: Nanos, id: WriteId) -> bool {
        let wants = self.wanted_budget(path, id);
        if !self.budget.take(wants) {
            return false;
        }
        self.writes.get_mut(id).expect("a write that wants budget is not over").budget = wants;
        self.wait(path, id, WriteState::Frames);
        if !self.try_frames(path, now, id, path.reads.frame_line.is_empty()) {
            path.telemetry.stats.waited_for_frames += 1;
            path.reads.frame_line.push_back(Waiter::Write(id));
        }
        true
    }

    /// Returns the budget that a write needs: its pages, and the old ones of partial pages.
    pub(super) fn wanted_budget(&self, path: &ReadPath, id: WriteId) -> u64 {
        let write = self.writes.get(id).expect("a write that wants budget is not over");
        assert!(write.budget == 0, "{id:?} has its budget");
        let file_len = path.files.used(write.file).len;
        let partial = write.partial_pages(file_len).into_iter().flatten().count() as u64;
        (write.pages.end - write.pages.start).0 + partial
    }

    /// Takes all frames that the write lacks if they are available; otherwise changes nothing and
    /// returns false. As for a read, it is all or none, in order of arrival.
    pub(crate) fn try_frames(
        &mut self,
        path: &mut ReadPath,
        now: Nanos,
        id: WriteId,
        is_its_turn: bool,
    ) -> bool {
        let write = self.writes.get(id).expect("a write that waits for frames is not over");
        assert!(write.state == WriteState::Frames, "{id:?} has its frames");
        let (file, pages, submitter) = (write.file, write.pages.clone(), write.submitter);
        let state = path.files.used(file);
        let (slot, file_len, device) = (slot_of(file), state.len, state.device);
        let file_start = state.location.start();
        let partial = write.partial_pages(file_len);
        // Hold resident pages first: held frames are neither evicted for the rest nor counted as
        // available.
        let there = partial.map(|page| {
            let entry = path.page_in.cache.look_up(slot, page?)?;
            path.page_in.cache.hold(entry.frame());
            Some(entry.frame())
        });
        let missing = partial.iter().flatten().count() - there.iter().flatten().count();
        let lacks = pages.end - pages.start + Pages(missing as u64);
        if !is_its_turn || path.page_in.cache.available() < lacks {
            there.into_iter().flatten().for_each(|frame| path.page_in.cache.release(frame));
            return false;
        }
        let mut runs = Vec::new();
        for &page in partial.iter().flatten() {
            if path.page_in.cache.look_up(slot, page).is_none() {
                let filling = path.page_in.cache.start_fill(slot, page, Use::Wanted, false);
                path.page_in.cache.hold(filling.frame());
                let fill = PageFill::whole(filling, page_len(file_len, page));
                let start = file_start + Sectors(page.0 * SECTORS_PER_PAGE);
                runs.push(PageRun::of_page(start, fill, false));
            }
        }
        assert!(runs.len() == missing, "each old page that is not resident is read");
        path.telemetry.stats.pages_rmw += runs.len() as u64;
        self.take_fresh(path, id, &pages, &partial);
        let origin = Origin { op: Op::Read, class: Class::BestEffort, submitter };
        path.devices.add_runs(now, device, runs, origin);
        self.wait_for_old_bytes(path, now, id);
        true
    }

    /// Takes a frame for each page; the old pages are held.
    fn take_fresh(
        &mut self,
        path: &mut ReadPath,
        id: WriteId,
        pages: &Range<PageIndex>,
        partial: &[Option<PageIndex>],
    ) {
        let write = self.writes.get(id).expect("a write that gets frames is not over");
        let (slot, file_len) = (slot_of(write.file), path.files.used(write.file).len);
        assert!(write.fresh.is_empty() && write.fills.is_empty(), "{id:?} has frames");
        let mut page = pages.start;
        while page < pages.end {
            let fresh = path.page_in.cache.start_write();
            let keeps_some = partial.contains(&Some(page));
            let old = keeps_some
                .then(|| path.page_in.cache.look_up(slot, page).expect(OLD_IS_HELD).frame());
            let write = self.writes.get_mut(id).expect("a write that gets frames is not over");
            let old_len = old.map_or(0, |_| page_len(file_len, page));
            write.fills.push(WriteFill { page, new: fresh.frame(), old, old_len });
            write.fresh.push(fresh);
            page = page + Pages(1);
        }
    }

    /// Waits for old pages that are still in flight; without any, the write can be filled.
    fn wait_for_old_bytes(&mut self, path: &mut ReadPath, now: Nanos, id: WriteId) {
        let PageIn { cache, waiters, .. } = &mut path.page_in;
        let write = self.writes.get_mut(id).expect("a write that has frames is not over");
        assert!(write.outstanding == 0, "{id:?} waits for something else");
        let (open, slot) = (path.files.used(write.file), slot_of(write.file));
        let pages = file_pages(write.file, open, path.devices.of_file(open.device));
        for fill in &write.fills {
            let Some(old) = fill.old else { continue };
            let entry = cache.look_up(slot, fill.page).expect(OLD_IS_HELD);
            assert!(entry.frame() == old, "{:?} has moved while it was held", fill.page);
            if !entry.is_up_to_date() {
                write.outstanding += 1;
                waiters.add(old, Waiter::Write(id));
                path.devices.promote(now, open.device, pages, (fill.page, old));
            }
        }
        if write.outstanding == 0 {
            let len = write.len;
            self.post(path, id, WriteState::Filling, WriteStep::Fill { len });
        } else {
            self.wait(path, id, WriteState::Reading);
        }
    }

    /// Continues a write whose old pages have been read, or could not be.
    pub(super) fn has_old_bytes(&mut self, path: &mut ReadPath, id: WriteId) {
        let write = self.writes.get(id).expect("a write that reads old bytes is not over");
        assert!(write.outstanding == 0, "{id:?} still waits for old bytes");
        let is_closing = path.files.get(write.file).is_none_or(|file| file.is_closing);
        let fault = write.fault.or(is_closing.then_some(Fault::Short));
        match fault {
            None => {
                let len = write.len;
                self.post(path, id, WriteState::Filling, WriteStep::Fill { len });
            }
            Some(_) => self.abandon(path, id, fault),
        }
    }

    /// Abandons a write that has its frames.
    pub(super) fn abandon(&mut self, path: &mut ReadPath, id: WriteId, fault: Option<Fault>) {
        let write = self.writes.get_mut(id).expect("a write is abandoned before it is over");
        assert!(write.fresh.len() == write.fills.len(), "{id:?} has a frame for each page");
        for fresh in write.fresh.drain(..) {
            path.page_in.cache.drop_fresh(fresh);
        }
        for old in write.fills.drain(..).filter_map(|fill| fill.old) {
            path.page_in.cache.release(old);
        }
        self.release_budget(id);
        self.unlock(id);
        self.end_write(path, id, ByteCount::ZERO, fault);
    }

    pub(super) fn release_budget(&mut self, id: WriteId) {
        let write = self.writes.get_mut(id).expect("a write gives back before it is over");
        self.budget.release(core::mem::take(&mut write.budget));
    }
}

const OLD_IS_HELD: &str = "an old page is held until its write is filled";

fn overlap(one: &Range<PageIndex>, other: &Range<PageIndex>) -> bool {
    one.start < other.end && other.start < one.end
}
