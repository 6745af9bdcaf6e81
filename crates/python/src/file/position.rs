//! The position of a file, held by one thread at a time. Other threads wait detached from the
//! interpreter and check for signals; a thread that already holds it gets an error.
//!
//! ```text
//!   take() -> free: the caller has it       -> dropped: written back, the next one is woken
//!          -> another thread has it: waits, and looks for signals every 50 ms
//!          -> this thread has it: RuntimeError
//! ```

use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::shutdown::detached;
use crate::waiting::SIGNAL_CHECK;

#[derive(Debug, Default)]
pub(super) struct Position {
    state: Mutex<PositionState>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct PositionState {
    at: u64,
    /// Thread that holds it: [`this_thread`], or 0.
    holder: usize,
}

/// Exclusive access to the position, until this is dropped.
pub(super) struct PositionGuard<'s> {
    position: &'s Position,
    at: u64,
}

impl Position {
    /// Takes the position, waiting detached while another thread holds it.
    ///
    /// # Errors
    ///
    /// `RuntimeError` if this thread holds it: a signal handler that uses the file it has
    /// interrupted would deadlock. An exception raised by a signal handler.
    pub(super) fn take(&self, py: Python<'_>) -> PyResult<PositionGuard<'_>> {
        loop {
            let mut state = self.lock();
            if state.holder == 0 {
                state.holder = this_thread();
                return Ok(PositionGuard { position: self, at: state.at });
            }
            if state.holder == this_thread() {
                let why = "reentrant call: this thread is reading from this file already";
                return Err(PyRuntimeError::new_err(why));
            }
            drop(state);
            detached(py, || {
                let is_held = |state: &mut PositionState| state.holder != 0;
                drop(self.freed.wait_timeout_while(self.lock(), SIGNAL_CHECK, is_held));
            });
            py.check_signals()?;
        }
    }

    fn lock(&self) -> MutexGuard<'_, PositionState> {
        // Nothing panics while it holds this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Deref for PositionGuard<'_> {
    type Target = u64;

    fn deref(&self) -> &u64 {
        &self.at
    }
}

impl DerefMut for PositionGuard<'_> {
    fn deref_mut(&mut self) -> &mut u64 {
        &mut self.at
    }
}

impl Drop for PositionGuard<'_> {
    fn drop(&mut self) {
        *self.position.lock() = PositionState { at: self.at, holder: 0 };
        self.position.freed.notify_one();
    }
}

/// Returns a non-zero number that is unique among living threads.
fn this_thread() -> usize {
    thread_local!(static MARK: u8 = const { 0 });
    MARK.with(|mark| std::ptr::from_ref(mark).addr())
}
