//! The ring: reads into frames and writes from them go to the kernel, results come back.
//!
//! In:    a backend, an offset, the addresses of frames.
//! Out:   a tag and a result for each of them.
//! Never: more in flight than the completion queue holds. One whose memory or descriptor ends
//!        before it does: the ring keeps both until then.
//!
//! Two roles, so that a thread that waits does not hold the lock of those that start transfers:
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
//! io_uring. Which one is found by trying, never by the kernel's version.

mod probe;
mod threads;
mod transfer;
mod uring;
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

/// Starts transfers and reaps their results. Lives behind the engine's mutex.
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

/// Where one thread sleeps until a transfer is done. Needs no lock.
#[derive(Debug)]
pub(crate) struct Sleeper(SleeperImpl);

#[derive(Debug)]
enum SleeperImpl {
    IoUring(Arc<uring::UringShared>),
    Threads(Arc<threads::WorkerShared>),
}

/// How reads and writes get to the kernel.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum IoBackend {
    /// io_uring if it works here, else threads: found by trying.
    #[default]
    Probe,
    /// io_uring, or an error.
    IoUring,
    /// Threads that call `preadv(2)` and `pwritev2(2)`, also where io_uring works.
    Threads,
}

/// The kind of ring that an engine uses; [`Display`](std::fmt::Display) says it in words.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum RingKind {
    /// io_uring.
    IoUring,
    /// Threads that call `pread`.
    Threads {
        /// Why not io_uring: what the system said, or that threads were asked for.
        why: String,
    },
}

/// What became of a transfer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Completion {
    /// As it was given to [`Ring::read`] or [`Ring::write`].
    pub(crate) tag: u64,
    /// Bytes, or the error number.
    pub(crate) result: Result<u32, i32>,
}

impl Ring {
    /// A ring of a kind.
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

    /// The pages' memory.
    pub(crate) fn pool(&self) -> Arc<Pool> {
        Arc::clone(&self.pool)
    }

    /// Makes these bytes of a frame zeros.
    pub(crate) fn zero(&self, frame: Frame, bytes: &Range<usize>) {
        self.pool.copy_in(frame, bytes.start, &ZEROS[..bytes.len()]);
    }

    /// Which kind it is: for users to see.
    pub(crate) fn kind(&self) -> RingKind {
        match &self.kind {
            RingImpl::IoUring(_) => RingKind::IoUring,
            RingImpl::Threads(threads) => RingKind::Threads { why: threads.why().into() },
        }
    }

    /// Whether another one may be started.
    pub(crate) fn has_room(&self) -> bool {
        self.in_flight() < TRANSFERS_MAX
    }

    /// How many are being worked on, or are done but not yet asked about.
    pub(crate) fn in_flight(&self) -> usize {
        match &self.kind {
            RingImpl::IoUring(uring) => uring.in_flight(),
            RingImpl::Threads(threads) => threads.in_flight(),
        }
    }

    /// Queues a read at `offset` into `parts` of frames, in their order. What are neighbours in
    /// memory becomes one vector.
    ///
    /// It starts with the next [`Self::submit`] or [`Sleeper::wait`] of any thread.
    ///
    /// # Panics
    ///
    /// If there is no room, or a transfer of the same tag is in flight.
    pub(crate) fn read(
        &mut self,
        tag: u64,
        backend: Arc<Backend>,
        offset: u64,
        parts: impl Iterator<Item = (Frame, Range<usize>)>,
    ) {
        self.start(tag, Transfer::read(&self.pool, backend, offset, parts));
    }

    /// Queues a write of `len` bytes from `frames`, in their order: whole pages, but for the last,
    /// of which there may be less. Durable (FUA): it ends when it is durable.
    ///
    /// # Panics
    ///
    /// As [`Self::read`].
    pub(crate) fn write(
        &mut self,
        tag: u64,
        backend: Arc<Backend>,
        (offset, len): (u64, u64),
        is_durable: bool,
        frames: impl Iterator<Item = Frame>,
    ) {
        self.start(tag, Transfer::write(&self.pool, backend, offset, len, is_durable, frames));
    }

    fn start(&mut self, tag: u64, transfer: Transfer) {
        assert!(self.has_room(), "the completion queue holds what is in flight");
        match &mut self.kind {
            RingImpl::IoUring(uring) => uring.start(tag, transfer),
            RingImpl::Threads(threads) => threads.start(tag, transfer),
        }
    }

    /// Hands all that is queued over, and does not wait. On an error they stay queued, and the next
    /// call here or of [`Sleeper::wait`] offers them again.
    pub(crate) fn submit(&mut self) -> io::Result<()> {
        match &mut self.kind {
            RingImpl::IoUring(uring) => uring.submit(),
            // They take what is queued without being told.
            RingImpl::Threads(_) => Ok(()),
        }
    }

    /// The next result that has come. Never waits.
    ///
    /// A transfer that io_uring cancelled or refused for lack of a worker or of memory is done
    /// here, by the plain system call. The rest of a write that was cut short is started and not
    /// reported, and so is the flush of a durable one.
    pub(crate) fn completion(&mut self) -> Option<Completion> {
        match &mut self.kind {
            RingImpl::IoUring(uring) => uring.completion(),
            RingImpl::Threads(threads) => threads.completion(),
        }
    }

    /// Where a thread may sleep without the engine's mutex.
    pub(crate) fn sleeper(&self) -> Arc<Sleeper> {
        Arc::clone(&self.sleeper)
    }

    /// Wakes the sleeper. If no thread sleeps yet, the next sleep ends at once: it holds until
    /// [`Self::completion`] is called.
    pub(crate) fn wake(&mut self) {
        match &mut self.kind {
            RingImpl::IoUring(uring) => uring.wake(),
            RingImpl::Threads(threads) => threads.wake(),
        }
    }
}

impl Sleeper {
    /// Hands over what is queued and waits until at least one completion is there, or the time is
    /// over, or [`Ring::wake`] was called: one system call.
    ///
    /// A completion that is not reaped yet, and a wake that is not seen yet, end it at once. It may
    /// also end early with nothing to show (a signal): the caller reaps, looks at the clock, and
    /// comes again. One thread at a time may be in here, and only that one reaps meanwhile:
    /// otherwise it could sleep for a completion that another took.
    ///
    /// # Errors
    ///
    /// If the kernel does not let us wait. That it has no memory to start anything is an error only
    /// after a second of refusals during which nothing else ended.
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

/// Reads at `offset` into `parts` of frames in the calling thread: bytes, or the error number.
///
/// For the lone miss: with nothing else to start and nothing to wait for, one plain system call is
/// the shortest way. The frames must be in flight in the core (no other request fills them).
///
/// # Errors
///
/// The error number; a signal, or a kernel that asks to try again, only after a few tries.
pub(crate) fn pread(
    pool: &Pool,
    backend: Arc<Backend>,
    offset: u64,
    parts: &mut dyn Iterator<Item = (Frame, Range<usize>)>,
) -> Result<u32, i32> {
    Transfer::read(pool, backend, offset, parts).run()
}

/// Writes `len` bytes at `offset` from `frames` in the calling thread, durably: bytes, or the error
/// number.
///
/// For the lone durable write, as [`pread`] for the lone miss. The core keeps the frames until it
/// hears of the end.
///
/// # Errors
///
/// As [`pread`].
pub(crate) fn pwrite_durable(
    pool: &Pool,
    backend: Arc<Backend>,
    (offset, len): (u64, u64),
    frames: &mut dyn Iterator<Item = Frame>,
) -> Result<u32, i32> {
    Transfer::write(pool, backend, offset, len, true, frames).run()
}

/// Entries of the submission queue; the completion queue has twice as many.
const ENTRIES: u32 = 256;

/// How many transfers may be in flight at once, over all devices: seven devices at their default
/// depth and all but one of an eighth. One entry is left for a wake, so that it finds a place even
/// when the kernel takes nothing.
const TRANSFERS_MAX: usize = ENTRIES as usize - 1;

/// A hole.
static ZEROS: [u8; PAGE] = [0; PAGE];

/// How often one is tried again when the kernel asks for it, before that is its error.
const RETRIES: u32 = 16;
