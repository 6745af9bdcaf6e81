//! Interpreter shutdown: keeps threads with Rust frames from attaching while the interpreter would
//! terminate them. The exit waits for at most [`PATIENCE`].
//!
//! CPython before 3.14 terminates a thread that attaches during shutdown with `pthread_exit(3)`,
//! whose unwinding aborts the process at a Rust frame that catches panics. So threads count
//! themselves while they attach, the exit waits until the count is 0, and a later thread sleeps, as
//! all threads do from 3.14 on. Fetchers run in threads created by Python, without a Rust frame
//! below them, except when a reader calls one itself after a long wait: that counts for the
//! duration of the call.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use pyo3::prelude::*;

/// Time that the exit waits for attaching threads: one may hold the interpreter for long.
const PATIENCE: Duration = Duration::from_secs(2);

static IS_CLOSING: AtomicBool = AtomicBool::new(false);
/// Number of attaching threads.
static BUSY: AtomicUsize = AtomicUsize::new(0);
/// The thread that shuts down the interpreter.
static LAST: OnceLock<ThreadId> = OnceLock::new();
static IDLE: Condvar = Condvar::new();
static IDLE_LOCK: Mutex<()> = Mutex::new(());

/// Counts the current thread as busy.
struct Busy;

impl Busy {
    /// Returns None if another thread is shutting down the interpreter.
    fn enter() -> Option<Self> {
        BUSY.fetch_add(1, Ordering::SeqCst);
        let busy = Self;
        let is_last = || LAST.get() == Some(&thread::current().id());
        (!IS_CLOSING.load(Ordering::SeqCst) || is_last()).then_some(busy)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        // A forked child resets the count.
        let less = |busy: usize| Some(busy.saturating_sub(1));
        let before = BUSY.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
        if before == Ok(1) && IS_CLOSING.load(Ordering::SeqCst) {
            drop(IDLE_LOCK.lock());
            IDLE.notify_all();
        }
    }
}

/// Runs `act` detached from the interpreter, then attaches again.
pub(crate) fn detached<T, F>(py: Python<'_>, act: F) -> T
where
    F: Send + FnOnce() -> T,
    T: Send,
{
    let (result, busy) = py.detach(|| {
        let result = act();
        let Some(busy) = Busy::enter() else {
            loop {
                thread::park();
            }
        };
        (result, busy)
    });
    drop(busy);
    result
}

/// Runs `act`, which may detach and attach again: the exit waits for it as for an attaching thread.
/// Returns None if the interpreter is shutting down.
pub(crate) fn counted_busy<T>(act: impl FnOnce() -> T) -> Option<T> {
    let busy = Busy::enter()?;
    let result = act();
    drop(busy);
    Some(result)
}

/// A value that is dropped detached from the interpreter, because the drop may wait.
pub(crate) struct DroppedDetached<T: Send>(Option<T>);

impl<T: Send> DroppedDetached<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Some(value))
    }
}

impl<T: Send> Deref for DroppedDetached<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("the value is there until it is dropped")
    }
}

impl<T: Send> Drop for DroppedDetached<T> {
    fn drop(&mut self) {
        let value = self.0.take();
        // A thread that can no longer attach still drops the value.
        let _ = Python::try_attach(move |py| detached(py, move || drop(value)));
    }
}

/// Blocks until no thread is attaching, and keeps any from attaching afterwards.
#[pyfunction]
pub(crate) fn note_exit(py: Python<'_>) {
    let _ = LAST.set(thread::current().id());
    IS_CLOSING.store(true, Ordering::SeqCst);
    py.detach(|| {
        let lock = IDLE_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        let is_busy = |(): &mut ()| BUSY.load(Ordering::SeqCst) > 0;
        drop(IDLE.wait_timeout_while(lock, PATIENCE, is_busy));
    });
}

/// Resets the count of the parent's threads, in a forked child.
pub(crate) fn forget_threads() {
    BUSY.store(0, Ordering::SeqCst);
}
