//! Runs a blocking call in a separate thread, so that Ctrl-C can interrupt the wait. The call
//! itself runs to its end, and its result is then dropped.

use std::ffi::OsStr;
use std::future::poll_fn;
use std::panic::{self, AssertUnwindSafe};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;

use crate::errors;
use crate::waiting::wait;

/// Result of a call in another thread.
struct CallResult<T> {
    result: Option<thread::Result<T>>,
    waker: Option<Waker>,
}

/// Runs a call in a new thread, and waits for it.
///
/// # Errors
///
/// Like [`wait`]; `OSError` if the thread cannot be created.
pub(crate) fn wait_for_call<T: Send + 'static>(
    py: Python<'_>,
    name: &OsStr,
    call: impl FnOnce() -> T + Send + 'static,
    timeout: Option<Duration>,
) -> PyResult<T> {
    let shared = Arc::new(Mutex::new(CallResult { result: None, waker: None }));
    let of_thread = Arc::clone(&shared);
    // Nothing panics while it holds this lock.
    let started = thread::Builder::new().name("foreread-list".to_owned()).spawn(move || {
        let result = panic::catch_unwind(AssertUnwindSafe(call));
        let waker = {
            let mut shared = of_thread.lock().unwrap_or_else(PoisonError::into_inner);
            shared.result = Some(result);
            shared.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    });
    started.map_err(|error| errors::of_io(name, &error))?;
    let called = poll_fn(move |context| {
        let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
        match shared.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                shared.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    });
    match wait(py, name, pin!(called), timeout)? {
        Ok(value) => Ok(value),
        Err(payload) => panic::resume_unwind(payload),
    }
}
