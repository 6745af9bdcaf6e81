//! The ring where io_uring is forbidden, and the durable writes of an io_uring: at most
//! [`THREADS_MAX`] threads call `preadv` and `pwritev2`. They start with the first transfer, end
//! with the ring, and hold no lock during a system call.
//!
//! ```text
//!   start() --> queue --> worker: preadv    --> done --> completion()
//!                         worker: pwritev2       |
//!                         ..                     +--> wakes the sleeper, or rings the doorbell
//! ```

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use super::Completion;
use super::transfer::Transfer;
use crate::faults::Faults;
use crate::pool::Pool;

#[derive(Debug)]
pub(super) struct Threads {
    shared: Arc<WorkerShared>,
    workers: Vec<JoinHandle<()>>,
    in_flight: usize,
    pool: Arc<Pool>,
    why: String,
    /// Fault rules that may hold a worker back, in tests.
    holders: Vec<Weak<Faults>>,
    /// The process that created the ring: its threads do not exist in a forked child.
    process: u32,
}

#[derive(Debug, Default)]
pub(super) struct WorkerShared {
    state: Mutex<WorkerState>,
    /// Signals work in `queue`, or the end.
    has_work: Condvar,
    /// Signals a completion in `done`, or a wake.
    has_news: Condvar,
    /// An eventfd that is signalled at each completion, if the sleeper waits elsewhere.
    doorbell: Option<OwnedFd>,
}

#[derive(Debug, Default)]
struct WorkerState {
    /// Waiting transfers; bounded by the in-flight limit.
    queue: VecDeque<(u64, Transfer)>,
    done: VecDeque<Completion>,
    /// Number of idle workers.
    idle: usize,
    /// Whether a thread waits for completions: notifying a condition variable is a system call even
    /// if none waits.
    is_asleep: bool,
    is_woken: bool,
    is_ending: bool,
}

impl Threads {
    pub(super) fn new(pool: &Arc<Pool>, why: String) -> Self {
        Self::with_doorbell(pool, why, None)
    }

    /// Creates threads that signal an eventfd at each completion.
    pub(super) fn with_doorbell(
        pool: &Arc<Pool>,
        why: String,
        doorbell: impl Into<Option<OwnedFd>>,
    ) -> Self {
        Self {
            shared: Arc::new(WorkerShared { doorbell: doorbell.into(), ..WorkerShared::default() }),
            workers: Vec::new(),
            in_flight: 0,
            pool: Arc::clone(pool),
            why,
            holders: Vec::new(),
            process: std::process::id(),
        }
    }

    pub(super) fn shared(&self) -> Arc<WorkerShared> {
        Arc::clone(&self.shared)
    }

    pub(super) fn why(&self) -> &str {
        &self.why
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub(super) fn start(&mut self, tag: u64, transfer: Transfer) {
        if let Some(mut transfer) = self.try_start(tag, transfer) {
            // The system refuses every thread: do the work here, slowly but correctly.
            let result = transfer.run();
            self.in_flight += 1;
            self.shared.state().done.push_back(Completion { tag, result });
        }
    }

    /// Starts a transfer, or returns it if there is no thread and the system refuses one.
    pub(super) fn try_start(&mut self, tag: u64, transfer: Transfer) -> Option<Transfer> {
        if transfer.gate().is_some() {
            self.holders.extend(transfer.backend.faults.as_ref().map(Arc::downgrade));
        }
        let mut state = self.shared.state();
        state.queue.push_back((tag, transfer));
        let (is_short, is_idle) = (state.queue.len() > state.idle, state.idle > 0);
        drop(state);
        if is_idle {
            self.shared.has_work.notify_one();
        }
        self.in_flight += 1;
        if is_short && self.workers.len() < THREADS_MAX && !self.add_worker() {
            // The existing workers do it all.
            if self.workers.is_empty() {
                self.in_flight -= 1;
                return self.shared.state().queue.pop_back().map(|(_, transfer)| transfer);
            }
        }
        None
    }

    pub(super) fn completion(&mut self) -> Option<Completion> {
        let mut state = self.shared.state();
        state.is_woken = false;
        let completion = state.done.pop_front()?;
        drop(state);
        self.in_flight -= 1;
        Some(completion)
    }

    pub(super) fn wake(&mut self) {
        let mut state = self.shared.state();
        state.is_woken = true;
        self.shared.tell(state);
    }

    /// Starts another worker. Returns false if the system refuses the thread.
    fn add_worker(&mut self) -> bool {
        let (shared, pool) = (Arc::clone(&self.shared), Arc::clone(&self.pool));
        let name = format!("foreread-{}", self.workers.len());
        let worker = Builder::new().name(name).stack_size(STACK).spawn(move || {
            shared.work();
            // The arena must outlive the worker's transfers.
            drop(pool);
        });
        let is_started = worker.is_ok();
        self.workers.extend(worker);
        is_started
    }
}

impl WorkerShared {
    pub(super) fn wait(&self, at_most: Option<Duration>) -> io::Result<()> {
        let mut state = self.state();
        if !state.has_no_news() {
            return Ok(());
        }
        state.is_asleep = true;
        let quiet = |state: &mut WorkerState| state.has_no_news();
        let mut state = match at_most {
            None => self.has_news.wait_while(state, quiet).expect(NO_PANIC),
            Some(time) => self.has_news.wait_timeout_while(state, time, quiet).expect(NO_PANIC).0,
        };
        state.is_asleep = false;
        Ok(())
    }

    /// Runs transfers until the end.
    fn work(&self) {
        let mut state = self.state();
        loop {
            if state.is_ending {
                return;
            }
            let Some((tag, mut transfer)) = state.queue.pop_front() else {
                state.idle += 1;
                state = self.has_work.wait(state).expect(NO_PANIC);
                state.idle -= 1;
                continue;
            };
            drop(state);
            let result = transfer.run();
            // The descriptor may be the last of its file: close it without the lock.
            drop(transfer);
            state = self.state();
            state.done.push_back(Completion { tag, result });
            self.tell(state);
            state = self.state();
        }
    }

    /// Wakes the thread that waits for completions.
    fn tell(&self, state: MutexGuard<'_, WorkerState>) {
        let is_asleep = state.is_asleep;
        drop(state);
        if is_asleep {
            self.has_news.notify_one();
        }
        if let Some(doorbell) = &self.doorbell {
            // It fails only if 2^64 - 2 signals are pending: then one is.
            let _ = rustix::io::write(doorbell, &1_u64.to_ne_bytes());
        }
    }

    /// Returns the eventfd.
    pub(super) fn doorbell(&self) -> Option<&OwnedFd> {
        self.doorbell.as_ref()
    }

    fn state(&self) -> MutexGuard<'_, WorkerState> {
        self.state.lock().expect(NO_PANIC)
    }
}

impl WorkerState {
    fn has_no_news(&self) -> bool {
        self.done.is_empty() && !self.is_woken
    }
}

impl Drop for Threads {
    /// Waits for running transfers, and drops queued ones.
    fn drop(&mut self) {
        if std::process::id() != self.process {
            std::mem::forget(std::mem::take(&mut self.workers));
            return;
        }
        let mut state = self.shared.state();
        state.is_ending = true;
        // A sleeper's handle may live on, but these descriptors must not.
        state.queue.clear();
        drop(state);
        self.shared.has_work.notify_all();
        for faults in self.holders.drain(..).filter_map(|faults| faults.upgrade()) {
            faults.let_go();
        }
        for worker in self.workers.drain(..) {
            let ended = worker.join();
            debug_assert!(ended.is_ok(), "a worker does not panic");
        }
    }
}

/// Enough to keep eight devices busy while as many transfers wait; each thread costs a stack and a
/// context switch.
const THREADS_MAX: usize = 16;

/// No code between lock and unlock panics.
const NO_PANIC: &str = "no code panics with this lock";

/// A worker's call chain is shallow.
const STACK: usize = 64 << 10;
