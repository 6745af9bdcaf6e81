//! The ring over io_uring. Only the holder of the [`Uring`] pushes and reaps; the sleeper touches
//! neither queue, and only enters the kernel.
//!
//! Concurrent operations, and why none loses an entry:
//!
//! ```text
//!   a push while another thread sleeps      the pusher submits it itself, or is the next to sleep
//!   two threads submit the same entries     the kernel takes each once, under its own lock; the
//!                                           second took fewer than it said, and the kernel
//!                                           returns without waiting: the sleeper looks again
//!   a wake before the sleep begins          its completion lies in the queue, and the kernel
//!                                           does not wait while the queue is not empty
//!   two wakes                               one entry: the first still lies there
//! ```
//!
//! Durable writes go to threads (`durable.rs`), if the system grants them.
//!
//! A kernel worker thread performs a transfer that would block. It counts against the process's
//! limit of threads. A kernel without a free worker refuses the transfer although the device is
//! fine; the reaping thread then performs the plain system call.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use io_uring::types::{self, Fd};
use io_uring::{IoUring, opcode, squeue};

use super::durable::DurableWriters;
use super::probe::probe;
use super::transfer::{Asks, Transfer, TransferOp, is_refused};
use super::uring_shared::{UringShared, is_refusal};
use super::{Completion, ENTRIES, RETRIES};
use crate::pool::Pool;

pub(super) struct Uring {
    shared: Arc<UringShared>,
    in_flight: HashMap<u64, Transfer>,
    /// Created with the first durable write.
    durable: Option<DurableWriters>,
    /// Whether a wake is queued, in flight, or completed but not yet reaped.
    is_waking: bool,
    /// Whether transfers were queued again since the last submit.
    has_queued_again: bool,
    /// The memory of transfers in flight. Declared last, so that the ring releases it last.
    pool: Arc<Pool>,
    /// The process that created the ring: a forked child must not touch the memory shared with its
    /// parent.
    process: u32,
}

impl Uring {
    /// Creates a ring that has passed the probe.
    ///
    /// It sets no flags: any thread may submit and any may reap, one at a time, which rules out
    /// SINGLE_ISSUER and DEFER_TASKRUN, because they tie a ring to one thread. SQPOLL would occupy
    /// a core. COOP_TASKRUN delays a completion until the submitting thread next enters the kernel,
    /// while another waits for the page, and gains nothing: with or without it a read at depth 1
    /// runs at 97 to 98 % of the speed of `pread` (virtio disk, 4 KiB, 24,000 reads each, medians),
    /// and `preadv` at 99 to 100 %.
    pub(super) fn new(pool: &Arc<Pool>) -> io::Result<Self> {
        let uring = IoUring::new(ENTRIES)?;
        if !uring.params().is_feature_ext_arg() {
            return Err(io::Error::other("its io_uring has no waits with a time limit"));
        }
        probe(&uring)?;
        Ok(Self {
            shared: Arc::new(UringShared::new(uring)),
            in_flight: HashMap::new(),
            durable: None,
            is_waking: false,
            has_queued_again: false,
            pool: Arc::clone(pool),
            process: std::process::id(),
        })
    }

    pub(super) fn shared(&self) -> Arc<UringShared> {
        Arc::clone(&self.shared)
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len() + self.durable.as_ref().map_or(0, DurableWriters::in_flight)
    }

    pub(super) fn start(&mut self, tag: u64, transfer: Transfer) {
        assert!(tag != WAKE && tag != DOORBELL, "a tag of the ring's own");
        let Some(transfer) = self.start_durable(tag, transfer) else { return };
        self.queue(tag, &transfer);
        let before = self.in_flight.insert(tag, transfer);
        assert!(before.is_none(), "a tag is in flight once");
    }

    pub(super) fn submit(&mut self) -> io::Result<()> {
        self.has_queued_again = false;
        if self.shared.is_all_taken() {
            // Nothing to submit: skip the system call. A released read usually starts no other.
            return Ok(());
        }
        loop {
            match self.shared.uring.submit() {
                Ok(taken) => {
                    self.shared.note_taken(taken);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) fn completion(&mut self) -> Option<Completion> {
        while let Some((tag, result)) = self.reap() {
            if tag == WAKE {
                self.is_waking = false;
                continue;
            }
            if tag == DOORBELL {
                self.durable.as_mut().expect("only it is polled").polled();
                continue;
            }
            let mut transfer = self
                .in_flight
                .remove(&tag)
                .expect("a completion carries the tag of a transfer in flight");
            let result = u32::try_from(result).map_err(|_| -result);
            if transfer.gate().is_some() {
                // The gate has opened, or the wait for it was cancelled and starts again.
                if result.is_ok() {
                    transfer.open_gate();
                }
                self.start_again(tag, transfer);
                continue;
            }
            // This runs under the engine's mutex, as on a system that refuses threads: slow, but
            // correct.
            let ended =
                if is_refused(result) { Some(transfer.run()) } else { transfer.after(result) };
            if let Some(result) = ended {
                return Some(Completion { tag, result });
            }
            self.start_again(tag, transfer);
        }
        if let Some(completion) = self.durable.as_mut().and_then(DurableWriters::completion) {
            return Some(completion);
        }
        self.has_queued_again |= self.poll_doorbell();
        if self.has_queued_again {
            // The reaper may be about to leave, and waiters may be asleep: neither would submit
            // these.
            let _ = self.submit();
        }
        None
    }

    pub(super) fn wake(&mut self) {
        if !self.is_waking {
            self.push(&opcode::Nop::new().build().user_data(WAKE));
            self.is_waking = true;
        }
        // A kernel without memory for one entry has some soon, so that a wake is worth a few
        // attempts. If all fail, the next submit carries the wake.
        for _ in 0..RETRIES {
            match self.submit() {
                Err(error) if is_refusal(&error) => std::thread::yield_now(),
                Ok(()) | Err(_) => return,
            }
        }
    }

    /// Passes a durable write to a thread. Returns it if the system refuses a descriptor or a
    /// thread, and returns all other transfers.
    fn start_durable(&mut self, tag: u64, transfer: Transfer) -> Option<Transfer> {
        if transfer.way != (TransferOp::Write { is_durable: true }) {
            return Some(transfer);
        }
        if self.durable.is_none() {
            self.durable = DurableWriters::new(&self.pool).ok();
        }
        let Some(durable) = &mut self.durable else { return Some(transfer) };
        let refused = durable.start(tag, transfer);
        self.poll_doorbell();
        refused
    }

    /// Queues a poll of the doorbell, if one is needed.
    fn poll_doorbell(&mut self) -> bool {
        let Some(fd) = self.durable.as_mut().and_then(DurableWriters::next_poll) else {
            return false;
        };
        self.push(&opcode::PollAdd::new(Fd(fd), POLLIN).build().user_data(DOORBELL));
        true
    }

    fn reap(&mut self) -> Option<(u64, i32)> {
        // SAFETY: no other completion queue exists: they are created here only, each ends with its
        // block, and `&mut self` admits one thread at a time. The sleeper creates none.
        let entry = unsafe { self.shared.uring.completion_shared() }.next()?;
        Some((entry.user_data(), entry.result()))
    }

    fn start_again(&mut self, tag: u64, transfer: Transfer) {
        self.queue(tag, &transfer);
        self.in_flight.insert(tag, transfer);
        self.has_queued_again = true;
    }

    fn queue(&mut self, tag: u64, transfer: &Transfer) {
        if let Some(gate) = transfer.gate() {
            let end = opcode::PollAdd::new(Fd(gate), POLLHUP);
            self.push(&end.build().user_data(tag));
            return;
        }
        let Some(asks) = transfer.asks() else {
            // A write that a test fails must not reach the device.
            self.push(&opcode::Nop::new().build().user_data(tag));
            return;
        };
        let entry = match asks {
            Asks::Flush { fd } => {
                opcode::Fsync::new(Fd(fd)).flags(types::FsyncFlags::DATASYNC).build()
            }
            Asks::Move { fd, vectors, offset, flags } => {
                let (fd, pointer, count) = (Fd(fd), vectors.as_ptr(), vectors.count());
                match transfer.way {
                    TransferOp::Read => {
                        opcode::Readv::new(fd, pointer, count).offset(offset).build()
                    }
                    TransferOp::Write { .. } => opcode::Writev::new(fd, pointer, count)
                        .offset(offset)
                        .rw_flags(flags)
                        .build(),
                }
            }
        };
        let entry = match transfer.backend.blocks_submitter {
            true => entry.flags(squeue::Flags::ASYNC),
            false => entry,
        };
        // All that the entry refers to stays valid until its completion: `in_flight` owns
        // descriptor and vectors, the addresses belong to the pool, which the ring keeps alive, and
        // the core reuses no frame in flight.
        self.push(&entry.user_data(tag));
    }

    /// Queues an entry. The caller guarantees that its buffers and descriptors live until the
    /// completion.
    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: no other submission queue exists: they are created here only, each ends with its
        // statement, and `&mut self` admits one thread at a time. The sleeper creates none; it and
        // the kernel read only atomics of this one.
        let mut queue = unsafe { self.shared.uring.submission_shared() };
        // SAFETY: the callers guarantee it: a NOP and a poll refer to no memory, and a transfer's
        // memory is kept.
        let pushed = unsafe { queue.push(entry) };
        pushed.expect("the submission queue holds all that is in flight, a wake and a poll");
        drop(queue);
        // Increment after the queue's tail: a thread that enters with this count makes the kernel
        // see the entry.
        self.shared.pushed.fetch_add(1, Ordering::Release);
    }
}

impl Drop for Uring {
    /// Waits for transfers in flight: the kernel must not touch memory that has a new owner.
    fn drop(&mut self) {
        if std::process::id() != self.process {
            return;
        }
        for faults in self.in_flight.values().filter_map(|it| it.backend.faults.as_ref()) {
            faults.let_go();
        }
        while !self.in_flight.is_empty() {
            if self.shared.wait(None).is_err() {
                // The kernel refuses to wait: leak the memory rather than let it be overwritten.
                std::mem::forget(Arc::clone(&self.pool));
                std::mem::forget(std::mem::take(&mut self.in_flight));
                return;
            }
            while self.completion().is_some() {}
        }
    }
}

impl fmt::Debug for Uring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Uring").field("in_flight", &self.in_flight.len()).finish_non_exhaustive()
    }
}

/// The event of a pipe whose other end was closed.
const POLLHUP: u32 = libc::POLLHUP.cast_unsigned() as u32;

/// The event of an eventfd that was signalled.
const POLLIN: u32 = libc::POLLIN.cast_unsigned() as u32;

/// The tag of a wake's entry. No transfer's tag has so many ones.
const WAKE: u64 = u64::MAX;

/// The tag of the doorbell's poll.
const DOORBELL: u64 = u64::MAX - 1;
