//! Background thread: reaps completions, dispatches requests, wakes tasks and writes back aged
//! pages. It starts lazily, at the first wake-up.
//!
//! It does nothing while another thread waits for a page: the waiting thread drives the engine, as
//! a hop between threads would cost more than fifteen hits.

use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Wakes the background thread, and ends it.
pub(crate) struct BackgroundWaker {
    state: Mutex<BackgroundState>,
    changed: Condvar,
    drive: Box<Drive>,
}

/// Drives the engine for as long as no other thread does. Returns the longest time to sleep, or
/// `Break` once the engine has ended.
type Drive = dyn Fn() -> ControlFlow<(), Option<Duration>> + Send + Sync;

#[derive(Debug, Default)]
struct BackgroundState {
    is_started: bool,
    is_woken: bool,
    is_closed: bool,
}

impl BackgroundWaker {
    pub(crate) fn new(drive: Box<Drive>) -> Self {
        Self { state: Mutex::default(), changed: Condvar::new(), drive }
    }

    /// Starts the thread unless it is running already.
    pub(crate) fn start(self: &Arc<Self>) -> io::Result<()> {
        let mut state = self.lock();
        if state.is_started {
            return Ok(());
        }
        let background = Arc::clone(self);
        let thread = std::thread::Builder::new().name("foreread".into()).stack_size(STACK);
        thread.spawn(move || background.run())?;
        state.is_started = true;
        Ok(())
    }

    /// Wakes the thread, starting it if necessary. If the system refuses a thread, the next reader
    /// drives the engine.
    pub(crate) fn wake(self: &Arc<Self>) {
        if self.start().is_ok() {
            self.lock().is_woken = true;
            self.changed.notify_one();
        }
    }

    /// Wakes the thread if it is running, for work that may wait for the next reader.
    pub(crate) fn wake_if_started(&self) {
        let mut state = self.lock();
        state.is_woken |= state.is_started;
        drop(state);
        self.changed.notify_one();
    }

    /// Ends the thread when the engine ends.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_one();
    }

    fn run(&self) {
        let mut at_most = None;
        while self.wait(at_most) {
            match (self.drive)() {
                ControlFlow::Continue(rest) => at_most = rest,
                ControlFlow::Break(()) => return,
            }
        }
    }

    /// Blocks until a wake-up, or for `at_most` if that is set. Returns false once the engine has
    /// ended.
    fn wait(&self, at_most: Option<Duration>) -> bool {
        let is_quiet = |state: &mut BackgroundState| !state.is_woken && !state.is_closed;
        let state = self.lock();
        let mut state = match at_most {
            None => {
                self.changed.wait_while(state, is_quiet).unwrap_or_else(PoisonError::into_inner)
            }
            Some(at_most) => {
                let waited = self.changed.wait_timeout_while(state, at_most, is_quiet);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        state.is_woken = false;
        !state.is_closed
    }

    fn lock(&self) -> MutexGuard<'_, BackgroundState> {
        // Nothing panics while it holds this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for BackgroundWaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackgroundWaker").field("state", &self.state).finish_non_exhaustive()
    }
}

/// Stack of the thread, which calls the core, the ring and wakers of executors. None of them nests
/// deeply.
const STACK: usize = 512 << 10;
