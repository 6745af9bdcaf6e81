//! Reads for event loops that watch a descriptor, such as asyncio and uvloop. No thread of the
//! engine attaches to the interpreter to wake a task.
//!
//! ```text
//!   the engine's thread: wake -> number of the read, eventfd ->'
//!   the loop:            descriptor is readable -> take() -> poll() of each -> result of a future
//! ```

use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, OwnedFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use foreread::ReadInto;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rustix::event::{EventfdFlags, eventfd};

use crate::errors::ReadFailures;
use crate::shutdown::detached;

/// Notifies an event loop which of its reads to poll.
#[pyclass(frozen, module = "foreread._foreread")]
pub(crate) struct LoopNotifier {
    inbox: Arc<WokenReads>,
}

/// Reads woken since the loop last polled.
struct WokenReads {
    /// Readable while there are any.
    event: OwnedFd,
    woken: Mutex<BTreeSet<u64>>,
}

impl WokenReads {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        // Nothing panics while it holds this lock.
        self.woken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl LoopNotifier {
    #[new]
    fn new() -> PyResult<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let event = event.map_err(|error| {
            PyOSError::new_err((error.raw_os_error(), "cannot create an eventfd for an event loop"))
        })?;
        Ok(Self { inbox: Arc::new(WokenReads { event, woken: Mutex::default() }) })
    }

    /// Returns the descriptor to watch for reading.
    fn fileno(&self) -> i32 {
        self.inbox.event.as_raw_fd()
    }

    /// Removes and returns the numbers of the reads to poll.
    fn take(&self) -> Vec<u64> {
        // Clear the descriptor first: a read woken after that makes it readable again.
        let _ = rustix::io::read(&self.inbox.event, &mut [0; 8]);
        std::mem::take(&mut *self.inbox.lock()).into_iter().collect()
    }
}

/// Wakes the loop of a read.
struct ReadWaker {
    number: u64,
    inbox: Arc<WokenReads>,
}

impl Wake for ReadWaker {
    fn wake(self: Arc<Self>) {
        self.inbox.lock().insert(self.number);
        // The write fails only if the counter is full, and then the descriptor is readable.
        let _ = rustix::io::write(&self.inbox.event, &1_u64.to_ne_bytes());
    }
}

/// A read in flight. Dropping it cancels it.
#[pyclass(frozen, module = "foreread._foreread")]
pub(crate) struct PendingRead {
    number: u64,
    waker: Waker,
    failures: ReadFailures,
    /// None once it has ended.
    read: Mutex<Option<ReadInto<Vec<u8>>>>,
}

static NEXT_READ: AtomicU64 = AtomicU64::new(0);

impl PendingRead {
    pub(crate) fn new(
        read: ReadInto<Vec<u8>>,
        notifier: &LoopNotifier,
        failures: ReadFailures,
    ) -> Self {
        let number = NEXT_READ.fetch_add(1, Ordering::Relaxed);
        let waker = ReadWaker { number, inbox: Arc::clone(&notifier.inbox) };
        let waker = Waker::from(Arc::new(waker));
        Self { number, waker, failures, read: Mutex::new(Some(read)) }
    }
}

#[pymethods]
impl PendingRead {
    /// Returns the number that identifies the read to the notifier.
    #[getter]
    fn number(&self) -> u64 {
        self.number
    }

    /// Returns the bytes, or None if they have not arrived yet: the notifier reports when to poll
    /// again.
    fn poll<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let polled = detached(py, || {
            let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
            let future = read.as_mut()?;
            let polled = Pin::new(future).poll(&mut Context::from_waker(&self.waker));
            if polled.is_ready() {
                *read = None;
            }
            Some(polled)
        });
        match polled {
            None | Some(Poll::Pending) => Ok(None),
            Some(Poll::Ready((buffer, Ok(count)))) => Ok(Some(PyBytes::new(py, &buffer[..count]))),
            Some(Poll::Ready((_, Err(error)))) => Err(self.failures.exception(py, error)),
        }
    }

    /// Cancels the read.
    fn cancel(&self, py: Python<'_>) {
        detached(py, || {
            let read = self.read.lock().unwrap_or_else(PoisonError::into_inner).take();
            drop(read);
        });
    }
}
