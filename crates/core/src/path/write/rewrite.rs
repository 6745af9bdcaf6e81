//! After a failed flush: unstable pages are written again, and files that have lost some are noted.
//!
//! In:    a durable command of a domain that failed.
//! Out:   dirty pages; flushes and FUA writes that fail with it; files whose flushes say `Lost`.
//! Never: a page written again that a flush has covered; more dirty pages than there is room for.
//!
//! ```text
//!   pages of the domain      durable   unstable, in memory   unstable, evicted   dirty
//!   after the failure        -         dirty, urgent         the file has lost   waited for by
//!                                                            writes              waiting flushes
//! ```

use alloc::vec::Vec;

use super::debts::{DirtyId, DirtyList, DirtyPage, FileDirtyPages};
use super::durability::{CommandSeq, Domain, DurableEnd};
use super::flusher::WriteOutcome;
use super::{WriteKind, WriteState};
use crate::cache::{FlushInterval, PageCache};
use crate::path::{Fault, FileId, IoPath};
use crate::sched::Submitter;
use crate::slab::Id;
use crate::table::{FileSlot, Frame};
use crate::units::{Nanos, PageIndex};

impl IoPath {
    /// A flush failed: all that is unstable in its domain may be gone from the device.
    pub(super) fn flush_failed(
        &mut self,
        now: Nanos,
        domain: Id<Domain>,
        seq: CommandSeq,
        fault: Fault,
    ) {
        self.stats.flush_failures += 1;
        let commands = self.domains.get_mut(domain).expect("one of its commands has failed");
        let spoiled = commands.fail(seq, fault);
        let failed = self.cache.end_flush_interval();
        self.rewrite(now, domain, failed);
        for end in spoiled {
            match end {
                DurableEnd::Fua(device, mut job) => {
                    self.end_writes(now, device, &mut job, WriteOutcome::Suspect(fault));
                }
                DurableEnd::Flush(id, _) => self.end_flush_with(id, Some(fault)),
            }
        }
    }

    /// Goes on with [`Self::rewrite`] where half of the room is free again.
    pub(in crate::path) fn continue_rewrites(&mut self, now: Nanos) {
        let failed = self.debts.failed;
        let limit = self.room.limit().saturating_sub(failed);
        if self.rewriting.is_empty() || self.room.used() - failed > limit / 2 {
            return;
        }
        for (domain, failed) in core::mem::take(&mut self.rewriting) {
            self.rewrite(now, domain, failed);
        }
    }

    /// Makes the pages of a domain dirty that were unstable when a flush failed, at the end of an
    /// interval, and notes which files have lost some. Where there are more than writes have room
    /// for, flushes and new writes wait for the rest.
    ///
    /// ```text
    ///   unstable    U U U U U U U U U U      ->  D D D D U U U U U U   ->  . . . . D D D D U U
    ///   room        4                            full                      half free: go on
    /// ```
    fn rewrite(&mut self, now: Nanos, domain: Id<Domain>, failed: FlushInterval) {
        self.rewriting.retain(|&(other, _)| other != domain);
        let mut waiting = Vec::new();
        self.for_each_file_in(domain, |id, books, _| {
            if core::mem::take(&mut books.is_rewriting) {
                waiting.push(id);
            }
        });
        let mut is_over = true;
        for unstable in self.cache.unstable_pages() {
            let Some(file) = self.file_at(unstable.file, domain) else { continue };
            // What was written after the failure, perhaps again, is not touched by it.
            if unstable.written <= self.covered(file, domain) || unstable.written > failed {
                continue;
            }
            let books = self.files.get_mut(file).expect("just found").debts.as_mut();
            let books = books.expect("only what was written is unstable");
            if self.room.take_one() {
                self.make_dirty_again(now, file, unstable.page, unstable.frame);
            } else if self.room.used() == self.debts.failed {
                // All room is held by pages that their device refuses: nothing will come.
                self.cache.note_unstable_left(unstable.file, unstable.written);
            } else {
                (books.is_rewriting, is_over) = (true, false);
            }
        }
        if !is_over {
            self.rewriting.push((domain, failed));
        }
        self.join_waiting_flushes(domain);
        self.note_lost(domain);
        for file in waiting {
            self.check_flushes(file);
        }
    }

    /// Flushes that wait wait for all that is dirty now.
    ///
    /// ```text
    ///   page    version 1: unstable    version 2: dirty, later than the flush
    ///   flush   waits for version 1, which the device may have dropped: only 2 can be written
    /// ```
    fn join_waiting_flushes(&mut self, domain: Id<Domain>) {
        let mut waiting = Vec::new();
        self.for_each_file_in(domain, |id, books, _| {
            if !books.flushes.is_empty() {
                waiting.push(id);
            }
        });
        for file in waiting {
            let Self { files, writes, debts, .. } = self;
            let books = files.get_mut(file).expect("just found").debts.as_mut().expect("it waits");
            debts.join_waiting_flushes(books, writes);
            self.urge(file);
        }
    }

    fn make_dirty_again(&mut self, now: Nanos, file: FileId, page: PageIndex, frame: Frame) {
        self.stats.pages_rewritten += 1;
        self.cache.clear_unstable(frame);
        self.cache.hold(frame);
        let mut debt = DirtyPage::new(file, page, frame, Submitter::default(), now);
        debt.is_urgent = true;
        let books = self.files.get_mut(file).expect("it is open").debts.as_mut();
        let books = books.expect("only what was written is unstable");
        let id = self.debts.add(books, debt);
        self.place_again(file, id);
    }

    /// A page that is dirty again is written at once, but for one that a zero has.
    fn place_again(&mut self, file: FileId, id: DirtyId) {
        let page = self.page_owed(id);
        let Self { files, writes, debts, .. } = self;
        let books = files.get_mut(file).expect("it is open").debts.as_mut().expect("it owes");
        let is_zeroed = books.locks.iter().any(|&lock| {
            let write = writes.get(lock).expect("it has a lock");
            let has_begun = matches!(write.state, WriteState::Device | WriteState::Acting);
            write.kind == WriteKind::Zero && has_begun && write.pages.contains(&page)
        });
        debts.get_mut(id).is_locked = is_zeroed;
        debts.put(books, id, if is_zeroed { DirtyList::Held } else { DirtyList::Urgent });
        self.list_file(file);
    }

    /// Notes which files of a domain have unstable bytes that are in memory no more.
    fn note_lost(&mut self, domain: Id<Domain>) {
        let errno = match self.domains.get(domain).map_or(Fault::Short, Domain::fault) {
            Fault::Io(errno) | Fault::Lost(errno) => errno,
            Fault::Short => EIO,
        };
        let mut losers = Vec::new();
        self.for_each_file_in(domain, |id, _, cache| {
            losers.extend(cache.unstable_left(Self::slot(id)).map(|left| (id, left)));
        });
        for (file, left) in losers {
            if left > self.covered(file, domain) {
                let books = self.files.get_mut(file).expect("just found").debts.as_mut();
                books.expect("just found").lost = Some(Fault::Lost(errno));
            }
        }
    }

    /// The intervals of a file that a flush has made durable, whether it is acknowledged yet or
    /// settles: one that settles ended before the flush began that has failed now.
    fn covered(&self, file: FileId, domain: Id<Domain>) -> FlushInterval {
        let books = self.files.get(file).and_then(|it| it.debts.as_ref());
        let durable = books.map_or(FlushInterval::default(), |books| books.durable);
        let settling = self.domains.get(domain).into_iter().flat_map(Domain::settling);
        let covers = settling.filter_map(|end| match end {
            DurableEnd::Flush(id, covers) if self.writes.get(*id)?.file == file => Some(*covers),
            DurableEnd::Flush(..) | DurableEnd::Fua(..) => None,
        });
        covers.fold(durable, FlushInterval::max)
    }

    fn for_each_file_in(
        &mut self,
        domain: Id<Domain>,
        mut f: impl FnMut(FileId, &mut FileDirtyPages, &PageCache),
    ) {
        let Self { files, devices, cache, .. } = self;
        files.for_each_mut(|id, file| {
            let is_here = devices.get(file.device).is_some_and(|it| it.domain == Some(domain));
            if let Some(books) = file.debts.as_mut().filter(|_| is_here) {
                f(id, books, cache);
            }
        });
    }

    /// The open file of a slot, if it belongs to a domain.
    fn file_at(&self, slot: FileSlot, domain: Id<Domain>) -> Option<FileId> {
        let (id, file) = self.files.with_id_at(slot.0)?;
        let is_here = self.devices.get(file.device)?.domain == Some(domain);
        (is_here && !file.is_closing && file.debts.is_some()).then_some(id)
    }
}

/// Of a device that says only that it ended early.
const EIO: i32 = 5;
