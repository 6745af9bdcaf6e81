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
//! A kernel worker thread performs a transfer that would block. It counts against the process's
//! limit of threads. A kernel without a free worker refuses the transfer although the device is
//! fine; the reaping thread then performs the plain system call.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use io_uring::types::{self, Fd, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, opcode, squeue};

use super::probe::probe;
use super::transfer::{Asks, Transfer, TransferOp, is_refused};
use super::{Completion, ENTRIES, RETRIES};
use crate::pool::Pool;

pub(super) struct Uring {
    shared: Arc<UringShared>,
    in_flight: HashMap<u64, Transfer>,
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

/// The part of the ring that the sleeper uses.
pub(super) struct UringShared {
    uring: IoUring,
    /// Number of entries ever pushed, and number of these that a call has seen the kernel take.
    /// Both wrap. Their difference is the number of queued entries or, for a moment, more.
    pushed: AtomicU32,
    taken: AtomicU32,
    /// Number of consecutive refusals for lack of memory without a completion in between.
    refusals: AtomicU32,
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
            return Err(io::Error::other("its io_uring cannot wait for a time"));
        }
        probe(&uring)?;
        let (pushed, taken, refusals) = Default::default();
        Ok(Self {
            shared: Arc::new(UringShared { uring, pushed, taken, refusals }),
            in_flight: HashMap::new(),
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
        self.in_flight.len()
    }

    pub(super) fn start(&mut self, tag: u64, transfer: Transfer) {
        assert!(tag != WAKE, "a tag that is a wake's");
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
        // All that the entry refers to stays valid until its completion: `in_flight` owns
        // descriptor and vectors, the addresses belong to the pool, which the ring keeps alive, and
        // the core reuses no frame in flight.
        self.push(&entry.user_data(tag));
    }

    /// The caller guarantees that everything the entry refers to lives until its completion.
    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: no other submission queue exists: they are created here only, each ends with its
        // statement, and `&mut self` admits one thread at a time. The sleeper creates none; it and
        // the kernel read only atomics of this one.
        let mut queue = unsafe { self.shared.uring.submission_shared() };
        // SAFETY: both callers guarantee it: a NOP refers to nothing, and a transfer's memory is
        // kept.
        let pushed = unsafe { queue.push(entry) };
        pushed.expect("the submission queue holds all that is in flight and a wake");
        drop(queue);
        // Increment after the queue's tail: a thread that enters with this count makes the kernel
        // see the entry.
        self.shared.pushed.fetch_add(1, Ordering::Release);
    }
}

impl UringShared {
    pub(super) fn wait(&self, at_most: Option<Duration>) -> io::Result<()> {
        loop {
            // This may exceed the number of queued entries, because another thread may be between
            // entering and counting; it is never less than this thread's own pushes.
            let taken = self.taken.load(Ordering::Acquire);
            let queued = self.pushed.load(Ordering::Acquire).wrapping_sub(taken);
            match self.enter(queued, at_most) {
                // The kernel took all entries and waited: a completion, the time-out or a signal
                // ended it.
                Ok(now_taken) if now_taken == queued => {
                    self.note_taken(now_taken as usize);
                    return Ok(());
                }
                // The queue was empty: other threads took everything. A thread that pushes from
                // here on also submits, so that this one only needs to sleep.
                Ok(0) => return self.enter(0, at_most).map(drop).or_else(ended_early),
                // The kernel stopped at an invalid entry or for lack of memory, or other threads
                // took some: retry the rest.
                Ok(now_taken) => self.note_taken(now_taken as usize),
                Err(error) if is_refusal(&error) => return self.wait_refused(error, at_most),
                Err(error) => return ended_early(error),
            }
        }
    }

    /// Handles a kernel that refuses to start a transfer for lack of memory. Transfers in flight
    /// may free some: sleep as requested, but briefly, and let the caller retry.
    ///
    /// ```text
    ///   something ends meanwhile    fine, once more
    ///   nothing does                a refusal; after a hundred in a row, a second, the error
    /// ```
    fn wait_refused(&self, error: io::Error, at_most: Option<Duration>) -> io::Result<()> {
        let pause = at_most.map_or(REFUSED_PAUSE, |time| time.min(REFUSED_PAUSE));
        match self.enter(0, Some(pause)) {
            Ok(_) => {
                self.refusals.store(0, Ordering::Relaxed);
                return Ok(());
            }
            Err(error) if ended_early_is_ok(&error) => {}
            // The kernel refuses even to sleep.
            Err(_) => std::thread::park_timeout(pause),
        }
        if pause < REFUSED_PAUSE {
            // The caller's limit is shorter than a pause, so that this does not count as a refusal.
            return Ok(());
        }
        let refusals = self.refusals.fetch_add(1, Ordering::Relaxed);
        if refusals + 1 < REFUSALS_MAX { Ok(()) } else { Err(error) }
    }

    /// Submits `to_submit` entries and waits for one completion: one system call. If the kernel
    /// takes fewer entries, it does not wait.
    fn enter(&self, to_submit: u32, at_most: Option<Duration>) -> io::Result<u32> {
        let submitter = self.uring.submitter();
        let entered = match at_most {
            None => {
                let flags = EnterFlags::GETEVENTS.bits();
                // SAFETY: no signal mask is passed; the kernel takes no more entries than there
                // are, and these are as `Uring::push` left them.
                unsafe { submitter.enter::<libc::sigset_t>(to_submit, 1, flags, None) }
            }
            Some(at_most) => {
                let time = Timespec::new().sec(at_most.as_secs()).nsec(at_most.subsec_nanos());
                let args = SubmitArgs::new().timespec(&time);
                let flags = (EnterFlags::GETEVENTS | EnterFlags::EXT_ARG).bits();
                // SAFETY: as above; EXT_ARG declares the type of the argument, and both it and the
                // time live until the call returns.
                unsafe { submitter.enter(to_submit, 1, flags, Some(&args)) }
            }
        };
        entered.map(|taken| {
            u32::try_from(taken).expect("the kernel takes no more entries than the queue holds")
        })
    }

    /// Returns true if the kernel has taken all pushed entries. Entries that a sleeper's call has
    /// just taken may not be counted yet: that costs one needless call.
    fn is_all_taken(&self) -> bool {
        self.pushed.load(Ordering::Acquire) == self.taken.load(Ordering::Acquire)
    }

    fn note_taken(&self, taken: usize) {
        if taken > 0 {
            let taken = u32::try_from(taken)
                .expect("the kernel takes no more entries than the queue holds");
            self.taken.fetch_add(taken, Ordering::Release);
            self.refusals.store(0, Ordering::Relaxed);
        }
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

impl fmt::Debug for UringShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UringShared").field("refusals", &self.refusals).finish_non_exhaustive()
    }
}

fn ended_early(error: io::Error) -> io::Result<()> {
    if ended_early_is_ok(&error) { Ok(()) } else { Err(error) }
}

/// Returns true if the time was over or a signal came: the caller checks the clock in both cases.
fn ended_early_is_ok(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR))
}

/// Returns true if the kernel has no memory for the entries (EBUSY: until completions are reaped).
fn is_refusal(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EAGAIN | libc::ENOMEM))
}

/// The event of a pipe whose other end was closed.
const POLLHUP: u32 = libc::POLLHUP.cast_unsigned() as u32;

/// The tag of a wake's entry. No transfer's tag is all ones.
const WAKE: u64 = u64::MAX;

/// Duration of one sleep while the kernel refuses: memory is usually free again within
/// milliseconds.
const REFUSED_PAUSE: Duration = Duration::from_millis(10);

/// Number of pauses in a second. After these the caller gets the kernel's error.
pub(super) const REFUSALS_MAX: u32 = 100;
