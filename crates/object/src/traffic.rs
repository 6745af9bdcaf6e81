//! The requests of one store in real time: how many are in flight, which late one is sent twice.
//!
//! In:    requests as they start and end; answers and refusals; the clock.
//! Out:   permission to start, demand reads first; the core's advice about a second copy.
//! Never: a rule of its own: those are in `foreread_core::store_requests`.

use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foreread::core::store_requests::{Hedging, RequestLimit, WaitingRequests};
use foreread::core::units::Nanos;
use futures_util::future::{Either, select};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::counters::StoreCounters;
use crate::runtime::OwnerProcess;

/// What requests of one store have in common.
pub(crate) struct StoreTraffic {
    /// Where the client of the store was made.
    pub(crate) owner: OwnerProcess,
    started: Instant,
    may_hedge: bool,
    counters: Arc<StoreCounters>,
    state: Mutex<TrafficState>,
}

struct TrafficState {
    limit: RequestLimit,
    hedging: Hedging,
    waiting: WaitingRequests<oneshot::Sender<Permit>>,
}

/// Sent with a request that waits for a permit, and has it as long as its response lives.
#[derive(Clone, Debug)]
pub(crate) struct Gated {
    is_demand: bool,
    /// Told when a reader has come to it.
    hurried: Arc<Notify>,
    /// Whether an attempt of it has had a good head, with a permit. If its body breaks, the rest is
    /// asked for under that: one that waited for another could wait for itself.
    is_granted: Arc<AtomicBool>,
    permits: Arc<Mutex<PermitWait>>,
}

/// How far a request has come.
#[derive(Clone, Copy, Debug, Default)]
struct PermitWait {
    is_waiting: bool,
    /// When it had its first permit.
    first: Option<Instant>,
}

impl Gated {
    pub(crate) fn new(is_demand: bool) -> Self {
        let (is_granted, permits) = (Arc::default(), Arc::default());
        Self { is_demand, hurried: Arc::default(), is_granted, permits }
    }

    /// A reader has come to it: if it waits, it waits with demand reads from now on.
    pub(crate) fn hurry(&self) {
        self.hurried.notify_one();
    }

    /// Whether it is not sent, because others have to end first.
    pub(crate) fn is_waiting(&self) -> bool {
        self.permits().is_waiting
    }

    /// When it was sent first, if it had to wait for a permit.
    pub(crate) fn sent_at(&self) -> Option<Instant> {
        self.permits().first
    }

    /// How long ago it was sent first; if it had not to wait for a permit, when it was `called`.
    pub(crate) fn since_sent(&self, called: Instant) -> Duration {
        self.sent_at().unwrap_or(called).elapsed()
    }

    fn permits(&self) -> MutexGuard<'_, PermitWait> {
        // Nothing panics while it holds this lock.
        self.permits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the permit of an attempt; None if the request has one.
    pub(crate) async fn permit(&self, traffic: &Arc<StoreTraffic>) -> Option<Permit> {
        let needs_one = !self.is_granted.load(Ordering::Relaxed);
        if !needs_one {
            return None;
        }
        self.permits().is_waiting = true;
        let permit = self.permit_in_turn(traffic).await;
        let mut permits = self.permits();
        permits.is_waiting = false;
        permits.first.get_or_insert_with(Instant::now);
        Some(permit)
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
        // Its place among read-ahead is given up by now: a permit that came there is another's.
        match granted {
            Some(permit) => permit,
            None => {
                // For its next attempts.
                self.hurried.notify_one();
                traffic.permit(true).await
            }
        }
    }

    /// An attempt has a good head.
    pub(crate) fn grant(&self) {
        self.is_granted.store(true, Ordering::Relaxed);
    }
}

/// A request that may be in flight; it has ended when this is dropped.
pub(crate) struct Permit(Arc<StoreTraffic>);

impl StoreTraffic {
    pub(crate) fn new(may_hedge: bool, counters: Arc<StoreCounters>) -> Arc<Self> {
        let state = TrafficState {
            limit: RequestLimit::new(IN_FLIGHT_MAX),
            hedging: Hedging::default(),
            waiting: WaitingRequests::default(),
        };
        let (owner, started) = (OwnerProcess::here(), Instant::now());
        Arc::new(Self { owner, started, may_hedge, counters, state: Mutex::new(state) })
    }

    /// Waits until one more request may be in flight.
    pub(crate) async fn permit(self: &Arc<Self>, is_demand: bool) -> Permit {
        let granted = {
            let mut state = self.lock();
            if state.limit.start() {
                return Permit(Arc::clone(self));
            }
            let (grant, granted) = oneshot::channel();
            state.waiting.push(is_demand, grant);
            granted
        };
        granted.await.expect("a grant is kept until it is sent, by the requests in flight")
    }

    /// Lets those start that may.
    fn grant(self: &Arc<Self>) {
        loop {
            let grant = {
                let mut state = self.lock();
                // A reader that has given up waits no more.
                state.waiting.drop_front(oneshot::Sender::is_closed);
                if state.waiting.is_empty() || !state.limit.start() {
                    return;
                }
                state.waiting.pop().expect("some wait")
            };
            // One that has given up meanwhile drops the permit, which grants it to the next.
            let _ = grant.send(Permit(Arc::clone(self)));
        }
    }

    /// An HTTP request that was sent at `sent` was answered with this status; None: not at all.
    pub(crate) fn answered(self: &Arc<Self>, sent: Instant, status: Option<u16>) {
        let (now, sent) = (self.nanos(Instant::now()), self.nanos(sent));
        {
            let mut state = self.lock();
            match status {
                Some(429 | 503) => state.limit.refused(now, sent),
                Some(..500) => state.limit.served(),
                Some(_) | None => return,
            }
        }
        self.grant();
    }

    /// Whether late requests have second copies at all.
    pub(crate) fn may_hedge(&self) -> bool {
        self.may_hedge
    }

    /// A request for a range is sent: after how long a second copy is worth it.
    pub(crate) fn sent(&self, is_demand: bool) -> Option<Duration> {
        let delay = self.lock().hedging.sent(is_demand).filter(|_| self.may_hedge)?;
        Some(Duration::from_nanos(delay.0))
    }

    /// A reader has come to a request that was sent before: how long after it was sent a second
    /// copy is worth it now.
    pub(crate) fn joined(&self, was_demand: bool) -> Option<Duration> {
        let delay = self.lock().hedging.joined(was_demand).filter(|_| self.may_hedge)?;
        Some(Duration::from_nanos(delay.0))
    }

    /// Takes a copy from the budget. A store that refuses requests gets none of one already sent.
    pub(crate) fn take_copy(&self, is_demand: bool) -> bool {
        let mut state = self.lock();
        let is_taken = !state.limit.is_cut() && state.hedging.take_copy(is_demand);
        drop(state);
        if is_taken {
            self.counters.hedged();
        }
        is_taken
    }

    /// The first byte of a request that was sent at `sent` is there, or its copy was faster.
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
        self.0.lock().limit.end();
        self.0.grant();
    }
}

impl fmt::Debug for StoreTraffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TrafficState { limit, .. } = &*self.lock();
        f.debug_struct("StoreTraffic").field("limit", limit).finish_non_exhaustive()
    }
}

/// As many as the engine sends to one device.
const IN_FLIGHT_MAX: u32 = 64;

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn is_ready<F: Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_cuts_what_is_in_flight_and_demand_reads_are_let_through_first() {
        let traffic = StoreTraffic::new(true, Arc::default());
        let mut permits = Vec::new();
        for _ in 0..IN_FLIGHT_MAX {
            permits.push(traffic.permit(false).await);
        }
        traffic.answered(Instant::now(), Some(503));
        let mut ahead = pin!(traffic.permit(false));
        let mut demand = pin!(traffic.permit(true));
        assert!(is_ready(ahead.as_mut()).is_none() && is_ready(demand.as_mut()).is_none());
        permits.truncate(48);
        assert!(is_ready(demand.as_mut()).is_none(), "48 are in flight");
        permits.pop();
        let got = is_ready(demand.as_mut());
        assert!(got.is_some() && is_ready(ahead.as_mut()).is_none(), "the demand read");
        drop(got);
        assert!(is_ready(ahead.as_mut()).is_some());
    }

    /// It waited behind seven demand reads for each one of read-ahead.
    #[tokio::test(start_paused = true)]
    async fn read_ahead_that_a_reader_comes_to_waits_with_demand_reads() {
        let traffic = StoreTraffic::new(true, Arc::default());
        let mut permits = Vec::new();
        for _ in 0..IN_FLIGHT_MAX {
            permits.push(traffic.permit(false).await);
        }
        let [first, second] = [Gated::new(false), Gated::new(false)];
        let (mut ahead, mut joined) = (pin!(first.permit(&traffic)), pin!(second.permit(&traffic)));
        assert!(is_ready(ahead.as_mut()).is_none() && is_ready(joined.as_mut()).is_none());
        second.hurry();
        assert!(is_ready(joined.as_mut()).is_none(), "no other has ended");
        permits.pop();
        assert!(is_ready(ahead.as_mut()).is_none());
        let got = is_ready(joined.as_mut());
        assert!(got.is_some(), "it goes first");
        drop(got);
        assert!(is_ready(ahead.as_mut()).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_given_up_while_it_waits_costs_no_permit() {
        let traffic = StoreTraffic::new(true, Arc::default());
        let mut permits = Vec::new();
        for _ in 0..IN_FLIGHT_MAX {
            permits.push(traffic.permit(true).await);
        }
        for _ in 0..10 {
            let mut given_up = pin!(traffic.permit(true));
            assert!(is_ready(given_up.as_mut()).is_none());
        }
        {
            // This one is given up after it was granted.
            let mut given_up = pin!(traffic.permit(true));
            assert!(is_ready(given_up.as_mut()).is_none());
            permits.pop();
        }
        permits.clear();
        for _ in 0..IN_FLIGHT_MAX {
            permits.push(traffic.permit(true).await);
        }
        assert!(is_ready(pin!(traffic.permit(true))).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_serves_again_has_as_many_as_before() {
        let traffic = StoreTraffic::new(true, Arc::default());
        traffic.answered(Instant::now(), Some(429));
        assert!(traffic.lock().limit.is_cut());
        for _ in 0..64 * 16 {
            traffic.answered(Instant::now(), Some(206));
        }
        assert!(!traffic.lock().limit.is_cut());
    }
}
