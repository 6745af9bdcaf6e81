//! The part of an io_uring that a sleeping thread uses without the engine's mutex: the thread
//! enters the kernel and touches neither queue.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring};

/// The part of the ring that the sleeper uses.
pub(super) struct UringShared {
    pub(super) uring: IoUring,
    /// Number of entries ever pushed, and number of these that a call has seen the kernel take.
    /// Both wrap. Their difference is the number of queued entries or, for a moment, more.
    pub(super) pushed: AtomicU32,
    taken: AtomicU32,
    /// Number of consecutive refusals for lack of memory without a completion in between.
    refusals: AtomicU32,
}

impl UringShared {
    pub(super) fn new(uring: IoUring) -> Self {
        let (pushed, taken, refusals) = Default::default();
        Self { uring, pushed, taken, refusals }
    }

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
    pub(super) fn is_all_taken(&self) -> bool {
        self.pushed.load(Ordering::Acquire) == self.taken.load(Ordering::Acquire)
    }

    pub(super) fn note_taken(&self, taken: usize) {
        if taken > 0 {
            let taken = u32::try_from(taken)
                .expect("the kernel takes no more entries than the queue holds");
            self.taken.fetch_add(taken, Ordering::Release);
            self.refusals.store(0, Ordering::Relaxed);
        }
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
pub(super) fn is_refusal(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EAGAIN | libc::ENOMEM))
}

/// Duration of one sleep while the kernel refuses: memory is usually free again within
/// milliseconds.
const REFUSED_PAUSE: Duration = Duration::from_millis(10);

/// Number of pauses in a second. After these the caller gets the kernel's error.
pub(super) const REFUSALS_MAX: u32 = 100;
