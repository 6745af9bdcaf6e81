//! Requests of a fetcher that a waiting reader serves itself after [`PATIENCE`], in its own thread.
//! This breaks deadlocks in which the fetcher's thread waits for a lock of the reader: Python's
//! garbage collector may run there and finalise objects that need the lock, such as h5py's.

use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use foreread::SourceIdentity;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

use super::{FetchJob, JobQueue, OpenJob};
use crate::shutdown::counted_busy;
use crate::waiting::now;

/// Time that a reader waits for other threads, and a request for the thread that took it. Most
/// fetchers take less, and are then called once per request.
const PATIENCE: Duration = Duration::from_secs(1);

/// Handle with which readers call a fetcher themselves.
#[derive(Clone)]
pub(crate) struct FetchRescue {
    queue: Arc<JobQueue>,
    identity: SourceIdentity,
}

impl FetchRescue {
    pub(super) fn new(queue: Arc<JobQueue>, identity: SourceIdentity) -> Self {
        Self { queue, identity }
    }

    /// Serves an unanswered request of the fetcher, if the caller has waited long enough.
    ///
    /// # Errors
    ///
    /// An exception of the call that is meant for the caller, such as `KeyboardInterrupt`. Any
    /// other exception becomes the answer.
    pub(crate) fn help(&self, py: Python<'_>, waited: Duration) -> PyResult<()> {
        if waited < PATIENCE {
            return Ok(());
        }
        let Some(job) = self.late_job() else { return Ok(()) };
        let job = FetchJob(job);
        let range = &job.0.range;
        let called = counted_busy(|| job.0.fetcher.fetch.call1(py, (range.start, range.end)));
        match called {
            None => {}
            Some(Ok(answer)) => job.done(py, answer.bind(py)),
            Some(Err(error)) if error.is_instance_of::<PyException>(py) => job.fail(py, error),
            Some(Err(error)) => return Err(error),
        }
        Ok(())
    }

    /// Returns a request without a thread, or one that its thread has held for too long.
    fn late_job(&self) -> Option<Arc<OpenJob>> {
        let mut state = self.queue.lock();
        let is_ours = |identity: &SourceIdentity| *identity == self.identity;
        let waiting = state.waiting.iter().position(|job| is_ours(&job.fetcher.identity));
        if let Some(at) = waiting {
            return state.take_waiting(at, &self.queue);
        }
        let taken: Vec<_> = state.taken.iter().filter_map(Weak::upgrade).collect();
        drop(state);
        taken.into_iter().find(|job| is_ours(&job.fetcher.identity) && job.is_late())
    }
}

impl OpenJob {
    /// Returns true if its thread has held it for too long. From then on the caller holds it as
    /// well.
    fn is_late(&self) -> bool {
        // Nothing panics while it holds these locks.
        let is_open = self.open.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let is_late = is_open && now().duration_since(*taken) >= PATIENCE;
        if is_late {
            *taken = now();
        }
        is_late
    }
}
