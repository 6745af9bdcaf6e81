//! Hedged requests: sends a second copy of a late request, returns the first good answer, and
//! cancels the other copy.
//!
//! Parts of two answers are never mixed. Failed requests are not hedged, because retries follow
//! rules of their own; nor are requests that still wait for a permit.
//!
//! ```text
//!   first   |---- p95 or later ----.----------- .. cancelled
//!   second                         |------| the answer
//! ```

use std::future::{Pending, pending, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use foreread_core::store_requests::CopyBackoff;
use futures_util::future::{Either, select};
use tokio::time::{Instant, timeout};

use crate::traffic::{Gated, StoreTraffic};

/// Urgency of a request: whether a reader is waiting for it.
#[derive(Debug)]
pub(crate) struct Urgency<J> {
    /// True if a reader waits from the start.
    pub(crate) is_demand: bool,
    /// Completes when a reader joins the request later.
    pub(crate) joined: J,
}

/// Returns the urgency of a request that no reader joins.
pub(crate) fn not_joined(is_demand: bool) -> Urgency<Pending<()>> {
    Urgency { is_demand, joined: pending() }
}

/// The first event in a wait.
enum Event<A> {
    Answered(A),
    Joined,
    /// The request has received its permit.
    Sent,
    /// The delay before a copy, or the back-off, has elapsed.
    Late,
}

/// Sends a request, and a copy of it if it is late and the budget allows one. The budget reserves
/// more copies for demand reads.
///
/// ```text
///   sent   |---- delay ---->|                 late: a copy, if the budget has one
///          |---- delay --.-- a reader comes   its delay is that of a demand read from now on, and
///                                             the budget is asked again while it waits
/// ```
///
/// Wake-ups are rare: a request that waits for its permit wakes when it receives that, and one that
/// waits for the budget wakes after growing pauses ([`CopyBackoff`]).
///
/// An error counts only if the other copy does not exist or fails, too; then the error of the first
/// copy is returned.
pub(crate) async fn first_answer<T, E, F: Future<Output = Result<T, E>>>(
    traffic: &StoreTraffic,
    urgency: Urgency<impl Future<Output = ()>>,
    request: impl Fn(Gated) -> F,
) -> Result<T, E> {
    let Urgency { mut is_demand, joined } = urgency;
    let (called, gate) = (Instant::now(), Gated::new(is_demand));
    let note = |answer: &Result<T, E>| {
        if answer.is_ok() {
            // Time spent waiting for the permit is no latency of the store.
            traffic.first_byte(gate.sent_at().unwrap_or(called));
        }
    };
    let (mut first, mut joined) = (pin!(request(gate.clone())), pin!(joined));
    let (mut delay, mut is_joined) = (traffic.sent(is_demand), false);
    let mut backoff = CopyBackoff::default();
    loop {
        let is_held = gate.is_waiting();
        let left = match delay {
            // A request can be late only after it was sent.
            _ if is_held => FOREVER,
            Some(delay) => delay.saturating_sub(gate.since_sent(called)),
            None if is_demand && traffic.may_hedge() => Duration::from_nanos(backoff.pause().0),
            None => FOREVER,
        };
        let next = poll_fn(|context| match first.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(Event::Answered(answer)),
            // The permit arrives in this poll, or not at all.
            Poll::Pending if is_held && !gate.is_waiting() => Poll::Ready(Event::Sent),
            Poll::Pending if is_joined => Poll::Pending,
            Poll::Pending => joined.as_mut().poll(context).map(|()| Event::Joined),
        });
        match timeout(left, next).await.unwrap_or(Event::Late) {
            Event::Answered(answer) => {
                note(&answer);
                return answer;
            }
            Event::Joined => {
                delay = traffic.joined(is_demand);
                gate.hurry();
                (is_joined, is_demand) = (true, true);
            }
            // Only now does the request wait for an answer.
            Event::Sent => backoff = CopyBackoff::default(),
            Event::Late if gate.is_waiting() => {}
            Event::Late => {
                // By now the delay may be known, or the budget refilled.
                let known = delay.or_else(|| traffic.joined(is_demand));
                let is_late = known.is_some_and(|delay| gate.since_sent(called) >= delay);
                if is_late && traffic.take_copy(is_demand) {
                    let second = pin!(request(Gated::new(is_demand)));
                    return of_two(first, second, note).await;
                }
                delay = known.filter(|_| !is_late);
            }
        }
    }
}

/// Returns the first good answer of two copies.
async fn of_two<T, E, F: Future<Output = Result<T, E>>>(
    first: Pin<&mut F>,
    second: Pin<&mut F>,
    note: impl Fn(&Result<T, E>),
) -> Result<T, E> {
    match select(first, second).await {
        Either::Left((answer @ Ok(_), _)) | Either::Right((answer @ Ok(_), _)) => {
            note(&answer);
            answer
        }
        Either::Left((Err(error), second)) => second.await.map_err(|_| error),
        Either::Right((Err(_), first)) => {
            let answer = first.await;
            note(&answer);
            answer
        }
    }
}

/// Longer than any deadline.
const FOREVER: Duration = Duration::from_secs(1 << 30);

#[cfg(test)]
mod tests;
