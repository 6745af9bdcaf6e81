//! The flush at the end of a server, with a time limit even if the device hangs.
//!
//! Its threads are started before the first client connects: the system may refuse them at the
//! end, and acknowledged writes would be lost.
//!
//! ```text
//!   prepare()  before the first client: two threads, which wait
//!   run()      --> flusher: store.flush() --- in time -----> all is well, or the device's error
//!              '-- waits, at most exit_timeout -- over ---> not flushed; the thread is left behind
//! ```
//!
//! A system call that blocks on a device cannot be cancelled, so the flush has its own thread. One
//! that is left behind ends with the process.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

use super::ServerState;
use crate::ServeError;

/// The threads that the last flush needs, from before the first write is acknowledged.
pub(super) struct LastFlush {
    flusher: StandbyThread<io::Result<()>>,
    counter: StandbyThread<Option<u64>>,
}

/// A thread that waits for its one job.
struct StandbyThread<T>(Sender<(Job<T>, Sender<T>)>);

type Job<T> = Box<dyn FnOnce() -> T + Send>;

impl LastFlush {
    /// Starts the threads.
    ///
    /// # Errors
    ///
    /// If the system gives none: then no write can be promised to be flushed at the end.
    pub(super) fn prepare() -> Result<Self, ServeError> {
        let started = || {
            let flusher = StandbyThread::start("foreread-flush")?;
            Ok(Self { flusher, counter: StandbyThread::start("foreread-count")? })
        };
        started().map_err(|source| ServeError::System { doing: "start a thread", source })
    }

    /// Flushes the writes of clients.
    pub(super) fn run(self, shared: &Arc<ServerState>) -> Result<(), ServeError> {
        let Self { flusher, counter } = self;
        let store = Arc::clone(&shared.store);
        let after = shared.limits.exit_timeout;
        let target = || shared.export.description.clone();
        match flusher.run_within(after, move || store.flush()) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                let (bytes, source) = (dirty_bytes(counter, shared), error.into());
                Err(ServeError::Flush { target: target(), bytes, source })
            }
            Err(RecvTimeoutError::Timeout) => {
                let bytes = dirty_bytes(counter, shared);
                Err(ServeError::NotFlushed { target: target(), bytes, after })
            }
            // It panicked.
            Err(RecvTimeoutError::Disconnected) => Err(ServeError::Lost),
        }
    }
}

/// Returns the number of dirty bytes. None if that takes too long: a thread that is blocked in the
/// kernel may hold the engine's lock.
fn dirty_bytes(counter: StandbyThread<Option<u64>>, shared: &Arc<ServerState>) -> Option<u64> {
    let asked = Arc::clone(shared);
    let count = move || asked.engine.counters().ok().map(|counted| counted.dirty);
    counter.run_within(LOOK, count).ok().flatten()
}

impl<T: Send + 'static> StandbyThread<T> {
    fn start(name: &str) -> io::Result<Self> {
        let (jobs, job) = mpsc::channel::<(Job<T>, Sender<T>)>();
        let thread = std::thread::Builder::new().name(name.to_owned()).stack_size(STACK);
        thread.spawn(move || {
            // It is dropped unused where there is nothing to flush.
            if let Ok((job, result)) = job.recv() {
                // The one that waits may have given up.
                let _ = result.send(job());
            }
        })?;
        Ok(Self(jobs))
    }

    /// Has the thread run `job`, and waits for its result, at most `time`.
    fn run_within(
        self,
        time: Duration,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, RecvTimeoutError> {
        let (sender, result) = mpsc::channel();
        // A thread that has ended drops the sender, which the wait reports.
        let _ = self.0.send((Box::new(job), sender));
        result.recv_timeout(time)
    }
}

/// Taking the engine's lock, where all is well, is a matter of microseconds.
const LOOK: Duration = Duration::from_secs(1);
/// Stack size, as in the blocking pool.
const STACK: usize = 256 << 10;
