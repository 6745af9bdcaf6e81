//! A Python callable as a source of the engine.
//!
//! In:    `fetch(start, end) -> bytes`, a size, a name and a version; requests of the engine.
//! Out:   jobs for Python's threads, whose results are the replies. An exception is never lost.
//! Never: a reader that depends on another thread, which may wait for a lock held by the reader.
//!
//! ```text
//!   engine: fetch(range, reply) -> queue -> next(): a Python thread -> fetch(..) -> done(bytes)
//!                                    '----> a reader that has waited for long: rescue.rs
//! ```
//!
//! A native store needs another `Source`, and a method of `RawEngine` to open it.

mod rescue;

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use foreread::{Reply, Source, SourceIdentity};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView};

pub(crate) use self::rescue::FetchRescue;
use crate::errors::{FetchFailures, errno_of_exception};
use crate::shutdown::detached;
use crate::waiting::now;

/// Limit of requests in flight per fetcher.
const JOBS_OF_ONE_MAX: usize = 16;
/// Limit of fetcher threads per engine: four fetchers that hang can occupy all of them.
const THREADS_MAX: usize = 64;

/// A callable that returns the bytes of a range.
pub(crate) struct Fetcher {
    pub(crate) fetch: Py<PyAny>,
    pub(crate) len: u64,
    pub(crate) identity: SourceIdentity,
    /// Device shared with other fetchers: a host or a bucket.
    pub(crate) device: Option<String>,
    pub(crate) failures: Arc<FetchFailures>,
    /// Number of its requests in flight.
    pub(crate) running: AtomicUsize,
}

/// The fetcher's implementation of a source.
pub(crate) struct FetcherSource {
    pub(crate) fetcher: Arc<Fetcher>,
    pub(crate) queue: Arc<QueueOwner>,
}

impl Source for FetcherSource {
    fn identity(&self) -> SourceIdentity {
        self.fetcher.identity.clone()
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.fetcher.len)
    }

    fn fetch(&self, range: Range<u64>, reply: Reply) {
        let waiting = WaitingJob { fetcher: Arc::clone(&self.fetcher), range, reply };
        let mut state = self.queue.0.lock();
        let over = state.take_over();
        state.waiting.push_back(waiting);
        drop(state);
        self.queue.0.changed.notify_one();
        // Dropped outside the lock: the last request of a fetcher may drop its callable.
        drop(over);
    }

    fn device(&self) -> Option<String> {
        self.fetcher.device.clone()
    }
}

/// Requests of an engine's fetchers, and the threads that serve them.
#[derive(Default)]
struct JobQueue {
    state: Mutex<JobQueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct JobQueueState {
    waiting: VecDeque<WaitingJob>,
    /// Unanswered requests that a thread has taken.
    taken: Vec<Weak<OpenJob>>,
    threads: usize,
    idle: usize,
    is_closed: bool,
}

struct WaitingJob {
    fetcher: Arc<Fetcher>,
    range: Range<u64>,
    reply: Reply,
}

/// A request taken by a thread, answered exactly once.
struct OpenJob {
    fetcher: Arc<Fetcher>,
    range: Range<u64>,
    /// None once answered.
    open: Mutex<Option<(Reply, RunningPlace)>>,
    /// Time at which a thread last took it.
    taken: Mutex<Instant>,
}

impl OpenJob {
    fn take(&self) -> Option<(Reply, RunningPlace)> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl JobQueue {
    fn lock(&self) -> MutexGuard<'_, JobQueueState> {
        // Nothing panics while it holds this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl JobQueueState {
    /// Removes the requests that no reader waits for any more. They have timed out while all
    /// threads hung in calls; readers that retry keep adding new ones.
    fn take_over(&mut self) -> VecDeque<WaitingJob> {
        let all = std::mem::take(&mut self.waiting).into_iter();
        let (over, waiting) = all.partition(|job| job.reply.remaining() == 0);
        self.waiting = waiting;
        over
    }

    /// Takes a waiting request for the calling thread.
    fn take_waiting(&mut self, at: usize, queue: &Arc<JobQueue>) -> Option<Arc<OpenJob>> {
        let WaitingJob { fetcher, range, reply } = self.waiting.remove(at)?;
        fetcher.running.fetch_add(1, Ordering::Relaxed);
        let place = RunningPlace { fetcher: Arc::clone(&fetcher), queue: Arc::clone(queue) };
        let (open, taken) = (Mutex::new(Some((reply, place))), Mutex::new(now()));
        let job = Arc::new(OpenJob { fetcher, range, open, taken });
        self.taken.retain(|taken| taken.strong_count() > 0);
        self.taken.push(Arc::downgrade(&job));
        Some(job)
    }

    /// Returns the first request whose fetcher is below its limit.
    fn first_runnable(&self) -> Option<usize> {
        let is_runnable =
            |job: &WaitingJob| job.fetcher.running.load(Ordering::Relaxed) < JOBS_OF_ONE_MAX;
        self.waiting.iter().position(is_runnable)
    }
}

/// Ends the threads of a queue once the engine and its fetchers are gone.
#[derive(Default)]
pub(crate) struct QueueOwner(Arc<JobQueue>);

impl QueueOwner {
    pub(crate) fn server(&self) -> FetchServer {
        FetchServer { queue: Arc::clone(&self.0) }
    }

    /// Returns the handle with which readers call a fetcher themselves.
    pub(crate) fn rescue(&self, identity: SourceIdentity) -> FetchRescue {
        FetchRescue::new(Arc::clone(&self.0), identity)
    }
}

impl Drop for QueueOwner {
    fn drop(&mut self) {
        self.0.lock().is_closed = true;
        self.0.changed.notify_all();
    }
}

/// Dispatches the requests of an engine's fetchers to Python threads.
#[pyclass(frozen, module = "foreread._foreread")]
pub(crate) struct FetchServer {
    queue: Arc<JobQueue>,
}

#[pymethods]
impl FetchServer {
    /// Returns true if the caller must start a thread, which is then already counted. One thread is
    /// always kept idle, because requests arrive in the engine's threads, which cannot start one.
    fn needs_thread(&self) -> bool {
        let mut state = self.queue.lock();
        let is_needed = state.idle == 0 && state.threads < THREADS_MAX;
        state.threads += usize::from(is_needed);
        is_needed
    }

    /// Reports that a counted thread could not be started.
    fn thread_failed(&self) {
        self.queue.lock().threads -= 1;
    }

    /// Blocks until there is a request, and returns it; None when the thread must end.
    fn next(&self, py: Python<'_>) -> Option<FetchJob> {
        let queue = &self.queue;
        let job = detached(py, || {
            // Dropped after the lock is released.
            let mut over = VecDeque::new();
            let mut state = queue.lock();
            state.idle += 1;
            loop {
                over.append(&mut state.take_over());
                if let Some(first) = state.first_runnable() {
                    state.idle -= 1;
                    return state.take_waiting(first, queue);
                }
                if state.is_closed {
                    state.idle -= 1;
                    state.threads -= 1;
                    return None;
                }
                state = queue.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        });
        job.map(FetchJob)
    }
}

/// A request of a fetcher, answered exactly once.
#[pyclass(frozen, module = "foreread._foreread")]
pub(crate) struct FetchJob(Arc<OpenJob>);

impl FetchJob {
    fn fail(&self, py: Python<'_>, error: PyErr) {
        let errno = errno_of_exception(py, &error);
        let fetcher = &self.0.fetcher;
        let oldest = fetcher.failures.keep(fetcher.identity.name(), error);
        if let Some((reply, place)) = self.0.take() {
            detached(py, move || {
                // A call for each page of the range would raise as well.
                reply.fail_all(io::Error::from_raw_os_error(errno));
                drop(place);
            });
        }
        // Dropped after the answer, without a slot: the frames kept by an exception may run Python
        // code that reads through a fetcher, and would otherwise wait for the slot held here.
        drop(oldest);
    }
}

#[pymethods]
impl FetchJob {
    #[getter]
    fn fetch(&self, py: Python<'_>) -> Py<PyAny> {
        self.0.fetcher.fetch.clone_ref(py)
    }

    #[getter]
    fn start(&self) -> u64 {
        self.0.range.start
    }

    #[getter]
    fn end(&self) -> u64 {
        self.0.range.end
    }

    /// Answers with the fetcher's result.
    fn done(&self, py: Python<'_>, answer: &Bound<'_, PyAny>) {
        let bytes = match bytes_of(answer) {
            Ok(bytes) => bytes,
            Err(error) => return self.fail(py, error),
        };
        let Some((mut reply, place)) = self.0.take() else { return };
        detached(py, move || {
            match reply.write(&bytes) {
                Ok(()) => reply.finish(),
                Err(error) => reply.fail(error),
            }
            drop(place);
        });
    }

    /// Answers with the fetcher's exception.
    fn failed(&self, py: Python<'_>, error: &Bound<'_, PyAny>) {
        self.fail(py, PyErr::from_value(error.clone()));
    }
}

/// A fetcher's slot for a request in flight.
struct RunningPlace {
    fetcher: Arc<Fetcher>,
    queue: Arc<JobQueue>,
}

impl Drop for RunningPlace {
    fn drop(&mut self) {
        self.fetcher.running.fetch_sub(1, Ordering::Relaxed);
        // Another request of the same fetcher may wait for this slot.
        drop(self.queue.lock());
        self.queue.changed.notify_one();
    }
}

fn bytes_of(answer: &Bound<'_, PyAny>) -> PyResult<PyBackedBytes> {
    if answer.is_instance_of::<PyBytes>() || answer.is_instance_of::<PyByteArray>() {
        return Ok(answer.extract::<PyBackedBytes>()?);
    }
    let view = PyMemoryView::from(answer).map_err(|_| {
        let name = answer.get_type().name();
        let name = name.map_or_else(|_| "something else".into(), |name| name.to_string());
        PyTypeError::new_err(format!("the fetcher returned {name}, not bytes"))
    })?;
    Ok(view.call_method0("tobytes")?.extract::<PyBackedBytes>()?)
}
