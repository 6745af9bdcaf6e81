//! The end of the interpreter: threads that it would end inside of Rust are kept out of it.
//!
//! In:    a call from `atexit`; threads that attach to the interpreter.
//! Out:   the same threads, or their sleep until the process is gone.
//! Never: an exit that waits for longer than [`PATIENCE`].
//!
//! CPython before 3.14 ends a thread that attaches while it shuts down by `pthread_exit(3)`, whose
//! unwinding aborts the process when it meets a frame of Rust that catches panics. So threads count
//! themselves while they attach, the exit waits until there is none, and a thread that comes later
//! sleeps, as all threads do from 3.14 on. Fetchers run in threads that Python has made, without a
//! frame of Rust below them, unless a reader has waited for long and calls one itself: that is
//! counted for as long as the call takes.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use pyo3::prelude::*;

/// How long the exit waits for threads to attach: one may hold the interpreter for long.
const PATIENCE: Duration = Duration::from_secs(2);

static IS_CLOSING: AtomicBool = AtomicBool::new(false);
/// Threads that attach.
static BUSY: AtomicUsize = AtomicUsize::new(0);
/// The thread that ends the interpreter.
static LAST: OnceLock<ThreadId> = OnceLock::new();
static IDLE: Condvar = Condvar::new();
static IDLE_LOCK: Mutex<()> = Mutex::new(());

/// Counts a thread as busy.
struct Busy;

impl Busy {
    /// None if the interpreter is about to end, and another thread ends it.
    fn enter() -> Option<Self> {
        BUSY.fetch_add(1, Ordering::SeqCst);
        let busy = Self;
        let is_last = || LAST.get() == Some(&thread::current().id());
        (!IS_CLOSING.load(Ordering::SeqCst) || is_last()).then_some(busy)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        // In a forked child the count begins anew.
        let less = |busy: usize| Some(busy.saturating_sub(1));
        let before = BUSY.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
        if before == Ok(1) && IS_CLOSING.load(Ordering::SeqCst) {
            drop(IDLE_LOCK.lock());
            IDLE.notify_all();
        }
    }
}

/// Runs `act` detached from the interpreter, and attaches again.
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

/// Runs `act`, which may detach and attach again below this frame: the exit waits for it as for a
/// thread that attaches. None if the interpreter is about to end.
pub(crate) fn counted_busy<T>(act: impl FnOnce() -> T) -> Option<T> {
    let busy = Busy::enter()?;
    let result = act();
    drop(busy);
    Some(result)
}

/// A value whose drop may wait: that happens detached from the interpreter.
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
        // Where a thread cannot attach any more, it drops the value all the same.
        let _ = Python::try_attach(move |py| detached(py, move || drop(value)));
    }
}

/// Waits until no thread attaches; from then on none does.
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

/// Forgets the threads of the parent, in a forked child.
pub(crate) fn forget_threads() {
    BUSY.store(0, Ordering::SeqCst);
}
