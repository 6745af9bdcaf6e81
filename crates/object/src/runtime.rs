//! The process-wide tokio runtime, started when a store is first used.
//!
//! Any thread may block on it, including workers of a caller's own runtime. A forked child never
//! uses the runtime or the connections of its parent.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

/// The process that created a client. A fork inherits neither the threads that drive the client's
/// connections nor usable connections.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct OwnerProcess(u32);

impl OwnerProcess {
    /// Returns the current process.
    pub(crate) fn here() -> Self {
        Self(std::process::id())
    }

    /// Returns the runtime for the requests of a client, and starts it on the first call.
    ///
    /// # Errors
    ///
    /// If the system lacks threads, sockets or memory for it, or this process is a fork of the one
    /// that created the client.
    pub(crate) fn runtime(self) -> io::Result<&'static Runtime> {
        self.check()?;
        runtime()
    }

    /// Fails unless called in this process.
    pub(crate) fn check(self) -> io::Result<()> {
        if self == Self::here() {
            return Ok(());
        }
        Err(io::Error::other(
            "this process was forked after the store's client was created, and lacks its threads; \
             open the store again in the child",
        ))
    }

    /// Runs a future on the runtime and blocks this thread until it completes.
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
            // The receiver blocks below until this is sent.
            let _ = send.send(future.await);
        });
        received.recv().map_err(|_| io::Error::other("a request to the store panicked"))
    }
}

/// Runtime of a process. A forked child leaks its parent's runtime: none of its threads exist in
/// the child, so a shutdown would wait for them indefinitely.
struct ProcessRuntime {
    process: OwnerProcess,
    runtime: Runtime,
    /// Runtime of a fork that uses stores as well.
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
                // Another thread won the race; its runtime is kept.
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

/// Runs a future as [`OwnerProcess::wait`] does. Once the flag is set, drops the future and returns
/// None.
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
        // The receiver may be gone, because it has seen the flag.
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

/// Interval at which the flag is checked, and so the latency of Ctrl-C.
const LOOKS_EVERY: Duration = Duration::from_millis(50);

/// Number of workers. They copy bodies into the cache at 1 to 2 GB/s each; more of them would take
/// processors from the readers.
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
