//! Runs work in a separate thread, so that Ctrl-C can stop it and other Python threads continue.
//! The work polls a stop flag, runs no Python, and never outlives the call.

use std::any::Any;
use std::ffi::OsStr;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::shutdown::detached;
use crate::waiting::wait;

type WorkResult<T> = Result<T, Box<dyn Any + Send>>;

/// Runs `work` in another thread, and waits for it detached from the interpreter.
///
/// # Errors
///
/// An exception raised by a signal handler. The stop flag is then set, and the result of `work`
/// dropped.
pub(super) fn run<T, W>(py: Python<'_>, name: &OsStr, work: W) -> PyResult<T>
where
    T: Send + 'static,
    W: FnOnce(&Arc<AtomicBool>) -> T + Send + 'static,
{
    let stop = Arc::new(AtomicBool::new(false));
    let ending = Arc::new(WorkEnding::default());
    let (its_stop, its_ending) = (Arc::clone(&stop), Arc::clone(&ending));
    let body = move || its_ending.set(catch_unwind(AssertUnwindSafe(|| work(&its_stop))));
    let spawned = thread::Builder::new().name("foreread-sim".into()).spawn(body);
    let worker = spawned.map_err(|error| {
        PyOSError::new_err(format!("no thread for the simulator: {error}; are there too many?"))
    })?;
    let result = wait(py, name, pin!(WorkFuture(ending)), None);
    stop.store(true, Ordering::Relaxed);
    let joined = detached(py, || worker.join());
    assert!(joined.is_ok(), "the worker catches every panic of its work");
    match result? {
        Ok(value) => Ok(value),
        Err(panic) => resume_unwind(panic),
    }
}

/// Result of the work, for the waiting thread.
struct WorkEnding<T>(Mutex<(Option<WorkResult<T>>, Option<Waker>)>);

impl<T> Default for WorkEnding<T> {
    fn default() -> Self {
        Self(Mutex::new((None, None)))
    }
}

impl<T> WorkEnding<T> {
    fn set(&self, result: WorkResult<T>) {
        let waker = {
            let mut ending = self.lock();
            ending.0 = Some(result);
            ending.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, (Option<WorkResult<T>>, Option<Waker>)> {
        // Nothing panics while it holds this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct WorkFuture<T>(Arc<WorkEnding<T>>);

impl<T> Future for WorkFuture<T> {
    type Output = WorkResult<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut ending = self.0.lock();
        if let Some(result) = ending.0.take() {
            return Poll::Ready(result);
        }
        ending.1 = Some(context.waker().clone());
        Poll::Pending
    }
}
