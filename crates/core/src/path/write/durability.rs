//! Durability: what a device error means for writes that were acknowledged.
//!
//! In:    the ends of writes, FUA writes and device flushes; zeroes done by the driver.
//! Out:   acknowledgements that hold; after a failed flush, pages that are dirty again, and files
//!        whose flushes fail until their owner [accepts the loss](IoPath::accept_lost).
//! Never: a success that rests on a flush that failed, in whatever command it was hidden.
//!
//! ```text
//!              device write ends        flush that began later ends well
//!   dirty ------------------> unstable ---------------------------------> durable
//!     ^                          |
//!     |    any flush of the      |  its page is in memory: dirty again
//!     '--- domain fails ---------+
//!                                '-- it was evicted: the file has lost writes; each flush says so
//! ```
//!
//! Invariants, and how they are tested: docs/durability.md.

use alloc::vec::Vec;

use super::debts::{Debt, DebtId, FileDebts, On};
pub(in crate::path) use super::flush_domain::{CommandSeq, FlushDomain};
use super::flusher::Outcome;
use super::{Kind, State, Write, WriteId};
use crate::cache::{FlushInterval, PageCache};
use crate::path::job::Job;
use crate::path::{DeviceId, Fault, FileId, IoPath};
use crate::replay::Input;
use crate::sched::Submitter;
use crate::slab::Id;
use crate::table::{FileSlot, Frame};
use crate::units::{Bytes, Instant, PageIndex};

/// What to do when the success of a durable command may be acknowledged.
#[derive(Debug)]
pub(in crate::path) enum DurableEnd {
    /// A FUA request is written.
    Fua(DeviceId, Job),
    /// A flush is over; it covers what was written in these intervals.
    Flush(WriteId, FlushInterval),
}

/// The flush domain of a path's devices.
pub(in crate::path) type Domain = FlushDomain<DurableEnd>;

impl IoPath {
    /// The owner of a file accepts that acknowledged writes are lost, after a flush has said
    /// [`Fault::Lost`]: later flushes say nothing of that loss any more. Of a file that has lost
    /// nothing: nothing.
    pub fn accept_lost(&mut self, file: FileId) {
        self.log().did(|| Input::AcceptLost { file });
        if let Some(books) = self.files.get_mut(file).and_then(|file| file.debts.as_mut()) {
            // What is in memory no more stays noted: the next flush that fails may drop it, too.
            if let Some(lost) = books.lost.take() {
                books.accepted = Some(lost);
                books.accepts = books.accepts.wrapping_add(1);
            }
        }
    }

    /// How writes of the file were lost, if any were and the loss is not accepted.
    #[must_use]
    pub fn lost(&self, file: FileId) -> Option<Fault> {
        self.files.get(file)?.debts.as_ref()?.lost
    }

    /// The domain of a device, which begins with its first write: devices of one disk share one.
    fn domain_of(&mut self, device: DeviceId) -> Id<Domain> {
        let Self { devices, domains, .. } = self;
        let state = devices.get(device).expect("a device outlives its files");
        if let Some(domain) = state.domain {
            return domain;
        }
        let disk = state.disk;
        let shared = disk.and_then(|disk| {
            let same = |other: &crate::path::Device| other.disk == Some(disk);
            devices.iter().filter(|(_, it)| same(it)).find_map(|(_, it)| it.domain)
        });
        let domain = shared.unwrap_or_else(|| domains.insert(Domain::new()));
        devices.get_mut(device).expect("it is there").domain = Some(domain);
        domains.get_mut(domain).expect("just found").devices += 1;
        domain
    }

    /// A device is removed: its domain goes with the last one, when all its commands have ended.
    pub(in crate::path) fn leave_domain(&mut self, domain: Option<Id<Domain>>) {
        if let Some(domain) = domain {
            self.domains.get_mut(domain).expect("it has a device").devices -= 1;
            self.end_domain_if_over(domain);
        }
    }

    fn end_domain_if_over(&mut self, domain: Id<Domain>) {
        if self.domains.get(domain).is_some_and(|it| it.devices == 0 && it.is_idle()) {
            self.domains.remove(domain);
        }
    }

    /// A command of a device begins.
    pub(in crate::path) fn begin_command(
        &mut self,
        device: DeviceId,
        is_durable: bool,
    ) -> (Id<Domain>, CommandSeq) {
        let domain = self.domain_of(device);
        let seq = self.domains.get_mut(domain).expect("just found").begin(is_durable);
        (domain, seq)
    }

    /// A write request ended.
    ///
    /// ```text
    ///   request    result           what it means
    ///   plain      good             its pages are unstable; or, if a flush failed meanwhile,
    ///                               they are written again
    ///   plain      short, an error  pages that are not covered: as the flusher says
    ///   FUA        good             settles
    ///   FUA        short, an error  a flush has failed: FUA is a write and a flush, and which of
    ///                               them failed the device does not say
    /// ```
    pub(in crate::path) fn end_write_request(
        &mut self,
        now: Instant,
        device: DeviceId,
        command: (Id<Domain>, CommandSeq),
        mut job: Job,
        result: Result<Bytes, i32>,
    ) {
        let (domain, seq) = command;
        let bytes = result.unwrap_or(Bytes::ZERO);
        let fault = result.err().map_or(Fault::Short, Fault::Io);
        let commands = self.domains.get_mut(domain).expect("it has commands in flight");
        if job.is_fua && bytes < job.write_len() {
            self.flush_failed(now, domain, seq, fault);
            self.end_writes(now, device, &mut job, Outcome::Unstable(Bytes::ZERO, fault));
        } else if job.is_fua {
            if let Err((_, DurableEnd::Fua(device, mut job))) =
                commands.succeed(seq, DurableEnd::Fua(device, job))
            {
                self.end_writes(now, device, &mut job, Outcome::Suspect);
            }
        } else if commands.suspect(seq).is_some() {
            self.end_writes(now, device, &mut job, Outcome::Suspect);
        } else {
            self.end_writes(now, device, &mut job, Outcome::Unstable(bytes, fault));
        }
        self.settle(now, domain);
    }

    /// All that was written is on the device: its own flush is the driver's next step.
    pub(super) fn start_device_flush(&mut self, id: WriteId) {
        let command = self.begin_command_of(id, true);
        let covers = self.cache.end_flush_interval();
        let write = self.writes.get_mut(id).expect("a flush");
        write.command = Some(command);
        write.covers = covers;
    }

    /// A zero or a discard is the driver's next step.
    pub(super) fn start_act_beside_cache(&mut self, id: WriteId) {
        let command = self.begin_command_of(id, false);
        self.writes.get_mut(id).expect("a zero").command = Some(command);
    }

    fn begin_command_of(&mut self, id: WriteId, is_durable: bool) -> (Id<Domain>, CommandSeq) {
        let file = self.writes.get(id).expect("it is not over").file;
        let device = self.files.get(file).expect("a file outlives its writes").device;
        self.begin_command(device, is_durable)
    }

    /// The driver has flushed the device, or tried to.
    pub(super) fn end_device_flush(
        &mut self,
        now: Instant,
        id: WriteId,
        result: Result<(), Fault>,
    ) {
        let write = self.writes.get(id).expect("a flush");
        let (covers, command) = (write.covers, write.command);
        let (domain, seq) = command.expect("a flush that acts has begun");
        let commands = self.domains.get_mut(domain).expect("it has commands in flight");
        match result {
            Ok(()) => {
                let end = DurableEnd::Flush(id, covers);
                if let Err((fault, _)) = commands.succeed(seq, end) {
                    self.end_flush_with(id, Some(fault));
                }
            }
            Err(fault) => {
                self.flush_failed(now, domain, seq, fault);
                self.end_flush_with(id, Some(fault));
            }
        }
        self.settle(now, domain);
    }

    /// The driver did not flush the device, because no caller waits for it any more.
    pub(super) fn cancel_device_flush(&mut self, now: Instant, id: WriteId) {
        let command = self.writes.get(id).expect("a flush").command;
        let (domain, seq) = command.expect("a flush that acts has begun");
        self.domains.get_mut(domain).expect("it has commands in flight").cancel(seq);
        self.settle(now, domain);
    }

    /// The driver has zeroed pages on the device. Whether a flush failed meanwhile: then it may be
    /// that the device has dropped those zeros, and the act has failed.
    pub(super) fn zeroed_fault(&self, id: WriteId) -> Option<Fault> {
        let (domain, seq) = self.writes.get(id).expect("a zero").command?;
        self.domains.get(domain)?.suspect(seq)
    }

    /// Acknowledges what may be acknowledged.
    fn settle(&mut self, now: Instant, domain: Id<Domain>) {
        while let Some(end) = self.domains.get_mut(domain).and_then(Domain::pop_settled) {
            match end {
                DurableEnd::Fua(device, mut job) => {
                    self.end_writes(now, device, &mut job, Outcome::Durable);
                }
                DurableEnd::Flush(id, covers) => {
                    let file = self.writes.get(id).expect("it settles").file;
                    let file = self.files.get_mut(file).expect("a file outlives its writes");
                    if let Some(books) = &mut file.debts {
                        books.durable = books.durable.max(covers);
                    }
                    self.end_flush_with(id, None);
                }
            }
        }
        self.end_domain_if_over(domain);
    }

    /// Ends a flush; if the file has lost writes, with that. A loss that was accepted since the
    /// flush began is one of those.
    fn end_flush_with(&mut self, id: WriteId, fault: Option<Fault>) {
        let &Write { file, accepts, .. } = self.writes.get(id).expect("a flush");
        let books = self.files.get(file).and_then(|it| it.debts.as_ref());
        let lost = books.and_then(|it| it.lost.or(it.accepted.filter(|_| it.accepts != accepts)));
        self.end_write(id, Bytes::ZERO, lost.or(fault));
    }

    /// A flush failed: all that is unstable in its domain may be gone from the device.
    fn flush_failed(&mut self, now: Instant, domain: Id<Domain>, seq: CommandSeq, fault: Fault) {
        self.stats.flush_failures += 1;
        let commands = self.domains.get_mut(domain).expect("one of its commands has failed");
        let spoiled = commands.fail(seq, fault);
        let failed = self.cache.end_flush_interval();
        self.rewrite(now, domain, failed);
        for end in spoiled {
            match end {
                DurableEnd::Fua(device, mut job) => {
                    self.end_writes(now, device, &mut job, Outcome::Suspect);
                }
                DurableEnd::Flush(id, _) => self.end_flush_with(id, Some(fault)),
            }
        }
    }

    /// Goes on with [`Self::rewrite`] where half of the room is free again.
    pub(in crate::path) fn continue_rewrites(&mut self, now: Instant) {
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
    fn rewrite(&mut self, now: Instant, domain: Id<Domain>, failed: FlushInterval) {
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

    fn make_dirty_again(&mut self, now: Instant, file: FileId, page: PageIndex, frame: Frame) {
        self.stats.pages_rewritten += 1;
        self.cache.clear_unstable(frame);
        self.cache.hold(frame);
        let mut debt = Debt::new(file, page, frame, Submitter::default(), now);
        debt.is_urgent = true;
        let books = self.files.get_mut(file).expect("it is open").debts.as_mut();
        let books = books.expect("only what was written is unstable");
        let id = self.debts.add_again(books, debt, &self.writes);
        self.place_again(file, id);
    }

    /// A page that is dirty again is written at once, but for one that a zero has.
    fn place_again(&mut self, file: FileId, id: DebtId) {
        let page = self.page_owed(id);
        let Self { files, writes, debts, .. } = self;
        let books = files.get_mut(file).expect("it is open").debts.as_mut().expect("it owes");
        let is_zeroed = books.locks.iter().any(|&lock| {
            let write = writes.get(lock).expect("it has a lock");
            let has_begun = matches!(write.state, State::Device | State::Acting);
            write.kind == Kind::Zero && has_begun && write.pages.contains(&page)
        });
        debts.get_mut(id).is_locked = is_zeroed;
        debts.put(books, id, if is_zeroed { On::Held } else { On::Urgent });
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
        mut f: impl FnMut(FileId, &mut FileDebts, &PageCache),
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
