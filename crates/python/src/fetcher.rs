//! A Python callable as a source of the engine.
//!
//! In:    `fetch(start, end) -> bytes`, a size, a name and a version; requests of the engine.
//! Out:   jobs for Python's own threads; what they bring, as the answer.
//! Never: an exception that is lost. A reader that depends on another thread: that may wait for a
//!        lock which the reader has.
//!
//! ```text
//!   engine: fetch(range, reply) -> queue -> next(): a Python thread -> fetch(..) -> done(bytes)
//!                                    '----> a reader that has waited for long: rescue.rs
//! ```
//!
//! A native store joins beside this file: another `Source`, and a method of `RawEngine` to open it.

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

/// How many requests of one fetcher are on their way at a time.
const JOBS_OF_ONE_MAX: usize = 16;
/// How many threads an engine has for fetchers: four that hang leave the others none.
const THREADS_MAX: usize = 64;

/// A callable that returns the bytes of a range.
pub(crate) struct Fetcher {
    pub(crate) fetch: Py<PyAny>,
    pub(crate) len: u64,
    pub(crate) identity: SourceIdentity,
    /// What it has in common with others: its host, or its bucket.
    pub(crate) device: Option<String>,
    pub(crate) failures: Arc<FetchFailures>,
    /// How many of its requests are on their way.
    pub(crate) running: AtomicUsize,
}

/// The same, as the engine calls it.
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
        // Without the lock: with the last request of a fetcher its callable may end.
        drop(over);
    }

    fn device(&self) -> Option<String> {
        self.fetcher.device.clone()
    }
}

/// The requests of an engine's fetchers, and the threads that serve them.
#[derive(Default)]
struct JobQueue {
    state: Mutex<JobQueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct JobQueueState {
    waiting: VecDeque<WaitingJob>,
    /// Those that threads have taken, as far as they are not answered.
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

/// A request that a thread has taken, to be answered once.
struct OpenJob {
    fetcher: Arc<Fetcher>,
    range: Range<u64>,
    /// None once it is answered.
    open: Mutex<Option<(Reply, RunningPlace)>>,
    /// When a thread took it last.
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
    /// Takes out the requests that no reader waits for any more, because they have timed out while
    /// all threads were in calls that hang: as many come while readers try again.
    fn take_over(&mut self) -> VecDeque<WaitingJob> {
        let all = std::mem::take(&mut self.waiting).into_iter();
        let (over, waiting) = all.partition(|job| job.reply.remaining() == 0);
        self.waiting = waiting;
        over
    }

    /// Takes out a waiting request, for the thread that calls.
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

    /// The first request whose fetcher may have one more.
    fn first_runnable(&self) -> Option<usize> {
        let is_runnable =
            |job: &WaitingJob| job.fetcher.running.load(Ordering::Relaxed) < JOBS_OF_ONE_MAX;
        self.waiting.iter().position(is_runnable)
    }
}

/// Ends the threads of a queue when the engine and its fetchers are gone.
#[derive(Default)]
pub(crate) struct QueueOwner(Arc<JobQueue>);

impl QueueOwner {
    pub(crate) fn server(&self) -> FetchServer {
        FetchServer { queue: Arc::clone(&self.0) }
    }

    /// Returns what lets readers of a fetcher call it themselves.
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

/// Gives the requests of an engine's fetchers to the threads of Python that serve them.
#[pyclass(frozen, module = "foreread._foreread")]
pub(crate) struct FetchServer {
    queue: Arc<JobQueue>,
}

#[pymethods]
impl FetchServer {
    /// Whether a thread is to be started: then it is counted already. One is always idle, because
    /// the engine's threads, from which requests come, cannot start one.
    fn needs_thread(&self) -> bool {
        let mut state = self.queue.lock();
        let is_needed = state.idle == 0 && state.threads < THREADS_MAX;
        state.threads += usize::from(is_needed);
        is_needed
    }

    /// A thread that was counted could not be started.
    fn thread_failed(&self) {
        self.queue.lock().threads -= 1;
    }

    /// Waits for a request, and returns it; None when the thread is to end.
    fn next(&self, py: Python<'_>) -> Option<FetchJob> {
        let queue = &self.queue;
        let job = detached(py, || {
            // Dropped after the lock.
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

/// A request of a fetcher, to be answered once.
#[pyclass(frozen, module = "foreread._foreread")]
pub(crate) struct FetchJob(Arc<OpenJob>);

impl FetchJob {
    fn fail(&self, py: Python<'_>, error: PyErr) {
        let errno = errno_of_exception(py, &error);
        let fetcher = &self.0.fetcher;
        let oldest = fetcher.failures.keep(fetcher.identity.name(), error);
        if let Some((reply, place)) = self.0.take() {
            detached(py, move || {
                reply.fail(io::Error::from_raw_os_error(errno));
                drop(place);
            });
        }
        // After the answer, and without a place: what an exception keeps may run Python, which may
        // read through a fetcher, and so wait for a request of which none could be made otherwise.
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

    /// Answers with what the fetcher returned.
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

    /// Answers with what the fetcher raised.
    fn failed(&self, py: Python<'_>, error: &Bound<'_, PyAny>) {
        self.fail(py, PyErr::from_value(error.clone()));
    }
}

/// One of the requests of a fetcher that are on their way.
struct RunningPlace {
    fetcher: Arc<Fetcher>,
    queue: Arc<JobQueue>,
}

impl Drop for RunningPlace {
    fn drop(&mut self) {
        self.fetcher.running.fetch_sub(1, Ordering::Relaxed);
        // One of the same fetcher may wait for this.
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
