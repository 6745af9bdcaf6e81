//! A signal that a reader waits for a request in flight at a source. The waker is never called
//! under the engine's mutex, nor kept after the request has ended.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// A future that is ready once a reader waits for a request that was already in flight:
/// [`Reply::joined`](crate::Reply::joined). If no reader does, it is never ready. Only one task at
/// a time can wait for it: the last to poll.
#[must_use = "it does nothing until it is polled"]
pub struct Joined(pub(super) Arc<JoinSignal>);

/// The signal shared by a request's driver and its source.
#[derive(Debug, Default)]
pub(super) struct JoinSignal(Mutex<JoinState>);

#[derive(Debug, Default)]
struct JoinState {
    is_joined: bool,
    waker: Option<Waker>,
}

impl JoinSignal {
    /// Records that a reader waits. Returns the waker to call once the mutex is free.
    pub(super) fn join(&self) -> Option<Waker> {
        let mut state = self.lock();
        state.is_joined = true;
        state.waker.take()
    }

    fn lock(&self) -> MutexGuard<'_, JoinState> {
        // Only a waker's clone could panic under this lock, and it leaves the state as it was.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Future for Joined {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.lock();
        if state.is_joined {
            return Poll::Ready(());
        }
        let before = state.waker.replace(context.waker().clone());
        drop(state);
        // Dropping the waker may drop the last handle to a task.
        drop(before);
        Poll::Pending
    }
}

impl fmt::Debug for Joined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joined").field("is_joined", &self.0.lock().is_joined).finish()
    }
}
