//! Durability: what a device error means for writes that were acknowledged.
//!
//! In:    the ends of writes, FUA writes and device flushes; zeroes done by the driver.
//! Out:   acknowledgements that hold; failed flushes, for `rewrite.rs`; files whose flushes fail
//!        until their owner [accepts the loss](IoPath::accept_lost).
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

pub(in crate::path) use super::flush_domain::{CommandSeq, FlushDomain};
use super::flusher::WriteOutcome;
use super::refused::{EDQUOT, EFBIG, ENOSPC};
use super::{WriteCommand, WriteId};
use crate::cache::FlushInterval;
use crate::path::job::IoPayload;
use crate::path::{DeviceId, Fault, FileId, IoPath};
use crate::replay::PathCall;
use crate::slab::Id;
use crate::units::{ByteCount, Nanos};

/// What to do when the success of a durable command may be acknowledged.
#[derive(Debug)]
pub(in crate::path) enum DurableEnd {
    /// A FUA request is written.
    Fua(DeviceId, IoPayload),
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
        self.log().did(|| PathCall::AcceptLost { file });
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
            let same = |other: &crate::path::DeviceQueue| other.disk == Some(disk);
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
    ///   request    result             what it means
    ///   plain      good               its pages are unstable; or, if a flush failed meanwhile,
    ///                                 they are written again
    ///   plain      short, an error    pages that are not covered: as `refused.rs` says
    ///   FUA        good               settles
    ///   FUA        nothing, no space  the write was refused before there was anything to flush
    ///   FUA        short, an error    a flush has failed: FUA is a write and a flush, and which
    ///                                 of them failed the device does not say
    /// ```
    pub(in crate::path) fn end_write_request(
        &mut self,
        now: Nanos,
        device: DeviceId,
        command: (Id<Domain>, CommandSeq),
        mut job: IoPayload,
        result: Result<ByteCount, i32>,
    ) {
        let (domain, seq) = command;
        let bytes = result.unwrap_or(ByteCount::ZERO);
        let fault = result.err().map_or(Fault::Short, Fault::Io);
        let was_flushed = self.was_flushed(device, result);
        let commands = self.domains.get_mut(domain).expect("it has commands in flight");
        if job.is_fua && bytes < job.write_len() {
            if was_flushed {
                self.flush_failed(now, domain, seq, fault);
            } else {
                commands.cancel(seq);
            }
            self.end_writes(now, device, &mut job, WriteOutcome::Unstable(ByteCount::ZERO, fault));
        } else if job.is_fua {
            if let Err((fault, DurableEnd::Fua(device, mut job))) =
                commands.succeed(seq, DurableEnd::Fua(device, job))
            {
                self.end_writes(now, device, &mut job, WriteOutcome::Suspect(fault));
            }
        } else if let Some(fault) = commands.suspect(seq) {
            self.end_writes(now, device, &mut job, WriteOutcome::Suspect(fault));
        } else {
            self.end_writes(now, device, &mut job, WriteOutcome::Unstable(bytes, fault));
        }
        self.settle(now, domain);
    }

    /// Whether a FUA write that failed so may have got as far as its flush. A write without room is
    /// refused by the file system; only below the kernel's page cache may that be the report of an
    /// earlier write.
    fn was_flushed(&self, device: DeviceId, result: Result<ByteCount, i32>) -> bool {
        let is_direct = self.devices.get(device).is_some_and(|it| it.geometry.write_block.0 > 1);
        match result {
            Ok(ByteCount::ZERO) => false,
            Err(ENOSPC | EDQUOT | EFBIG) => !is_direct,
            Ok(_) | Err(_) => true,
        }
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
    pub(super) fn end_device_flush(&mut self, now: Nanos, id: WriteId, result: Result<(), Fault>) {
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
    pub(super) fn cancel_device_flush(&mut self, now: Nanos, id: WriteId) {
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
    fn settle(&mut self, now: Nanos, domain: Id<Domain>) {
        while let Some(end) = self.domains.get_mut(domain).and_then(Domain::pop_settled) {
            match end {
                DurableEnd::Fua(device, mut job) => {
                    self.end_writes(now, device, &mut job, WriteOutcome::Durable);
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
    pub(super) fn end_flush_with(&mut self, id: WriteId, fault: Option<Fault>) {
        let &WriteCommand { file, accepts, .. } = self.writes.get(id).expect("a flush");
        let books = self.files.get(file).and_then(|it| it.debts.as_ref());
        let lost = books.and_then(|it| it.lost.or(it.accepted.filter(|_| it.accepts != accepts)));
        self.end_write(id, ByteCount::ZERO, lost.or(fault));
    }
}
