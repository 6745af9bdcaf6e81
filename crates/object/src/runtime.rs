//! The one tokio runtime of the process, started when a store is used first.
//!
//! In:    futures.
//! Out:   their results, also for threads that are no tasks.
//! Never: a runtime in a process that reads no object. A call that blocks a worker of the runtime
//!        on itself: a caller's own runtime may call everything here.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

/// Returns the runtime; starts it if this is the first call.
///
/// # Errors
///
/// If the system has no thread, socket or memory for it, or this process is a fork of one that has
/// started it: the child has none of its threads, and would wait for them without end.
pub(crate) fn runtime() -> io::Result<&'static Runtime> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    static STARTED_BY: OnceLock<u32> = OnceLock::new();

    let process = std::process::id();
    if *STARTED_BY.get_or_init(|| process) != process {
        return Err(io::Error::other(
            "this process was forked after its parent had used a store, and has none of the \
             parent's threads; use stores only after the fork, or start a new program",
        ));
    }
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let started = Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .thread_name("foreread-object")
        .enable_all()
        .build()?;
    // A thread that was faster has started one, too; its own is kept.
    let mut spare = Some(started);
    let runtime = RUNTIME.get_or_init(|| spare.take().expect("it was not yet taken"));
    if let Some(spare) = spare {
        spare.shutdown_background();
    }
    Ok(runtime)
}

/// Runs a future on the runtime and blocks this thread until it is over.
///
/// # Errors
///
/// If there is no runtime, or the future panics.
pub(crate) fn wait<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> io::Result<T> {
    let (send, received) = mpsc::sync_channel(1);
    runtime()?.spawn(async move {
        // The receiver waits below until this is sent.
        let _ = send.send(future.await);
    });
    received.recv().map_err(|_| io::Error::other("a request to the store panicked"))
}

/// The same; but None, and the future is dropped, once the flag is set.
///
/// # Errors
///
/// As [`wait`].
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
        assert_eq!(wait(async { 1 }).unwrap(), 1);
        let other = Builder::new_current_thread().build().unwrap();
        assert_eq!(other.block_on(async { wait(async { 2 }).unwrap() }), 2);
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
        assert!(wait(broken()).is_err());
        assert_eq!(wait(async { 3 }).unwrap(), 3, "and the next one runs");
    }
}
