//! The ring over io_uring.
//!
//! In:    transfers, a wake.
//! Out:   completions.
//! Never: two threads that push, or two that reap: only the holder of the [`Uring`] does. The
//!        sleeper touches neither queue, it only enters the kernel.
//!
//! What may happen at the same time, and why nothing is lost:
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
//! A transfer that would block is done by a worker thread of the kernel, which counts against the
//! process's limit of threads. If the kernel has none, it refuses the transfer, although nothing is
//! wrong with the device: then the thread that reaps makes the plain system call.

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
    /// Whether a wake is queued, on its way, or done and not yet swallowed.
    is_waking: bool,
    /// Whether any were queued again since the last submit.
    has_queued_again: bool,
    /// The memory that transfers in flight work on. The last of what a ring lets go.
    pool: Arc<Pool>,
    /// The process that made it: a forked child must not touch what it shares with its parent.
    process: u32,
}

/// What the sleeper sees of it.
pub(super) struct UringShared {
    uring: IoUring,
    /// How many entries were ever pushed, and how many of them some call has seen the kernel take.
    /// Both wrap. The difference is what is queued or, for a moment, more.
    pushed: AtomicU32,
    taken: AtomicU32,
    /// How often in a row the kernel had no memory to start anything while nothing else ended.
    refusals: AtomicU32,
}

impl Uring {
    /// A ring that has shown that it works.
    ///
    /// Why no flags: any thread may submit and any may reap, one at a time, so SINGLE_ISSUER and
    /// DEFER_TASKRUN, which tie a ring to one thread, are out; SQPOLL would spend a core.
    /// COOP_TASKRUN lets a completion wait until the thread that submitted it next enters the
    /// kernel, while another waits for the page, and gains nothing: with it or without it a read at
    /// depth 1 has 97 to 98 % of the speed of `pread` (virtio disk, 4 KiB, 24,000 reads each,
    /// medians), and `preadv` 99 to 100 %.
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
            // No system call for nothing: a read that is released mostly starts no other.
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
                // It was its gate that ended; or the wait for it was cancelled, and begins again.
                if result.is_ok() {
                    transfer.open_gate();
                }
                self.start_again(tag, transfer);
                continue;
            }
            // Under the engine's mutex, as where threads cannot be had: slow, but right.
            let ended =
                if is_refused(result) { Some(transfer.run()) } else { transfer.after(result) };
            if let Some(result) = ended {
                return Some(Completion { tag, result });
            }
            self.start_again(tag, transfer);
        }
        if self.has_queued_again {
            // The reaper may be about to leave, and the waiters of these may sleep already.
            let _ = self.submit();
        }
        None
    }

    pub(super) fn wake(&mut self) {
        if !self.is_waking {
            self.push(&opcode::Nop::new().build().user_data(WAKE));
            self.is_waking = true;
        }
        // A kernel without memory for one entry has some soon: a wake is worth a few tries. If all
        // fail it goes with the next submit.
        for _ in 0..RETRIES {
            match self.submit() {
                Err(error) if is_refusal(&error) => std::thread::yield_now(),
                Ok(()) | Err(_) => return,
            }
        }
    }

    fn reap(&mut self) -> Option<(u64, i32)> {
        // SAFETY: no other completion queue exists: they are made here only, each ends with its
        // block, and `&mut self` lets one thread in at a time. The sleeper makes none.
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
            // A write that a test lets fail must not reach the device.
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
        // What the entry names stays as it is until its completion: `in_flight` owns descriptor and
        // vectors, the addresses are the pool's, which the ring holds, and the core gives no frame
        // away in flight.
        self.push(&entry.user_data(tag));
    }

    /// The caller vouches that what the entry names lives until its completion.
    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: no other submission queue exists: they are made here only, each ends with its
        // statement, and `&mut self` lets one thread in at a time. The sleeper makes none; what it
        // and the kernel read of this one are atomics.
        let mut queue = unsafe { self.shared.uring.submission_shared() };
        // SAFETY: as the two callers say: a NOP names nothing, a transfer's things are kept.
        let pushed = unsafe { queue.push(entry) };
        pushed.expect("the submission queue holds all that is in flight and a wake");
        drop(queue);
        // After the queue's tail: if a thread enters with this number, the kernel sees the entry.
        self.shared.pushed.fetch_add(1, Ordering::Release);
    }
}

impl UringShared {
    pub(super) fn wait(&self, at_most: Option<Duration>) -> io::Result<()> {
        loop {
            // It may be more than is queued, as another thread may be in between entering and
            // counting; never less than this thread's own pushes.
            let taken = self.taken.load(Ordering::Acquire);
            let queued = self.pushed.load(Ordering::Acquire).wrapping_sub(taken);
            match self.enter(queued, at_most) {
                // All taken: so it waited, and something ended, or the time did, or a signal came.
                Ok(now_taken) if now_taken == queued => {
                    self.note_taken(now_taken as usize);
                    return Ok(());
                }
                // The queue was empty: others took it all. What is pushed from here on is submitted
                // by the thread that pushes it, so this one need only sleep.
                Ok(0) => return self.enter(0, at_most).map(drop).or_else(ended_early),
                // It stopped at an entry that is wrong or that it has no memory for, or others took
                // some: the rest is tried again.
                Ok(now_taken) => self.note_taken(now_taken as usize),
                Err(error) if is_refusal(&error) => return self.wait_refused(error, at_most),
                Err(error) => return ended_early(error),
            }
        }
    }

    /// The kernel would not start a transfer. What is in flight may give it the memory: so this
    /// sleeps as asked, but not for long, and the caller comes again.
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
            // It does not even let us sleep in there.
            Err(_) => std::thread::park_timeout(pause),
        }
        if pause < REFUSED_PAUSE {
            // The caller wanted to wait for less than a pause: that is not counted as a refusal.
            return Ok(());
        }
        let refusals = self.refusals.fetch_add(1, Ordering::Relaxed);
        if refusals + 1 < REFUSALS_MAX { Ok(()) } else { Err(error) }
    }

    /// Submits so many entries and waits for one completion: one system call. If the kernel takes
    /// fewer it does not wait.
    fn enter(&self, to_submit: u32, at_most: Option<Duration>) -> io::Result<u32> {
        let submitter = self.uring.submitter();
        let entered = match at_most {
            None => {
                let flags = EnterFlags::GETEVENTS.bits();
                // SAFETY: no signal mask is passed; the kernel takes no more entries than there
                // are, and those are as `Uring::push` left them.
                unsafe { submitter.enter::<libc::sigset_t>(to_submit, 1, flags, None) }
            }
            Some(at_most) => {
                let time = Timespec::new().sec(at_most.as_secs()).nsec(at_most.subsec_nanos());
                let args = SubmitArgs::new().timespec(&time);
                let flags = (EnterFlags::GETEVENTS | EnterFlags::EXT_ARG).bits();
                // SAFETY: as above; EXT_ARG says that the argument is what it is, and both it and
                // the time live until the call returns.
                unsafe { submitter.enter(to_submit, 1, flags, Some(&args)) }
            }
        };
        entered.map(|taken| {
            u32::try_from(taken).expect("the kernel takes no more entries than the queue holds")
        })
    }

    /// Whether the kernel has taken all that was pushed. What a sleeper's call took just now may
    /// not be counted yet: then one call is made for nothing.
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
    /// Waits for what is in flight: the kernel must not touch memory that has a new owner.
    fn drop(&mut self) {
        if std::process::id() != self.process {
            return;
        }
        for faults in self.in_flight.values().filter_map(|it| it.backend.faults.as_ref()) {
            faults.let_go();
        }
        while !self.in_flight.is_empty() {
            if self.shared.wait(None).is_err() {
                // The kernel refuses to tell: rather lose the memory than have it written to.
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

/// The time is over, or a signal came: either way the caller looks at the clock again.
fn ended_early_is_ok(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR))
}

/// The kernel has no memory for what it is given (EBUSY: until completions are taken).
fn is_refusal(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EAGAIN | libc::ENOMEM))
}

/// A pipe that ended.
const POLLHUP: u32 = libc::POLLHUP.cast_unsigned() as u32;

/// The name of a wake's entry. No tag is all ones.
const WAKE: u64 = u64::MAX;

/// How long one sleep is while the kernel refuses: memory that comes back does so in milliseconds.
const REFUSED_PAUSE: Duration = Duration::from_millis(10);

/// So many pauses are a second. Then the caller gets the kernel's error.
pub(super) const REFUSALS_MAX: u32 = 100;
