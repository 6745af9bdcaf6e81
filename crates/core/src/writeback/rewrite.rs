//! After a failed flush: makes unstable pages dirty again, and records which files have lost some.
//! Pages covered by an earlier flush are not rewritten, and the dirty limit holds. Rewrites go
//! before new writes, until a write has waited for too many of them.
//!
//! ```text
//!   pages of the domain      durable   unstable, in memory   unstable, evicted   dirty
//!   after the failure        -         dirty, urgent         the file has lost   waiting flushes
//!                                                            writes              wait for them
//! ```

use alloc::vec::Vec;

use super::command::WriteState;
use super::dirty_page::{DirtyList, DirtyPage};
use super::durability::DurableEnd;
use super::write_ends::{SUSPICIONS_MAX, WriteOutcome};
use super::{Domain, Writeback};
use crate::cache::FlushInterval;
use crate::driver_io::Fault;
use crate::ids::{CommandSeq, DirtyId, DomainId, FileId, WriteId, slot_of};
use crate::read_path::ReadPath;
use crate::sched::Submitter;
use crate::table::{FileSlot, Frame};
use crate::units::{ByteCount, Nanos, PageIndex};

impl Writeback {
    /// Handles a failed flush: all unstable pages of its domain may be lost on the device.
    pub(super) fn flush_failed(
        &mut self,
        path: &mut ReadPath,
        now: Nanos,
        domain: DomainId,
        seq: CommandSeq,
        fault: Fault,
    ) {
        path.telemetry.stats.flush_failures += 1;
        let commands = self.domains.get_mut(domain).expect("a domain outlives its commands");
        let spoiled = commands.fail(seq, fault);
        let failed = path.page_in.cache.end_flush_interval();
        self.set_back_writes();
        self.rewrite(path, now, domain, failed);
        self.set_back_flushes(path, domain, fault);
        for end in spoiled {
            match end {
                DurableEnd::Fua(device, mut load) => {
                    self.end_writes(path, now, device, &mut load, WriteOutcome::Suspect(fault));
                }
                DurableEnd::Flush(id, _) => self.end_flush_with(path, id, Some(fault)),
            }
        }
    }

    /// Continues [`Self::rewrite`] when half of the budget is free again.
    pub(crate) fn continue_rewrites(&mut self, path: &mut ReadPath, now: Nanos) {
        let failed = self.dirty.failed;
        let limit = self.budget.limit().saturating_sub(failed);
        if self.rewriting.is_empty() || self.budget.used() - failed > limit / 2 {
            return;
        }
        for (domain, failed) in core::mem::take(&mut self.rewriting) {
            self.rewrite(path, now, domain, failed);
        }
    }

    /// Makes the pages of a domain dirty that were unstable at the end of interval `failed`, and
    /// records the files that have lost some. If they exceed the dirty budget, flushes and new
    /// writes wait for the rest.
    ///
    /// ```text
    ///   unstable    U U U U U U U U U U      ->  D D D D U U U U U U   ->  . . . . D D D D U U
    ///   budget      4                            full                      half free: continue
    /// ```
    fn rewrite(
        &mut self,
        path: &mut ReadPath,
        now: Nanos,
        domain: DomainId,
        failed: FlushInterval,
    ) {
        self.rewriting.retain(|&(other, _)| other != domain);
        let mut waiting = self.files_in(path, domain);
        waiting.retain(|&file| {
            let dirty_file = self.files.get_mut(file).expect("only files with writes are listed");
            core::mem::take(&mut dirty_file.is_rewriting)
        });
        assert!(self.budget.used() >= self.dirty.failed, "pages that failed hold budget");
        let reserved = self.reserved_budget(path);
        let mut is_over = true;
        for unstable in path.page_in.cache.unstable_pages() {
            let Some(file) = self.file_at(path, unstable.file, domain) else { continue };
            // Pages written after the failure, perhaps again, are not affected.
            if unstable.written <= self.covered(file, domain) || unstable.written > failed {
                continue;
            }
            let dirty_file = self.files.get_mut(file).expect("only what was written is unstable");
            if self.budget.take_one(reserved) {
                self.make_dirty_again(path, now, file, unstable.page, unstable.frame);
            } else if self.budget.used() == self.dirty.failed && reserved == 0 {
                // Refused pages hold the entire budget, so none will become free.
                path.page_in.cache.note_unstable_left(unstable.file, unstable.written);
            } else {
                (dirty_file.is_rewriting, is_over) = (true, false);
            }
        }
        if !is_over {
            self.rewriting.push((domain, failed));
        }
        self.join_waiting_flushes(path, domain);
        self.note_lost(path, domain);
        for file in waiting {
            self.check_flushes(path, file);
        }
    }

    /// Counts a failed flush for each write that waits for budget.
    fn set_back_writes(&mut self) {
        for &id in &self.budget.line {
            let write = self.writes.get_mut(id).expect("a write that wants budget is not over");
            write.setbacks = write.setbacks.saturating_add(1);
        }
    }

    /// Returns true if so many flushes have failed while this write waits for budget that it goes
    /// before the rewrites. If flushes keep failing, for example for a client that flushes a file
    /// with a bad last block, each failure starts a rewrite.
    pub(super) fn goes_before_rewrites(&self, id: WriteId) -> bool {
        let write = self.writes.get(id).expect("a write that wants budget is not over");
        write.setbacks >= SUSPICIONS_MAX
    }

    /// Returns the budget that rewrites leave to the first write in line.
    fn reserved_budget(&self, path: &ReadPath) -> u64 {
        let first = self.budget.first().filter(|&first| self.goes_before_rewrites(first));
        first.map_or(0, |first| self.wanted_budget(path, first))
    }

    /// Ends the waiting flushes of a domain that have been set back too often: each failed flush
    /// makes them wait for pages that were written already.
    fn set_back_flushes(&mut self, path: &mut ReadPath, domain: DomainId, fault: Fault) {
        let mut over = Vec::new();
        for file in self.files_in(path, domain) {
            let Self { files, writes, .. } = self;
            let dirty_file = files.get_mut(file).expect("only files with writes are listed");
            dirty_file.flushes.retain(|&id| {
                let flush = writes.get_mut(id).expect("a flush that waits is not over");
                flush.setbacks += 1;
                if flush.setbacks >= SUSPICIONS_MAX {
                    over.push((id, flush.fault.unwrap_or(fault)));
                }
                flush.setbacks < SUSPICIONS_MAX
            });
        }
        for (id, fault) in over {
            self.end_write(path, id, ByteCount::ZERO, Some(fault));
        }
    }

    /// Makes waiting flushes wait for all pages that are dirty now. Pages that have failed are not
    /// sent again: their faults end these flushes, and a block that fails each time, with a flush
    /// in each attempt, would start over every rewrite.
    ///
    /// ```text
    ///   page    version 1: unstable    version 2: dirty, later than the flush
    ///   flush   waits for version 1, which the device may have lost: only version 2 can be written
    /// ```
    fn join_waiting_flushes(&mut self, path: &mut ReadPath, domain: DomainId) {
        let mut waiting = self.files_in(path, domain);
        waiting.retain(|&file| self.files.get(file).is_some_and(|it| !it.flushes.is_empty()));
        for file in waiting {
            let Self { files, writes, dirty, .. } = self;
            let dirty_file = files.get_mut(file).expect("only files with writes are listed");
            dirty.join_waiting_flushes(dirty_file, writes);
            self.make_unsent_urgent(file);
        }
    }

    fn make_dirty_again(
        &mut self,
        path: &mut ReadPath,
        now: Nanos,
        file: FileId,
        page: PageIndex,
        frame: Frame,
    ) {
        assert!(!self.is_dirty(frame), "{page:?} is dirty already, and is written anyway");
        path.telemetry.stats.pages_rewritten += 1;
        path.page_in.cache.clear_unstable(frame);
        path.page_in.cache.hold(frame);
        let mut dirty = DirtyPage::new(file, page, frame, Submitter::default(), now);
        dirty.is_urgent = true;
        let dirty_file = self.files.get_mut(file).expect("only what was written is unstable");
        let id = self.dirty.add(dirty_file, dirty);
        self.list_again(file, id);
    }

    /// Makes a page that is dirty again urgent, or held if a zero has locked it.
    fn list_again(&mut self, file: FileId, id: DirtyId) {
        let page = self.page_of(id);
        let holder = self.holder_of(file, page);
        let Self { files, writes, dirty, .. } = self;
        let dirty_file = files.get_mut(file).expect("a dirty page is counted by its file");
        let holder = holder.and_then(|holder| writes.get_mut(holder));
        let is_held = holder.as_ref().is_some_and(|it| it.held_pages().contains(&page));
        dirty.get_mut(id).is_locked = is_held;
        dirty.put(dirty_file, id, if is_held { DirtyList::Held } else { DirtyList::Urgent });
        if let Some(holder) = holder.filter(|it| it.state == WriteState::Device && !is_held) {
            // The page at a file's new end has to be written before the file is cut.
            dirty.get_mut(id).is_awaited = true;
            holder.outstanding += 1;
        }
        self.list_file(file);
    }

    /// Records a loss for each file of a domain with unstable bytes that are no longer in memory.
    fn note_lost(&mut self, path: &mut ReadPath, domain: DomainId) {
        let errno = match self.domains.get(domain).map_or(Fault::Short, Domain::fault) {
            Fault::Io(errno) | Fault::Lost(errno) => errno,
            Fault::Short => EIO,
        };
        for file in self.files_in(path, domain) {
            let Some(left) = path.page_in.cache.unstable_left(slot_of(file)) else { continue };
            if left > self.covered(file, domain) {
                let dirty_file =
                    self.files.get_mut(file).expect("only files with writes are listed");
                dirty_file.note_loss(Fault::Lost(errno));
            }
        }
    }

    /// Returns the newest interval of a file that a flush has made durable. Settling flushes count,
    /// because they ended before the failed one began.
    fn covered(&self, file: FileId, domain: DomainId) -> FlushInterval {
        let dirty_file = self.files.get(file);
        let durable = dirty_file.map_or(FlushInterval::default(), |dirty_file| dirty_file.durable);
        let settling = self.domains.get(domain).into_iter().flat_map(Domain::settling);
        let covers = settling.filter_map(|end| match end {
            DurableEnd::Flush(id, covers) if self.writes.get(*id)?.file == file => Some(*covers),
            DurableEnd::Flush(..) | DurableEnd::Fua(..) => None,
        });
        covers.fold(durable, FlushInterval::max)
    }

    /// Returns the written files whose device belongs to a domain, in the order of their slots.
    fn files_in(&self, path: &ReadPath, domain: DomainId) -> Vec<FileId> {
        let is_here = |file: &FileId| {
            let open = path.files.get(*file);
            let device = open.and_then(|open| path.devices.get(open.device));
            device.is_some_and(|device| device.domain == Some(domain))
        };
        self.files.ids().filter(is_here).collect()
    }

    /// Returns the open file of a slot if it belongs to a domain.
    fn file_at(&self, path: &ReadPath, slot: FileSlot, domain: DomainId) -> Option<FileId> {
        let (id, file) = path.files.at(slot.0)?;
        let is_here = path.devices.get(file.device)?.domain == Some(domain);
        (is_here && !file.is_closing && self.files.get(id).is_some()).then_some(id)
    }
}

/// The error for a device that reported only a short write.
pub(super) const EIO: i32 = 5;
