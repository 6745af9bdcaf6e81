//! The one tokio runtime of the process, started when a store is used first.
//!
//! In:    futures.
//! Out:   their results, also for threads that are no tasks.
//! Never: a runtime in a process that reads no object. A call that blocks a worker of the runtime
//!        on itself: a caller's own runtime may call everything here. A connection that a forked
//!        child shares with its parent.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

/// The process in which a client was made. A fork of it has neither the threads that drive the
/// client's connections nor connections of its own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct OwnerProcess(u32);

impl OwnerProcess {
    /// Returns this process.
    pub(crate) fn here() -> Self {
        Self(std::process::id())
    }

    /// Returns the runtime for the requests of a client; starts it if this is the first call.
    ///
    /// # Errors
    ///
    /// If the system has no thread, socket or memory for it, or the client was made in a process
    /// of which this one is a fork.
    pub(crate) fn runtime(self) -> io::Result<&'static Runtime> {
        self.check()?;
        runtime()
    }

    /// Checks that this is the process.
    pub(crate) fn check(self) -> io::Result<()> {
        if self == Self::here() {
            return Ok(());
        }
        Err(io::Error::other(
            "this process was forked after the client of the store was made, and has none of the \
             threads that drive it; open the store anew in the child",
        ))
    }

    /// Runs a future on the runtime and blocks this thread until it is over.
    ///
    /// # Errors
    ///
    /// If there is no runtime, or the future panics.
    pub(crate) fn wait<T: Send + 'static>(
        self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> io::Result<T> {
        let (send, received) = mpsc::sync_channel(1);
        self.runtime()?.spawn(async move {
            // The receiver waits below until this is sent.
            let _ = send.send(future.await);
        });
        received.recv().map_err(|_| io::Error::other("a request to the store panicked"))
    }
}

/// The runtime of a process. That of its parent stays as it is in a forked child: it has no threads
/// there, and to end it would be to wait for them.
struct ProcessRuntime {
    process: OwnerProcess,
    runtime: Runtime,
    /// Of a fork that uses stores as well.
    of_fork: RuntimeSlot,
}

type RuntimeSlot = OnceLock<Box<ProcessRuntime>>;

/// Returns the runtime of this process.
fn runtime() -> io::Result<&'static Runtime> {
    static FIRST: RuntimeSlot = OnceLock::new();

    let process = OwnerProcess::here();
    let mut slot = &FIRST;
    let mut spare: Option<Box<ProcessRuntime>> = None;
    loop {
        match slot.get() {
            Some(there) if there.process == process => {
                // A thread that was faster has started one, too; its own is kept.
                if let Some(spare) = spare {
                    spare.runtime.shutdown_background();
                }
                return Ok(&there.runtime);
            }
            Some(there) => slot = &there.of_fork,
            None => {
                let started = spare.take().map_or_else(|| start(process), Ok)?;
                spare = slot.set(started).err();
            }
        }
    }
}

fn start(process: OwnerProcess) -> io::Result<Box<ProcessRuntime>> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .thread_name("foreread-object")
        .enable_all()
        .build()?;
    Ok(Box::new(ProcessRuntime { process, runtime, of_fork: OnceLock::new() }))
}

/// Runs a future as [`OwnerProcess::wait`] does; but None, and the future is dropped, once the flag
/// is set.
///
/// # Errors
///
/// As [`OwnerProcess::wait`].
pub(crate) fn wait_unless<T: Send + 'static>(
    stopped: &AtomicBool,
    future: impl Future<Output = T> + Send + 'static,
) -> io::Result<Option<T>> {
    let (send, received) = mpsc::sync_channel(1);
    let task = runtime()?.spawn(async move {
        // The receiver may have seen the flag.
        let _ = send.send(future.await);
    });
    loop {
        match received.recv_timeout(LOOKS_EVERY) {
            Ok(result) => return Ok(Some(result)),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(io::Error::other("a request to the store panicked"));
            }
            Err(RecvTimeoutError::Timeout) if stopped.load(Ordering::Relaxed) => {
                task.abort();
                return Ok(None);
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// How soon Ctrl-C is seen.
const LOOKS_EVERY: Duration = Duration::from_millis(50);

/// Bodies are copied into the cache by the workers: 1 to 2 GB/s each. More would take processors
/// from the readers.
const WORKERS: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_and_a_task_of_another_runtime_can_wait() {
        let here = OwnerProcess::here();
        assert_eq!(here.wait(async { 1 }).unwrap(), 1);
        let other = Builder::new_current_thread().build().unwrap();
        assert_eq!(other.block_on(async { here.wait(async { 2 }).unwrap() }), 2);
    }

    #[test]
    fn a_future_that_never_ends_is_dropped_once_the_flag_is_set() {
        let (held, dropped) = mpsc::sync_channel::<()>(0);
        let stopped = AtomicBool::new(true);
        let endless = async move {
            let _held = held;
            std::future::pending::<()>().await;
        };
        assert_eq!(wait_unless(&stopped, endless).unwrap(), None);
        assert_eq!(dropped.recv(), Err(mpsc::RecvError), "its parts are dropped");
        stopped.store(false, Ordering::Relaxed);
        assert_eq!(wait_unless(&stopped, async { 5 }).unwrap(), Some(5));
    }

    #[test]
    fn a_panic_of_a_request_is_an_error() {
        async fn broken() -> u32 {
            panic!("on purpose")
        }
        let here = OwnerProcess::here();
        assert!(here.wait(broken()).is_err());
        assert_eq!(here.wait(async { 3 }).unwrap(), 3, "and the next one runs");
    }
}
