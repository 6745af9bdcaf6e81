//! Durability: the effect of device errors on acknowledged writes. No success is reported that
//! relies on a failed flush, even one hidden in a FUA write. A file that has lost writes fails its
//! flushes until its owner [accepts the loss](crate::path::IoPath::accept_lost).
//!
//! ```text
//!              device write ends        flush that began later ends well
//!   dirty ------------------> unstable ---------------------------------> durable
//!     ^                          |
//!     |    any flush of the      |  its page is in memory: dirty again
//!     '--- domain fails ---------+
//!                                '-- evicted: the file has lost writes, and each flush reports it
//! ```
//!
//! Invariants, and how they are tested: docs/guide/durability.md.

use super::command::{WriteCommand, WriteKind};
use super::refusals::{EDQUOT, EFBIG, ENOSPC};
use super::write_ends::WriteOutcome;
use super::{Domain, Writeback};
use crate::cache::FlushInterval;
use crate::device_queue::payload::IoPayload;
use crate::device_queue::{DeviceQueue, DeviceQueues};
use crate::driver_io::Fault;
use crate::ids::{DeviceId, DomainCommand, DomainId, FileId, WriteId};
use crate::read_path::ReadPath;
use crate::units::{ByteCount, Nanos};

/// Continuation of a durable command once its success may be acknowledged.
#[derive(Debug)]
pub(crate) enum DurableEnd {
    /// Completes a FUA request.
    Fua(DeviceId, IoPayload),
    /// Completes a flush, which covers the writes of these intervals.
    Flush(WriteId, FlushInterval),
}

impl Writeback {
    /// Accepts the loss of acknowledged writes after a flush has reported [`Fault::Lost`]; later
    /// flushes no longer report it. Does nothing if the file has lost nothing.
    pub(crate) fn accept_lost(&mut self, file: FileId) {
        if let Some(dirty_file) = self.files.get_mut(file) {
            // Unstable pages that left memory stay recorded: the next failed flush may lose them,
            // too.
            if let Some(lost) = dirty_file.lost.take() {
                dirty_file.accepted = Some(lost);
                dirty_file.accepts = dirty_file.accepts.wrapping_add(1);
            }
        }
    }

    /// Returns the fault of lost writes of the file, until the loss is accepted.
    pub(crate) fn lost(&self, file: FileId) -> Option<Fault> {
        self.files.get(file)?.lost
    }

    /// Returns the number of times that the file has lost writes, accepted or not.
    pub(crate) fn losses(&self, file: FileId) -> u64 {
        self.files.get(file).map_or(0, |dirty_file| dirty_file.losses)
    }

    /// Returns the device's domain, created at its first write; devices of one disk share a domain.
    fn domain_of(&mut self, devices: &mut DeviceQueues, device: DeviceId) -> DomainId {
        let domains = &mut self.domains;
        let state = devices.get(device).expect("a device with open files is not removed");
        if let Some(domain) = state.domain {
            return domain;
        }
        let disk = state.disk;
        let shared = disk.and_then(|disk| {
            let same = |other: &DeviceQueue| other.disk == Some(disk);
            devices.iter().filter(|(_, it)| same(it)).find_map(|(_, it)| it.domain)
        });
        let domain = shared.unwrap_or_else(|| domains.insert(Domain::new()));
        devices.get_mut(device).expect("a device with open files is not removed").domain =
            Some(domain);
        domains.get_mut(domain).expect("a domain lives as long as its devices").devices += 1;
        domain
    }

    /// Removes a device from its domain. The last device removes the domain once all its durable
    /// commands have ended. Other commands may still be in flight, but their pages were dropped
    /// with their files, so their outcome no longer matters.
    pub(crate) fn leave_domain(&mut self, domain: Option<DomainId>) {
        if let Some(domain) = domain {
            let state =
                self.domains.get_mut(domain).expect("a domain lives as long as its devices");
            state.devices = state.devices.checked_sub(1).expect("a domain counts its devices");
            self.end_domain_if_over(domain);
        }
    }

    fn end_domain_if_over(&mut self, domain: DomainId) {
        if self.domains.get(domain).is_some_and(|it| it.devices == 0 && it.is_idle()) {
            self.domains.remove(domain);
        }
    }

    /// Returns the domain of a durable command in flight.
    fn domain_of_durable(&mut self, domain: DomainId) -> &mut Domain {
        self.domains.get_mut(domain).expect("a durable command in flight keeps its domain")
    }

    /// Begins a command of a device.
    pub(crate) fn begin_command(
        &mut self,
        devices: &mut DeviceQueues,
        device: DeviceId,
        is_durable: bool,
    ) -> DomainCommand {
        let domain = self.domain_of(devices, device);
        let seq = self
            .domains
            .get_mut(domain)
            .expect("a domain lives as long as its devices")
            .begin(is_durable);
        DomainCommand { domain, seq }
    }

    /// Ends a write request.
    ///
    /// ```text
    ///   request    result             consequence
    ///   plain      good               its pages are unstable; or, if a flush failed meanwhile,
    ///                                 they are written again
    ///   plain      short, an error    pages that are not covered: see `refused.rs`
    ///   FUA        good               settles
    ///   FUA        nothing, no space  the write was refused before it could be flushed
    ///   FUA        short, an error    counts as a failed flush: FUA combines a write and a flush,
    ///                                 and the device does not report which of them failed
    /// ```
    pub(crate) fn end_write_request(
        &mut self,
        path: &mut ReadPath,
        now: Nanos,
        device: DeviceId,
        command: DomainCommand,
        mut load: IoPayload,
        result: Result<ByteCount, i32>,
    ) {
        let DomainCommand { domain, seq } = command;
        let bytes = result.unwrap_or(ByteCount::ZERO);
        let fault = result.err().map_or(Fault::Short, Fault::Io);
        assert!(!load.writes.is_empty(), "a command that writes has pages");
        let was_flushed = self.was_flushed(path, device, result);
        if load.is_fua && bytes < load.write_len() {
            if was_flushed {
                self.flush_failed(path, now, domain, seq, fault);
            } else {
                self.domain_of_durable(domain).cancel(seq);
            }
            self.end_writes(
                path,
                now,
                device,
                &mut load,
                WriteOutcome::Unstable(ByteCount::ZERO, fault),
            );
        } else if load.is_fua {
            if let Err((fault, DurableEnd::Fua(device, mut load))) =
                self.domain_of_durable(domain).succeed(seq, DurableEnd::Fua(device, load))
            {
                self.end_writes(path, now, device, &mut load, WriteOutcome::Suspect(fault));
            }
        } else if let Some(fault) = self.domains.get(domain).and_then(|it| it.suspect(seq)) {
            self.end_writes(path, now, device, &mut load, WriteOutcome::Suspect(fault));
        } else {
            self.end_writes(path, now, device, &mut load, WriteOutcome::Unstable(bytes, fault));
        }
        self.settle(path, now, domain);
    }

    /// Returns true if a FUA write with this result may have reached its flush. If there is no
    /// space, the file system refuses the write first; only with the kernel's page cache in between
    /// may the error belong to an earlier write.
    fn was_flushed(
        &self,
        path: &ReadPath,
        device: DeviceId,
        result: Result<ByteCount, i32>,
    ) -> bool {
        let is_direct = path.devices.get(device).is_some_and(|it| it.geometry.write_block.0 > 1);
        match result {
            Ok(ByteCount::ZERO) => false,
            Err(ENOSPC | EDQUOT | EFBIG) => !is_direct,
            Ok(_) | Err(_) => true,
        }
    }

    /// Starts a flush's own step, the device flush, once all writes are on the device.
    pub(super) fn start_device_flush(&mut self, path: &mut ReadPath, id: WriteId) {
        let command = self.begin_command_of(path, id, true);
        let covers = path.page_in.cache.end_flush_interval();
        let write = self.writes.get_mut(id).expect("a flush that begins to act is not over");
        assert!(write.kind == WriteKind::Flush, "{id:?} flushes no device");
        assert!(write.command.is_none(), "{id:?} acts once");
        write.command = Some(command);
        write.covers = covers;
    }

    /// Starts the act of a zero or a discard, or a change of length, by the driver.
    pub(super) fn start_act_beside_cache(&mut self, path: &mut ReadPath, id: WriteId) {
        let command = self.begin_command_of(path, id, false);
        let write = self.writes.get_mut(id).expect("a zero that begins to act is not over");
        let changes = matches!(write.kind, WriteKind::Zeroes | WriteKind::SetLen);
        assert!(changes, "{id:?} changes nothing on the device");
        assert!(write.command.is_none(), "{id:?} acts once");
        write.command = Some(command);
    }

    fn begin_command_of(
        &mut self,
        path: &mut ReadPath,
        id: WriteId,
        is_durable: bool,
    ) -> DomainCommand {
        let file = self.writes.get(id).expect("a write that begins to act is not over").file;
        let device = path.files.used(file).device;
        self.begin_command(&mut path.devices, device, is_durable)
    }

    /// Ends a device flush by the driver.
    pub(super) fn end_device_flush(
        &mut self,
        path: &mut ReadPath,
        now: Nanos,
        id: WriteId,
        result: Result<(), Fault>,
    ) {
        let write = self.writes.get(id).expect("a flush that acts is not over");
        let (covers, command) = (write.covers, write.command);
        let DomainCommand { domain, seq } = command.expect("a flush that acts has begun");
        match result {
            Ok(()) => {
                let end = DurableEnd::Flush(id, covers);
                if let Err((fault, _)) = self.domain_of_durable(domain).succeed(seq, end) {
                    self.end_flush_with(path, id, Some(fault));
                }
            }
            Err(fault) => {
                self.flush_failed(path, now, domain, seq, fault);
                self.end_flush_with(path, id, Some(fault));
            }
        }
        self.settle(path, now, domain);
    }

    /// Returns true if this is a flush whose device flush has succeeded, so that it is settling.
    pub(super) fn has_flushed_device(&self, write: &WriteCommand) -> bool {
        let Some(DomainCommand { domain, seq }) = write.command else { return false };
        write.kind == WriteKind::Flush
            && !self.domains.get(domain).is_some_and(|it| it.is_in_flight(seq))
    }

    /// Cancels a device flush that the driver did not send because no caller waits any more.
    pub(super) fn cancel_device_flush(&mut self, path: &mut ReadPath, now: Nanos, id: WriteId) {
        let command = self.writes.get(id).expect("a flush that acts is not over").command;
        let DomainCommand { domain, seq } = command.expect("a flush that acts has begun");
        self.domain_of_durable(domain).cancel(seq);
        self.settle(path, now, domain);
    }

    /// Returns the fault if a flush failed during an act of the driver past the cache. The device
    /// may then have lost its effect, so the act counts as failed.
    pub(super) fn zeroed_fault(&self, id: WriteId) -> Option<Fault> {
        let DomainCommand { domain, seq } =
            self.writes.get(id).expect("a zero that acts is not over").command?;
        self.domains.get(domain)?.suspect(seq)
    }

    /// Acknowledges the durable commands that have settled.
    fn settle(&mut self, path: &mut ReadPath, now: Nanos, domain: DomainId) {
        while let Some(end) = self.domains.get_mut(domain).and_then(Domain::pop_settled) {
            match end {
                DurableEnd::Fua(device, mut load) => {
                    self.end_writes(path, now, device, &mut load, WriteOutcome::Durable);
                }
                DurableEnd::Flush(id, covers) => {
                    let file = self.writes.get(id).expect("a flush that settles is not over").file;
                    if let Some(dirty_file) = self.files.get_mut(file) {
                        dirty_file.durable = dirty_file.durable.max(covers);
                    }
                    self.end_flush_with(path, id, None);
                }
            }
        }
        self.end_domain_if_over(domain);
    }

    /// Ends a flush. If the file has lost writes, it fails with that fault, even if the loss was
    /// accepted after the flush began.
    pub(super) fn end_flush_with(
        &mut self,
        path: &mut ReadPath,
        id: WriteId,
        fault: Option<Fault>,
    ) {
        let &WriteCommand { file, accepts, .. } = self.writes.get(id).expect("a flush ends once");
        let dirty_file = self.files.get(file);
        let lost =
            dirty_file.and_then(|it| it.lost.or(it.accepted.filter(|_| it.accepts != accepts)));
        self.end_write(path, id, ByteCount::ZERO, lost.or(fault));
    }
}
