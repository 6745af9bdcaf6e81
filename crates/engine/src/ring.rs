//! The ring: submits reads into frames and writes from frames to the kernel, and reaps completions.
//!
//! In:    a backend, an offset, the addresses of frames.
//! Never: more in flight than the completion queue holds. The ring keeps the memory and the
//!        descriptor of each transfer until it has ended.
//!
//! Two roles, so that a thread that waits does not hold the lock that submitters need:
//!
//! ```text
//!   Ring (behind the engine's mutex)        Sleeper (shared, one thread at a time sleeps in it)
//!     read(), write()  queue                  wait()   hands over what is queued, and sleeps until
//!     submit()      hands over                           a completion is there,
//!     completion()  reaps                                the time is over,
//!     wake()        ends the sleep                       or wake() was called, before or after
//! ```
//!
//! Two kinds: io_uring, and threads that call `preadv` and `pwritev2` where a system forbids
//! io_uring. Such threads also make the durable writes of an io_uring. The choice depends on a
//! probe, never on the kernel's version.

mod durable;
mod probe;
mod threads;
mod transfer;
mod uring;
mod uring_shared;
mod vectors;

#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use foreread_core::table::Frame;

use crate::backend::Backend;
use crate::error::{EngineError, is_out_of_descriptors};
use crate::pool::{PAGE, Pool};

use threads::Threads;
use transfer::Transfer;
use uring::Uring;

/// Submits transfers and reaps their completions. Lives behind the engine's mutex.
#[derive(Debug)]
pub(crate) struct Ring {
    kind: RingImpl,
    sleeper: Arc<Sleeper>,
    pool: Arc<Pool>,
}

#[derive(Debug)]
enum RingImpl {
    IoUring(Uring),
    Threads(Threads),
}

/// Lets one thread sleep until a transfer completes. Needs no lock.
#[derive(Debug)]
pub(crate) struct Sleeper(SleeperImpl);

#[derive(Debug)]
enum SleeperImpl {
    IoUring(Arc<uring_shared::UringShared>),
    Threads(Arc<threads::WorkerShared>),
}

/// The way in which reads and writes reach the kernel.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum IoBackend {
    /// io_uring if a probe finds it usable, else threads.
    #[default]
    Probe,
    /// io_uring, or an error if it is not usable.
    IoUring,
    /// Threads that call `preadv(2)` and `pwritev2(2)`, even if io_uring is usable.
    Threads,
}

/// The kind of ring that an engine uses; [`Display`](std::fmt::Display) describes it in words.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum RingKind {
    /// io_uring.
    IoUring,
    /// Threads that call `pread`.
    Threads {
        /// The reason for not using io_uring: the system's error, or that threads were requested.
        why: String,
    },
}

/// The outcome of a transfer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Completion {
    /// The tag given to [`Ring::read`] or [`Ring::write`].
    pub(crate) tag: u64,
    /// Number of bytes, or the error number.
    pub(crate) result: Result<u32, i32>,
}

impl Ring {
    /// Creates a ring of the chosen kind.
    ///
    /// ```text
    ///   asked for   io_uring works   it does not   no descriptors left
    ///   Probe       io_uring         threads       error: threads would not find any either
    ///   IoUring     io_uring         error         error
    ///   Threads     threads          threads       threads
    /// ```
    pub(crate) fn with(pool: Arc<Pool>, choice: IoBackend) -> Result<Self, EngineError> {
        let kind = match choice {
            IoBackend::Threads => RingImpl::Threads(Threads::new(&pool, "as asked".into())),
            IoBackend::IoUring | IoBackend::Probe => match Uring::new(&pool) {
                Ok(uring) => RingImpl::IoUring(uring),
                Err(source) if choice == IoBackend::IoUring || is_out_of_descriptors(&source) => {
                    return Err(EngineError::Ring { source });
                }
                Err(source) => RingImpl::Threads(Threads::new(&pool, source.to_string())),
            },
        };
        let place = match &kind {
            RingImpl::IoUring(uring) => SleeperImpl::IoUring(uring.shared()),
            RingImpl::Threads(threads) => SleeperImpl::Threads(threads.shared()),
        };
        Ok(Self { kind, sleeper: Arc::new(Sleeper(place)), pool })
    }

    /// Returns the memory of the frames.
    pub(crate) fn pool(&self) -> Arc<Pool> {
        Arc::clone(&self.pool)
    }

    /// Zeroes these bytes of a frame.
    pub(crate) fn zero(&self, frame: Frame, bytes: &Range<usize>) {
        self.pool.copy_in(frame, bytes.start, &ZEROS[..bytes.len()]);
    }

    /// Returns the kind of the ring, for display to users.
    pub(crate) fn kind(&self) -> RingKind {
        match &self.kind {
            RingImpl::IoUring(_) => RingKind::IoUring,
            RingImpl::Threads(threads) => RingKind::Threads { why: threads.why().into() },
        }
    }

    /// Returns true if another transfer can be queued.
    pub(crate) fn has_room(&self) -> bool {
        self.in_flight() < TRANSFERS_MAX
    }

    /// Returns the number of transfers that are in flight or not yet reaped.
    pub(crate) fn in_flight(&self) -> usize {
        match &self.kind {
            RingImpl::IoUring(uring) => uring.in_flight(),
            RingImpl::Threads(threads) => threads.in_flight(),
        }
    }

    /// Queues a read at `offset` into `parts` of frames, in order. Parts that are adjacent in
    /// memory share one vector.
    ///
    /// It starts with the next [`Self::submit`] or [`Sleeper::wait`] of any thread.
    ///
    /// # Panics
    ///
    /// If the ring is full, or a transfer with the same tag is in flight.
    pub(crate) fn read(
        &mut self,
        tag: u64,
        backend: Arc<Backend>,
        offset: u64,
        parts: impl Iterator<Item = (Frame, Range<usize>)>,
    ) {
        self.start(tag, Transfer::read(&self.pool, backend, offset, parts));
    }

    /// Queues a write of the device's `bytes` from `frames`, in order: whole pages, except that the
    /// last may be partial. A durable (FUA) write completes once it is durable.
    ///
    /// # Panics
    ///
    /// As [`Self::read`].
    pub(crate) fn write(
        &mut self,
        tag: u64,
        backend: Arc<Backend>,
        bytes: Range<u64>,
        is_durable: bool,
        frames: impl Iterator<Item = Frame>,
    ) {
        self.start(tag, Transfer::write(&self.pool, backend, bytes, is_durable, frames));
    }

    fn start(&mut self, tag: u64, transfer: Transfer) {
        assert!(self.has_room(), "the completion queue holds what is in flight");
        match &mut self.kind {
            RingImpl::IoUring(uring) => uring.start(tag, transfer),
            RingImpl::Threads(threads) => threads.start(tag, transfer),
        }
    }

    /// Submits all queued transfers without waiting. On an error they stay queued, and the next
    /// call here or of [`Sleeper::wait`] retries them.
    pub(crate) fn submit(&mut self) -> io::Result<()> {
        match &mut self.kind {
            RingImpl::IoUring(uring) => uring.submit(),
            // The workers take queued transfers by themselves.
            RingImpl::Threads(_) => Ok(()),
        }
    }

    /// Reaps the next completion. Never blocks.
    ///
    /// If io_uring cancels a transfer, or refuses it for lack of a worker or memory, this performs
    /// it with the plain system call. It resubmits the rest of a short write, and the flush of a
    /// durable one, without reporting a completion.
    pub(crate) fn completion(&mut self) -> Option<Completion> {
        match &mut self.kind {
            RingImpl::IoUring(uring) => uring.completion(),
            RingImpl::Threads(threads) => threads.completion(),
        }
    }

    /// Returns the handle with which a thread sleeps without the engine's mutex.
    pub(crate) fn sleeper(&self) -> Arc<Sleeper> {
        Arc::clone(&self.sleeper)
    }

    /// Wakes the sleeper. If no thread is asleep, the next sleep ends at once: the wake stays
    /// pending until [`Self::completion`] is called.
    pub(crate) fn wake(&mut self) {
        match &mut self.kind {
            RingImpl::IoUring(uring) => uring.wake(),
            RingImpl::Threads(threads) => threads.wake(),
        }
    }
}

impl Sleeper {
    /// Submits all queued transfers and blocks until a completion is available, the time is over,
    /// or [`Ring::wake`] was called: one system call.
    ///
    /// An unreaped completion or a pending wake ends it at once. It may also return early without
    /// either (a signal): the caller reaps, checks the clock, and calls again. Only one thread at a
    /// time may wait here, and only that thread may reap in the meantime: otherwise it could sleep
    /// for a completion that another thread took.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to wait. Lack of kernel memory is an error only after a second of
    /// refusals in which no transfer completed.
    pub(crate) fn wait(&self, at_most: Option<Duration>) -> io::Result<()> {
        match &self.0 {
            SleeperImpl::IoUring(uring) => uring.wait(at_most),
            SleeperImpl::Threads(threads) => threads.wait(at_most),
        }
    }
}

impl fmt::Display for RingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IoUring => write!(f, "io_uring"),
            Self::Threads { why } => write!(f, "threads ({why})"),
        }
    }
}

/// Reads at `offset` into `parts` of frames on the calling thread. Returns the number of bytes.
///
/// For a lone miss: with no other transfer to submit or to wait for, one plain system call is the
/// shortest way. The frames must be in flight in the core, so that no other request fills them.
///
/// # Errors
///
/// The error number. An interrupted or retryable call is retried a few times before it becomes an
/// error.
pub(crate) fn pread(
    pool: &Pool,
    backend: Arc<Backend>,
    offset: u64,
    parts: &mut dyn Iterator<Item = (Frame, Range<usize>)>,
) -> Result<u32, i32> {
    Transfer::read(pool, backend, offset, parts).run()
}

/// Writes the device's `bytes` from `frames` on the calling thread, durably. Returns the number of
/// bytes.
///
/// For a lone durable write, as [`pread`] for a lone miss. The core keeps the frames until it
/// learns of the completion.
///
/// # Errors
///
/// As [`pread`].
pub(crate) fn pwrite_durable(
    pool: &Pool,
    backend: Arc<Backend>,
    bytes: Range<u64>,
    frames: &mut dyn Iterator<Item = Frame>,
) -> Result<u32, i32> {
    Transfer::write(pool, backend, bytes, true, frames).run()
}

/// Entries of the submission queue; the completion queue has twice as many.
const ENTRIES: u32 = 256;

/// Maximum number of transfers in flight, over all devices: seven devices at their default depth
/// and most of an eighth. One entry is left for a wake, so that it fits even if the kernel takes no
/// entries, and one for the poll of `durable.rs`.
const TRANSFERS_MAX: usize = ENTRIES as usize - 2;

/// The contents of a hole.
static ZEROS: [u8; PAGE] = [0; PAGE];

/// Number of retries of a call that the kernel asks to repeat, before it counts as an error.
const RETRIES: u32 = 16;
