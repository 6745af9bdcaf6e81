//! Durable writes of an io_uring: threads make them with `pwritev2`, and an eventfd that the ring
//! polls wakes the sleeper.
//!
//! ```text
//!   start() --> thread: pwritev2(RWF_DSYNC) --> done --------------> completion()
//!                                                '--> eventfd --> poll in the ring --> sleeper
//! ```
//!
//! Linux ends an asynchronous direct write with `RWF_DSYNC` in a kernel worker, which waits up to
//! a tick while all processors are busy, and ignores the flag of such a write on FUSE
//! (docs/guide/durability.md). A system call has neither problem.

use std::io;
use std::os::fd::{AsRawFd as _, RawFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

use super::Completion;
use super::threads::{Threads, WorkerShared};
use super::transfer::Transfer;
use crate::pool::Pool;

/// Threads for durable writes, and the state of their doorbell.
#[derive(Debug)]
pub(super) struct DurableWriters {
    threads: Threads,
    shared: Arc<WorkerShared>,
    /// Whether a poll of the doorbell is queued, in the ring, or completed but not yet reaped.
    is_polled: bool,
}

impl DurableWriters {
    /// Creates them without a thread. The system may refuse the descriptor.
    pub(super) fn new(pool: &Arc<Pool>) -> io::Result<Self> {
        let doorbell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let threads = Threads::with_doorbell(pool, "for durable writes".into(), doorbell);
        let shared = threads.shared();
        Ok(Self { threads, shared, is_polled: false })
    }

    /// Starts a durable write, or returns it if the system refuses a thread.
    pub(super) fn start(&mut self, tag: u64, transfer: Transfer) -> Option<Transfer> {
        self.threads.try_start(tag, transfer)
    }

    pub(super) fn in_flight(&self) -> usize {
        self.threads.in_flight()
    }

    pub(super) fn completion(&mut self) -> Option<Completion> {
        self.threads.completion()
    }

    /// Returns the descriptor to poll, if writes are in flight and no poll of it is.
    pub(super) fn next_poll(&mut self) -> Option<RawFd> {
        if self.is_polled || self.in_flight() == 0 {
            return None;
        }
        self.is_polled = true;
        self.shared.doorbell().map(|doorbell| doorbell.as_raw_fd())
    }

    /// Notes the end of a poll, whose reason may be that its thread has ended.
    pub(super) fn polled(&mut self) {
        self.is_polled = false;
        if let Some(doorbell) = self.shared.doorbell() {
            // Empties it. Nothing is lost: completions are taken afterwards.
            let _ = rustix::io::read(doorbell, &mut [0_u8; 8]);
        }
    }
}
