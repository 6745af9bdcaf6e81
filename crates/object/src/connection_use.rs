//! Tracks the connection of one request: sent, answered, read to its end, dropped. Tells the
//! request when to move to another connection, and when it hangs. The rules are in
//! [`connections`](crate::connections).

use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::connections::{Connection, Connections, GAP_MAX};

/// Connections of one store, shared by all of its requests.
#[derive(Debug, Default)]
pub(crate) struct SharedConnections {
    counts: Mutex<Connections>,
    /// Notified when a connection becomes idle.
    idle: Notify,
}

/// The connection of a request, from the request until its response is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionUse {
    all: Arc<SharedConnections>,
    connection: Connection,
    is_answered: AtomicBool,
    is_whole: AtomicBool,
}

impl SharedConnections {
    /// Counts a request being sent. `is_moved`: it was abandoned on another connection before.
    pub(crate) fn sent(self: &Arc<Self>, is_moved: bool) -> ConnectionUse {
        let connection = self.lock().sent(is_moved, Instant::now());
        let (is_answered, is_whole) = (AtomicBool::new(false), AtomicBool::new(false));
        ConnectionUse { all: Arc::clone(self), connection, is_answered, is_whole }
    }

    /// Returns the largest number of requests that may be in flight.
    pub(crate) fn most(&self) -> u32 {
        self.lock().most()
    }

    /// Returns true if the server serves fewer connections than the client made.
    pub(crate) fn are_few(&self) -> bool {
        self.lock().are_few()
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        // Nothing panics while it holds this lock.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionUse {
    /// Returns the number of the client that makes the connection.
    pub(crate) fn client(&self) -> u32 {
        self.connection.client
    }

    /// Completes once the request has exceeded its patience while another connection is idle.
    pub(crate) async fn is_not_served(&self) {
        sleep(self.connection.patience).await;
        loop {
            let told = self.all.idle.notified();
            let now = Instant::now();
            let since = self.all.lock().idle_since(&self.connection, now);
            match since.map(|since| GAP_MAX.saturating_sub(now.saturating_duration_since(since))) {
                Some(Duration::ZERO) => return,
                Some(left) => sleep(left).await,
                None => told.await,
            }
        }
    }

    /// Completes once the request hangs on any connection, and then lifts the connection limit.
    pub(crate) async fn hangs(&self) {
        match self.connection.hangs_after() {
            Some(time) => sleep(time).await,
            None => pending().await,
        }
        self.all.lock().hangs();
    }

    /// Abandons the request on this connection; the caller sends it again on another one.
    pub(crate) fn give_up(&self) {
        self.all.lock().not_served(&self.connection);
        // All other requests of this client are abandoned as well.
        self.all.idle.notify_waiters();
    }

    /// Counts the head of the response. `is_shared`: other requests use the connection at the same
    /// time (HTTP/2).
    pub(crate) fn answered(&self, is_shared: bool) {
        self.is_answered.store(true, Ordering::Relaxed);
        let mut counts = self.all.lock();
        counts.answered(&self.connection, Instant::now());
        if is_shared {
            counts.share();
        }
    }

    /// Marks the response as read to its end; the connection is idle from now on.
    pub(crate) fn completed(&self) {
        self.is_whole.store(true, Ordering::Relaxed);
    }
}

impl Drop for ConnectionUse {
    fn drop(&mut self) {
        let was_answered = self.is_answered.load(Ordering::Relaxed);
        let is_idle = was_answered && self.is_whole.load(Ordering::Relaxed);
        self.all.lock().ended(&self.connection, was_answered, is_idle, Instant::now());
        if is_idle {
            self.all.idle.notify_waiters();
        }
    }
}
