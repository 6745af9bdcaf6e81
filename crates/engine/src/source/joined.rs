//! Whether a reader has come to a request that a source works on.
//!
//! In:    readers, as the driver sees them come; a task of the source.
//! Out:   the task is woken, once.
//! Never: a waker that is called under the engine's mutex, or kept after the request has ended.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// A future that is ready once a reader waits for a request that was on its way when it came:
/// [`Reply::joined`](crate::Reply::joined). If none comes it is never ready. One task at a time can
/// wait for it: the one that polled last.
#[must_use = "it tells nothing unless it is polled"]
pub struct Joined(pub(super) Arc<JoinSignal>);

/// What a request's driver and its source know of readers that have come.
#[derive(Debug, Default)]
pub(super) struct JoinSignal(Mutex<JoinState>);

#[derive(Debug, Default)]
struct JoinState {
    is_joined: bool,
    waker: Option<Waker>,
}

impl JoinSignal {
    /// A reader has come. Returns whom to wake, when the mutex is free.
    pub(super) fn join(&self) -> Option<Waker> {
        let mut state = self.lock();
        state.is_joined = true;
        state.waker.take()
    }

    fn lock(&self) -> MutexGuard<'_, JoinState> {
        // Only a waker's clone could panic under this lock, and leaves what was there.
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
        // The last handle to a task may go with it.
        drop(before);
        Poll::Pending
    }
}

impl fmt::Debug for Joined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joined").field("is_joined", &self.0.lock().is_joined).finish()
    }
}
