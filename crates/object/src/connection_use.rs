//! The connection of one request, from the request to the end of its response.
//!
//! In:    events of the request: sent, answered, read to its end, dropped.
//! Out:   whether to give it up, because its connection is not served; whether the request hangs.
//! Never: a rule: those are in [`connections`](crate::connections).

use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::connections::{Connection, Connections, GAP_MAX};

/// The connections of a store, as all its requests share them.
#[derive(Debug, Default)]
pub(crate) struct SharedConnections {
    counts: Mutex<Connections>,
    /// Told when a connection becomes idle.
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
    /// Counts a request that is sent. `is_moved`: it was given up on another connection before.
    pub(crate) fn sent(self: &Arc<Self>, is_moved: bool) -> ConnectionUse {
        let connection = self.lock().sent(is_moved, Instant::now());
        let (is_answered, is_whole) = (AtomicBool::new(false), AtomicBool::new(false));
        ConnectionUse { all: Arc::clone(self), connection, is_answered, is_whole }
    }

    /// Returns the largest number of requests that may be in flight.
    pub(crate) fn most(&self) -> u32 {
        self.lock().most()
    }

    /// Whether the server serves fewer connections than were made.
    pub(crate) fn are_few(&self) -> bool {
        self.lock().are_few()
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        // Nothing panics while it holds this lock.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionUse {
    /// The number of the client that makes it.
    pub(crate) fn client(&self) -> u32 {
        self.connection.client
    }

    /// Completes once the request has waited longer than its patience while another connection is
    /// idle.
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

    /// Completes once the request itself hangs, on any connection, and lifts the limit then.
    pub(crate) async fn hangs(&self) {
        match self.connection.hangs_after() {
            Some(time) => sleep(time).await,
            None => pending().await,
        }
        self.all.lock().hangs();
    }

    /// Gives the request up: the caller sends it again on another connection.
    pub(crate) fn give_up(&self) {
        self.all.lock().not_served(&self.connection);
        // The others of this client are given up as well.
        self.all.idle.notify_waiters();
    }

    /// Counts the head of the response. `is_shared`: the connection carries other requests at the
    /// same time (HTTP/2).
    pub(crate) fn answered(&self, is_shared: bool) {
        self.is_answered.store(true, Ordering::Relaxed);
        let mut counts = self.all.lock();
        counts.answered(&self.connection, Instant::now());
        if is_shared {
            counts.share();
        }
    }

    /// Marks the response as read to its end: the connection is idle from now on.
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
