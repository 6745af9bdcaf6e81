//! Tracks the connection of one request: sent, answered, read to its end, dropped. Tells the
//! request when to move to another connection, and when it hangs. The rules are in
//! [`connections`](crate::connections).

use std::future::pending;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use crate::connections::{Connection, Connections, GAP_MAX, Host, MOVES_MAX, REPLACED_MAX};

/// Connections of one store, shared by all of its requests.
#[derive(Debug)]
pub(crate) struct SharedConnections {
    /// Time limit of a request.
    deadline: Duration,
    counts: Mutex<Connections>,
    /// Notified when a connection becomes idle.
    idle: Notify,
    /// Notified when the client is replaced.
    replaced: Notify,
}

/// The connection of a request, from the request until its response is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionUse {
    all: Arc<SharedConnections>,
    connection: Connection,
    is_answered: AtomicBool,
    is_whole: AtomicBool,
}

/// Moves of one request to other connections so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moves {
    /// Time at which the request was first sent.
    began: Instant,
    /// Its connection was not served.
    unserved: u32,
    /// The client was replaced for the sake of another request.
    replaced: u32,
}

impl Moves {
    /// Returns the moves of a request that begins now.
    pub(crate) fn none() -> Self {
        Self { began: Instant::now(), unserved: 0, replaced: 0 }
    }

    fn has_moved(self) -> bool {
        self.unserved + self.replaced > 0
    }
}

impl SharedConnections {
    /// Creates the connections of a store whose requests have this time limit.
    pub(crate) fn new(deadline: Duration) -> Arc<Self> {
        let (counts, idle, replaced) = (Mutex::default(), Notify::new(), Notify::new());
        Arc::new(Self { deadline, counts, idle, replaced })
    }

    /// Counts a request being sent to a host.
    pub(crate) fn sent(self: &Arc<Self>, host: Host, moves: Moves) -> ConnectionUse {
        let now = Instant::now();
        let left = self.deadline.saturating_sub(now.saturating_duration_since(moves.began));
        let connection = self.lock().sent(host, moves.has_moved().then_some(left), now);
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
    /// Number of the client that makes the connection.
    pub(crate) fn client(&self) -> u32 {
        self.connection.client
    }

    /// Completes when the request had better be sent again on another connection, and returns its
    /// moves with that one. Never completes once it has moved as often as it may.
    pub(crate) async fn is_abandoned(&self, moves: Moves) -> Moves {
        let unserved = async {
            if moves.unserved < MOVES_MAX { self.is_not_served().await } else { pending().await }
        };
        let replaced = async {
            if moves.replaced < REPLACED_MAX { self.is_replaced().await } else { pending().await }
        };
        match select(pin!(unserved), pin!(replaced)).await {
            Either::Left(_) => Moves { unserved: moves.unserved + 1, ..moves },
            Either::Right(_) => Moves { replaced: moves.replaced + 1, ..moves },
        }
    }

    /// Completes once the request has exceeded its patience while another connection is idle.
    async fn is_not_served(&self) {
        sleep(self.connection.patience).await;
        loop {
            // A notification from here on is not missed.
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

    /// Completes once the client has been replaced and the request has waited for longer than an
    /// answer takes.
    async fn is_replaced(&self) {
        loop {
            // A notification from here on is not missed.
            let told = self.all.replaced.notified();
            if self.all.lock().is_replaced(&self.connection) {
                break;
            }
            told.await;
        }
        let Connection { sent, patience_replaced, .. } = self.connection;
        sleep_until(sent + patience_replaced).await;
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
        // The other requests of this client are abandoned as well.
        self.all.replaced.notify_waiters();
    }

    /// Counts the head of the response, which came from `host`. `is_shared`: other requests use the
    /// connection at the same time (HTTP/2).
    pub(crate) fn answered(&mut self, host: Host, is_shared: bool) {
        self.is_answered.store(true, Ordering::Relaxed);
        let mut counts = self.all.lock();
        counts.answered(&mut self.connection, host, Instant::now());
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

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A request that is answered after a millisecond, and leaves its connection idle.
    async fn answer(all: &Arc<SharedConnections>, host: Host) {
        let mut on = all.sent(host, Moves::none());
        sleep(MS).await;
        on.answered(host, false);
        on.completed();
    }

    /// A request sent just before the client was replaced waited for half a second more, and one
    /// of a distant server for longer, on a connection of the client that was given up.
    #[tokio::test(start_paused = true)]
    async fn a_request_leaves_a_replaced_client_at_once() {
        let (all, host) = (SharedConnections::new(60_000 * MS), Host::default());
        let first = all.sent(host, Moves::none());
        answer(&all, host).await;
        sleep(400 * MS).await;
        let (reused, fresh) = (all.sent(host, Moves::none()), all.sent(host, Moves::none()));
        answer(&all, host).await;
        let moves = first.is_abandoned(Moves::none()).await;
        assert_eq!((moves.unserved, moves.replaced), (1, 0));
        let mut waits = pin!(fresh.is_abandoned(Moves::none()));
        let early = timeout(MS, waits.as_mut()).await;
        assert!(early.is_err(), "the client is not replaced: {early:?}");
        first.give_up();
        let now = Instant::now();
        let moved = waits.as_mut().await;
        assert_eq!((moved.unserved, moved.replaced), (0, 1));
        assert!(now.elapsed() <= 4 * MS, "{:?}", now.elapsed());
        let moved = reused.is_abandoned(Moves::none()).await;
        assert_eq!((moved.unserved, moved.replaced), (0, 1));
        assert!(now.elapsed() > 1000 * MS, "its connection was served: {:?}", now.elapsed());
    }

    /// Requests that were moved for the sake of others could not move any more for their own.
    #[tokio::test(start_paused = true)]
    async fn a_request_moves_a_few_times_and_not_for_ever() {
        let (all, host) = (SharedConnections::new(600_000 * MS), Host::default());
        let mut moves = Moves::none();
        for _ in 0..REPLACED_MAX {
            let (on, other) = (all.sent(host, moves), all.sent(host, Moves::none()));
            other.give_up();
            moves = on.is_abandoned(moves).await;
        }
        for _ in 0..MOVES_MAX {
            let on = all.sent(host, moves);
            answer(&all, host).await;
            moves = on.is_abandoned(moves).await;
            on.give_up();
        }
        assert_eq!((moves.unserved, moves.replaced), (MOVES_MAX, REPLACED_MAX));
        let on = all.sent(host, moves);
        answer(&all, host).await;
        all.sent(host, Moves::none()).give_up();
        let stays = timeout(60_000 * MS, on.is_abandoned(moves)).await;
        assert!(stays.is_err(), "{stays:?}");
    }

    /// All 64 requests of an object that never answers were taken for ones on connections that are
    /// not served: other requests had one place until a deadline of a few seconds, and after it.
    #[tokio::test(start_paused = true)]
    async fn requests_that_hang_lift_the_limit_before_a_short_deadline() {
        let deadline = 5000 * MS;
        let (all, host) = (SharedConnections::new(deadline), Host::default());
        let began = Instant::now();
        let hung: Vec<_> = (0..64).map(|_| all.sent(host, Moves::none())).collect();
        answer(&all, host).await;
        let mut moved = Vec::new();
        for on in hung {
            let moves = on.is_abandoned(Moves { began, ..Moves::none() }).await;
            on.give_up();
            moved.push(all.sent(host, moves));
        }
        assert_eq!(all.most(), 1);
        moved[0].hangs().await;
        assert_eq!(all.most(), u32::MAX);
        assert!(began.elapsed() < deadline * 2 / 3, "{:?}", began.elapsed());
    }
}
