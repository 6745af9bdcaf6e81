//! Requests of a fetcher that a waiting reader makes itself.
//!
//! In:    a reader that has waited for [`PATIENCE`].
//! Out:   the fetcher's bytes, fetched in the reader's thread.
//! Never: a wait without end for a thread that waits for a lock of the reader: Python's collector
//!        may run in a fetcher's thread and end objects that need it, such as those of h5py.

use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use foreread::SourceIdentity;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

use super::{FetchJob, JobQueue, OpenJob};
use crate::shutdown::counted_busy;
use crate::waiting::now;

/// How long a reader waits for other threads, and a request for the thread that has taken it: more
/// than most fetchers take, which are then called once for each request.
const PATIENCE: Duration = Duration::from_secs(1);

/// Lets readers of a fetcher call it themselves.
#[derive(Clone)]
pub(crate) struct FetchRescue {
    queue: Arc<JobQueue>,
    identity: SourceIdentity,
}

impl FetchRescue {
    pub(super) fn new(queue: Arc<JobQueue>, identity: SourceIdentity) -> Self {
        Self { queue, identity }
    }

    /// Makes a request of the fetcher that no other thread has answered, if the caller has waited
    /// for long.
    ///
    /// # Errors
    ///
    /// What the call has raised that is for the caller, such as `KeyboardInterrupt`. Another
    /// exception is the answer.
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

    /// A request that waits for a thread, or that a thread has for too long.
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
    /// Whether the thread that took it has had it for long. The caller has it from now on, too.
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
