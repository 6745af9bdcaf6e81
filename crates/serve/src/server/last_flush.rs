//! The flush at the end of a server: it has a bound, whatever the device does.
//!
//! In:    a server that takes no more requests.
//! Out:   all is on the device; or how much is not, and why.
//! Never: a wait for a device that does not answer, beyond the limit.
//!
//! ```text
//!   run()   --> thread: store.flush() --- in time -----> all is well, or the device's error
//!           '-- waits, at most exit_timeout -- over ---> not flushed; the thread is left behind
//! ```
//!
//! A thread of its own, because a system call that waits for a device cannot be called back. What
//! is left behind ends with the process.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use super::ServerState;
use crate::ServeError;

/// Flushes what clients wrote.
pub(super) fn flush(shared: &Arc<ServerState>) -> Result<(), ServeError> {
    let store = Arc::clone(&shared.store);
    let flushed = in_a_thread(move || store.flush())?;
    let after = shared.limits.exit_timeout;
    let target = || shared.export.description.clone();
    match flushed.recv_timeout(after) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => {
            let (bytes, source) = (dirty_bytes(shared), error.into());
            Err(ServeError::Flush { target: target(), bytes, source })
        }
        Err(RecvTimeoutError::Timeout) => {
            let bytes = dirty_bytes(shared);
            Err(ServeError::NotFlushed { target: target(), bytes, after })
        }
        // It panicked.
        Err(RecvTimeoutError::Disconnected) => Err(ServeError::Lost),
    }
}

/// How much is in memory only. None if that cannot be found out in time: the engine's lock may be
/// held by a thread that the kernel does not let go.
fn dirty_bytes(shared: &Arc<ServerState>) -> Option<u64> {
    let asked = Arc::clone(shared);
    let dirty =
        in_a_thread(move || asked.engine.counters().map_or(0, |counted| counted.dirty.0)).ok()?;
    dirty.recv_timeout(LOOK).ok()
}

fn in_a_thread<T: Send + 'static>(
    call: impl FnOnce() -> T + Send + 'static,
) -> Result<Receiver<T>, ServeError> {
    let (sender, receiver) = mpsc::channel();
    let thread = std::thread::Builder::new().name("foreread-flush".into()).stack_size(STACK);
    let spawned = thread.spawn(move || {
        // The one that waits may have given up.
        let _ = sender.send(call());
    });
    match spawned {
        Ok(_) => Ok(receiver),
        Err(source) => Err(system(source)),
    }
}

fn system(source: io::Error) -> ServeError {
    ServeError::System { doing: "start a thread for the last flush", source }
}

/// Taking the engine's lock, where all is well, is a matter of microseconds.
const LOOK: Duration = Duration::from_secs(1);
/// As a thread of the blocking pool.
const STACK: usize = 256 << 10;
