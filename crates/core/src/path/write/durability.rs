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
//!     |    any flush of the      |  its page is in memory, and there is room: dirty again
//!     '--- domain fails ---------+
//!                                '-- it is not: the file has lost writes; each flush says so
//! ```
//!
//! Invariants, and how they are tested: docs/durability.md.

use super::debts::{Debt, DebtId, On};
pub(in crate::path) use super::flush_domain::{CommandSeq, FlushDomain};
use super::flusher::Outcome;
use super::{Kind, State, WriteId};
use crate::cache::FlushInterval;
use crate::path::job::Job;
use crate::path::{DeviceId, Fault, FileId, IoPath};
use crate::replay::Input;
use crate::sched::Submitter;
use crate::slab::Id;
use crate::table::FileSlot;
use crate::units::{Bytes, Instant};

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
    /// [`Fault::Lost`]: later flushes speak only of what is written from then on. Of a file that
    /// has lost nothing: nothing.
    pub fn accept_lost(&mut self, file: FileId) {
        self.log().did(|| Input::AcceptLost { file });
        if let Some(books) = self.files.get_mut(file).and_then(|file| file.debts.as_mut()) {
            books.lost = None;
            self.cache.forget_unstable_left(Self::slot(file));
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

    /// Ends a flush; if the file has lost writes, with that.
    fn end_flush_with(&mut self, id: WriteId, fault: Option<Fault>) {
        let file = self.writes.get(id).expect("a flush").file;
        let fault = self.lost(file).or(fault);
        self.end_write(id, Bytes::ZERO, fault);
    }

    /// A flush failed: all that is unstable in its domain may be gone from the device.
    fn flush_failed(&mut self, now: Instant, domain: Id<Domain>, seq: CommandSeq, fault: Fault) {
        self.stats.flush_failures += 1;
        let commands = self.domains.get_mut(domain).expect("one of its commands has failed");
        let spoiled = commands.fail(seq, fault);
        self.write_unstable_again(now, domain);
        self.note_lost(domain, fault);
        for end in spoiled {
            match end {
                DurableEnd::Fua(device, mut job) => {
                    self.end_writes(now, device, &mut job, Outcome::Suspect);
                }
                DurableEnd::Flush(id, _) => self.end_flush_with(id, Some(fault)),
            }
        }
    }

    /// Makes the unstable pages of a domain dirty, as far as there is room.
    fn write_unstable_again(&mut self, now: Instant, domain: Id<Domain>) {
        for unstable in self.cache.unstable_pages() {
            let Some(file) = self.file_at(unstable.file, domain) else { continue };
            let books = self.files.get_mut(file).expect("just found").debts.as_mut();
            let books = books.expect("only what was written is unstable");
            if unstable.written <= books.durable {
                continue;
            }
            if !self.room.take_one() {
                self.cache.note_unstable_left(unstable.file, unstable.written);
                continue;
            }
            self.stats.pages_rewritten += 1;
            self.cache.clear_unstable(unstable.frame);
            self.cache.hold(unstable.frame);
            let submitter = Submitter::default();
            let mut debt = Debt::new(file, unstable.page, unstable.frame, submitter, now);
            debt.is_urgent = true;
            let id = self.debts.add_again(books, debt, &self.writes);
            self.place_again(file, id);
        }
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
    fn note_lost(&mut self, domain: Id<Domain>, fault: Fault) {
        let Self { files, devices, cache, .. } = self;
        let errno = match fault {
            Fault::Io(errno) | Fault::Lost(errno) => errno,
            Fault::Short => EIO,
        };
        files.for_each_mut(|id, file| {
            let is_here = devices.get(file.device).is_some_and(|it| it.domain == Some(domain));
            let Some(books) = file.debts.as_mut().filter(|_| is_here) else { return };
            let left = cache.unstable_left(Self::slot(id));
            if left.is_some_and(|left| left > books.durable) {
                books.lost = Some(Fault::Lost(errno));
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
