//! Interruptible waits for futures of the engine: Ctrl-C raises the signal handler's exception and
//! drops the future. The thread waits detached from the interpreter.

use std::ffi::OsStr;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::shutdown::detached;

/// Interval between checks for signals while a thread sleeps: the largest delay of Ctrl-C.
pub(crate) const SIGNAL_CHECK: Duration = Duration::from_millis(50);

/// Wakes a thread that waits for a future.
#[derive(Debug, Default)]
struct ThreadSignal {
    is_woken: Mutex<bool>,
    changed: Condvar,
}

impl Wake for ThreadSignal {
    fn wake(self: Arc<Self>) {
        // Nothing panics while it holds this lock.
        *self.is_woken.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }
}

impl ThreadSignal {
    /// Sleeps until woken, or for [`SIGNAL_CHECK`].
    fn sleep(&self) {
        let woken = self.is_woken.lock().unwrap_or_else(PoisonError::into_inner);
        let slept = self.changed.wait_timeout_while(woken, SIGNAL_CHECK, |is_woken| !*is_woken);
        let (mut woken, _) = slept.unwrap_or_else(PoisonError::into_inner);
        *woken = false;
    }
}

/// Waits for a future, detached from the interpreter.
///
/// # Errors
///
/// An exception raised by a signal handler; `TimeoutError` with the given file name after
/// `timeout`.
pub(crate) fn wait<F>(
    py: Python<'_>,
    name: &OsStr,
    future: Pin<&mut F>,
    timeout: Option<Duration>,
) -> PyResult<F::Output>
where
    F: Future + Send,
    F::Output: Send,
{
    wait_helping(py, name, future, timeout, |_, _| Ok(()))
}

/// Like [`wait`], and calls `help` with the time waited so far: at least every [`SIGNAL_CHECK`],
/// attached to the interpreter.
///
/// # Errors
///
/// Like [`wait`], and those of `help`.
pub(crate) fn wait_helping<F>(
    py: Python<'_>,
    name: &OsStr,
    mut future: Pin<&mut F>,
    timeout: Option<Duration>,
    help: impl Fn(Python<'_>, Duration) -> PyResult<()>,
) -> PyResult<F::Output>
where
    F: Future + Send,
    F::Output: Send,
{
    let began = now();
    let signal = Arc::new(ThreadSignal::default());
    let waker = Waker::from(Arc::clone(&signal));
    // The deadline covers the whole call: partial progress does not extend it.
    let deadline = timeout.and_then(|timeout| began.checked_add(timeout));
    loop {
        let (future, signal, waker) = (future.as_mut(), &*signal, &waker);
        let polled = detached(py, move || {
            let polled = future.poll(&mut Context::from_waker(waker));
            if polled.is_pending() {
                signal.sleep();
            }
            polled
        });
        if let Poll::Ready(output) = polled {
            return Ok(output);
        }
        py.check_signals()?;
        if let (Some(deadline), Some(after)) = (deadline, timeout)
            && now() >= deadline
        {
            let why = format!(
                "not done within {after:?}: check the store and the network, or give \
                 Engine a longer timeout for calls of this size"
            );
            return Err(PyOSError::new_err((libc::ETIMEDOUT, why, name.to_owned())));
        }
        help(py, now().duration_since(began))?;
    }
}

#[expect(clippy::disallowed_methods, reason = "a call has a deadline, and a request a time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
