//! Traffic of one store in real time: grants requests permission to start, demand reads first, and
//! decides when a late one gets a hedged copy. The policies are in `foreread_core::store_requests`.

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foreread::Nanos;
use foreread_core::store_requests::{Hedging, RefusalGate, RequestLimit, WaitingRequests};
use futures_util::future::{Either, select};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::connection_use::SharedConnections;
use crate::connections::RETURN_TIME;
use crate::counters::StoreCounters;
use crate::options::{LONGEST_PAUSE, StoreOptions};
use crate::retries::{nanos, random};
use crate::runtime::OwnerProcess;

/// State shared by the requests of one store.
pub(crate) struct StoreTraffic {
    /// Process in which the client of the store was created.
    pub(crate) owner: OwnerProcess,
    started: Instant,
    may_hedge: bool,
    counters: Arc<StoreCounters>,
    state: Mutex<TrafficState>,
    pub(crate) connections: Arc<SharedConnections>,
}

struct TrafficState {
    limit: RequestLimit,
    gate: RefusalGate,
    in_flight: u32,
    hedging: Hedging,
    waiting: WaitingRequests<oneshot::Sender<Permit>>,
}

/// Attached to a request that needs a permit; the response holds the permit while it lives.
#[derive(Clone, Debug)]
pub(crate) struct Gated {
    is_demand: bool,
    /// Notified when a reader joins the request.
    hurried: Arc<Notify>,
    permits: Arc<Mutex<PermitWait>>,
}

/// Progress of a request towards its permit.
#[derive(Clone, Copy, Debug, Default)]
struct PermitWait {
    is_waiting: bool,
    /// Time of its first permit.
    first: Option<Instant>,
}

impl Gated {
    pub(crate) fn new(is_demand: bool) -> Self {
        Self { is_demand, hurried: Arc::default(), permits: Arc::default() }
    }

    /// Moves the request among the demand reads if it waits for a permit, because a reader has
    /// joined it.
    pub(crate) fn hurry(&self) {
        self.hurried.notify_one();
    }

    /// Returns true if the request is held back until others end.
    pub(crate) fn is_waiting(&self) -> bool {
        self.permits().is_waiting
    }

    /// Returns when the request was first sent, if it had to wait for a permit.
    pub(crate) fn sent_at(&self) -> Option<Instant> {
        self.permits().first
    }

    /// Returns the time since the request was first sent, or since it was `called` if it did not
    /// have to wait for a permit.
    pub(crate) fn since_sent(&self, called: Instant) -> Duration {
        self.sent_at().unwrap_or(called).elapsed()
    }

    fn permits(&self) -> MutexGuard<'_, PermitWait> {
        // Nothing panics while it holds this lock.
        self.permits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the permit of an attempt.
    pub(crate) async fn permit(&self, traffic: &Arc<StoreTraffic>) -> Permit {
        self.permits().is_waiting = true;
        let permit = self.permit_in_turn(traffic).await;
        let mut permits = self.permits();
        permits.is_waiting = false;
        permits.first.get_or_insert_with(Instant::now);
        permit
    }

    async fn permit_in_turn(&self, traffic: &Arc<StoreTraffic>) -> Permit {
        if self.is_demand {
            return traffic.permit(true).await;
        }
        let granted = {
            let (waiting, hurried) = (pin!(traffic.permit(false)), pin!(self.hurried.notified()));
            match select(waiting, hurried).await {
                Either::Left((permit, _)) => Some(permit),
                Either::Right(((), _)) => None,
            }
        };
        // The request has left the read-ahead queue: a permit granted there went to another one.
        match granted {
            Some(permit) => permit,
            None => {
                // Leaves the notification for its next attempts.
                self.hurried.notify_one();
                traffic.permit(true).await
            }
        }
    }
}

/// Permission for one request in flight; dropping it ends the request.
pub(crate) struct Permit {
    traffic: Arc<StoreTraffic>,
    /// True if the request probes a store that has refused all others.
    is_probe: bool,
}

impl TrafficState {
    /// Starts a request, and returns true if it is a probe. Returns None if the limit allows no
    /// more.
    fn start(&mut self, most: u32, now: Nanos) -> Option<bool> {
        if self.in_flight >= most || !self.limit.start() {
            return None;
        }
        let is_probe = self.gate.is_closed();
        if !self.gate.start(now) {
            self.limit.end();
            return None;
        }
        self.in_flight += 1;
        Some(is_probe)
    }
}

impl StoreTraffic {
    pub(crate) fn new(options: &StoreOptions, counters: Arc<StoreCounters>) -> Arc<Self> {
        let (first, longest) = (nanos(options.first_pause), nanos(LONGEST_PAUSE));
        let state = TrafficState {
            limit: RequestLimit::new(options.connections()),
            gate: RefusalGate::new(first, longest),
            in_flight: 0,
            hedging: Hedging::default(),
            waiting: WaitingRequests::default(),
        };
        let (owner, started, may_hedge) = (OwnerProcess::here(), Instant::now(), options.hedge);
        let (state, connections) = (Mutex::new(state), SharedConnections::new(options.deadline));
        Arc::new(Self { owner, started, may_hedge, counters, state, connections })
    }

    /// Waits for permission to start one more request.
    pub(crate) async fn permit(self: &Arc<Self>, is_demand: bool) -> Permit {
        let granted = {
            let (now, most) = (self.nanos(Instant::now()), self.connections.most());
            let mut state = self.lock();
            if let Some(is_probe) = state.start(most, now) {
                return Permit { traffic: Arc::clone(self), is_probe };
            }
            let (grant, granted) = oneshot::channel();
            state.waiting.push(is_demand, grant);
            granted
        };
        granted.await.expect("a grant is kept until it is sent, by the requests in flight")
    }

    /// Starts as many waiting requests as the limit allows.
    pub(crate) fn grant(self: &Arc<Self>) {
        let (now, most) = (self.nanos(Instant::now()), self.connections.most());
        loop {
            let (grant, is_probe) = {
                let mut state = self.lock();
                // Removes requests that were cancelled while waiting.
                state.waiting.drop_front(oneshot::Sender::is_closed);
                if state.waiting.is_empty() {
                    return;
                }
                let Some(is_probe) = state.start(most, now) else { return };
                (state.waiting.pop().expect("some wait"), is_probe)
            };
            // If the receiver was cancelled, this drops the permit, which goes to the next one.
            let _ = grant.send(Permit { traffic: Arc::clone(self), is_probe });
        }
    }

    /// Waits while the store is paused; for requests without a permit.
    pub(crate) async fn pause_over(&self) {
        let now = Instant::now();
        let until = {
            let state = self.lock();
            state.gate.opens_at().map_or(Nanos(0), |until| until)
        };
        let left = until.0.saturating_sub(self.nanos(now).0);
        if left > 0 {
            tokio::time::sleep(Duration::from_nanos(left)).await;
        }
    }

    /// Records the status of a request that was sent at `sent`; None if there was no answer.
    /// `asked` is the pause requested by the store.
    pub(crate) fn answered(
        self: &Arc<Self>,
        sent: Instant,
        status: Option<u16>,
        asked: Option<Duration>,
    ) {
        let (now, sent) = (self.nanos(Instant::now()), self.nanos(sent));
        let opens_at = {
            let mut state = self.lock();
            match status {
                Some(429 | 503) => {
                    state.limit.refused(now, sent);
                    state.gate.refused(now, sent, asked.map(nanos), random());
                }
                Some(..500) => {
                    state.limit.served();
                    state.gate.served();
                }
                Some(_) | None => return,
            }
            state.gate.opens_at()
        };
        if let Some(opens_at) = opens_at {
            // When the pause ends some waiting requests may start, although no request ends then.
            let (traffic, pause) = (Arc::clone(self), opens_at.0.saturating_sub(now.0));
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_nanos(pause)).await;
                traffic.grant();
            });
        }
        self.grant();
    }

    /// Returns true if late requests may be hedged.
    pub(crate) fn may_hedge(&self) -> bool {
        self.may_hedge
    }

    /// Records a range request being sent. Returns the delay after which a hedged copy is
    /// worthwhile.
    pub(crate) fn sent(&self, is_demand: bool) -> Option<Duration> {
        let delay = self.lock().hedging.sent(is_demand).filter(|_| self.may_hedge)?;
        Some(Duration::from_nanos(delay.0))
    }

    /// Records that a reader joined a request sent before. Returns the delay, counted from when it
    /// was sent, after which a hedged copy is worthwhile now.
    pub(crate) fn joined(&self, was_demand: bool) -> Option<Duration> {
        let delay = self.lock().hedging.joined(was_demand).filter(|_| self.may_hedge)?;
        Some(Duration::from_nanos(delay.0))
    }

    /// Takes a copy from the budget. A store that refuses requests gets no copies.
    pub(crate) fn take_copy(&self, is_demand: bool) -> bool {
        let mut state = self.lock();
        let is_taken = !state.limit.is_cut() && state.hedging.take_copy(is_demand);
        drop(state);
        if is_taken {
            self.counters.hedged();
        }
        is_taken
    }

    /// Records the first byte of a request sent at `sent`, or of its faster copy.
    pub(crate) fn first_byte(&self, sent: Instant) {
        let waited = Instant::now().saturating_duration_since(sent);
        let waited = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
        self.lock().hedging.answered(Nanos(waited));
    }

    fn nanos(&self, at: Instant) -> Nanos {
        let since = at.saturating_duration_since(self.started);
        Nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    fn lock(&self) -> MutexGuard<'_, TrafficState> {
        // Nothing panics while it holds this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        {
            let mut state = self.traffic.lock();
            state.limit.end();
            state.in_flight -= 1;
            if self.is_probe {
                state.gate.given_up();
            }
        }
        self.traffic.grant();
    }
}

impl Permit {
    /// Ends the request after its last byte. For a server with few connections, waits until the
    /// connection is idle, so that the next request reuses it.
    pub(crate) async fn end(permit: Arc<Self>) {
        if permit.traffic.connections.are_few() {
            tokio::time::sleep(RETURN_TIME).await;
        }
    }
}

impl fmt::Debug for StoreTraffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TrafficState { limit, .. } = &*self.lock();
        f.debug_struct("StoreTraffic").field("limit", limit).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
