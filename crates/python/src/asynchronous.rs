//! Reads for event loops: asyncio, uvloop, and others that watch a descriptor.
//!
//! In:    reads that missed; a loop that watches one descriptor.
//! Out:   which reads to poll again; their bytes.
//! Never: a thread of ours that attaches to the interpreter to wake a task.
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

/// Tells one event loop which of its reads to poll.
#[pyclass(frozen, module = "foreread._foreread")]
pub(crate) struct LoopNotifier {
    inbox: Arc<WokenReads>,
}

/// The reads that were woken since the loop looked.
struct WokenReads {
    /// Readable while there are some.
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
            PyOSError::new_err((error.raw_os_error(), "cannot make an eventfd for an event loop"))
        })?;
        Ok(Self { inbox: Arc::new(WokenReads { event, woken: Mutex::default() }) })
    }

    /// The descriptor to watch for reading.
    fn fileno(&self) -> i32 {
        self.inbox.event.as_raw_fd()
    }

    /// Takes the numbers of the reads to poll.
    fn take(&self) -> Vec<u64> {
        // First the descriptor: what is woken after that makes it readable again.
        let _ = rustix::io::read(&self.inbox.event, &mut [0; 8]);
        std::mem::take(&mut *self.inbox.lock()).into_iter().collect()
    }
}

/// Wakes one read's loop.
struct ReadWaker {
    number: u64,
    inbox: Arc<WokenReads>,
}

impl Wake for ReadWaker {
    fn wake(self: Arc<Self>) {
        self.inbox.lock().insert(self.number);
        // It is full only if it is readable.
        let _ = rustix::io::write(&self.inbox.event, &1_u64.to_ne_bytes());
    }
}

/// A read on its way. Dropping it ends it.
#[pyclass(frozen, module = "foreread._foreread")]
pub(crate) struct PendingRead {
    number: u64,
    waker: Waker,
    failures: ReadFailures,
    /// None when it has ended.
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
    /// The number by which the notifier names it.
    #[getter]
    fn number(&self) -> u64 {
        self.number
    }

    /// Returns the bytes, or None if they have not come: then the notifier tells when to ask again.
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
            Some(Poll::Ready((Ok(count), buffer))) => Ok(Some(PyBytes::new(py, &buffer[..count]))),
            Some(Poll::Ready((Err(error), _))) => Err(self.failures.exception(py, error)),
        }
    }

    /// Ends the read, whose bytes are not wanted any more.
    fn cancel(&self, py: Python<'_>) {
        detached(py, || {
            let read = self.read.lock().unwrap_or_else(PoisonError::into_inner).take();
            drop(read);
        });
    }
}
