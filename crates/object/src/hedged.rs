//! The first answer of a request that may be sent twice.
//!
//! In:    a request that can be sent any number of times; what is known of the store's traffic.
//! Out:   one answer, whole. The other copy is cancelled with it.
//! Never: parts of two answers. A second copy of what failed, which is a retry and has its own
//!        rules; or of what was not sent yet.
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

/// Whether a reader waits for a request.
#[derive(Debug)]
pub(crate) struct Urgency<J> {
    /// When it is sent.
    pub(crate) is_demand: bool,
    /// Is ready when a reader comes to it later.
    pub(crate) joined: J,
}

/// Of a request that no reader comes to.
pub(crate) fn not_joined(is_demand: bool) -> Urgency<Pending<()>> {
    Urgency { is_demand, joined: pending() }
}

/// What happens first.
enum Event<A> {
    Answered(A),
    Joined,
    /// It has the permit that it has waited for.
    Sent,
    /// The delay before a copy, or the back-off, has elapsed.
    Late,
}

/// Sends a request; and once more if it is late, and the budget allows it, which has more for reads
/// that are waited for.
///
/// ```text
///   sent   |---- delay ---->|                 late: a copy, if the budget has one
///          |---- delay --.-- a reader comes   its delay is that of a demand read from now on, and
///                                             the budget is asked again while it waits
/// ```
///
/// While it waits it is woken seldom: one that waits for its permit when it has that, and one that
/// waits for the budget after longer and longer pauses ([`CopyBackoff`]).
///
/// An answer that is an error counts only if the other copy has none, or fails, too: then the
/// error is that of the first.
pub(crate) async fn first_answer<T, E, F: Future<Output = Result<T, E>>>(
    traffic: &StoreTraffic,
    urgency: Urgency<impl Future<Output = ()>>,
    request: impl Fn(Gated) -> F,
) -> Result<T, E> {
    let Urgency { mut is_demand, joined } = urgency;
    let (called, gate) = (Instant::now(), Gated::new(is_demand));
    let note = |answer: &Result<T, E>| {
        if answer.is_ok() {
            // What it waits for others tells nothing of the store.
            traffic.first_byte(gate.sent_at().unwrap_or(called));
        }
    };
    let (mut first, mut joined) = (pin!(request(gate.clone())), pin!(joined));
    let (mut delay, mut is_joined) = (traffic.sent(is_demand), false);
    let mut backoff = CopyBackoff::default();
    loop {
        let is_held = gate.is_waiting();
        let left = match delay {
            // It can be late only once it is sent.
            _ if is_held => FOREVER,
            Some(delay) => delay.saturating_sub(gate.since_sent(called)),
            None if is_demand && traffic.may_hedge() => Duration::from_nanos(backoff.pause().0),
            None => FOREVER,
        };
        let next = poll_fn(|context| match first.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(Event::Answered(answer)),
            // Its permit comes in this poll, or not at all.
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
            // Only now it begins to wait for an answer.
            Event::Sent => backoff = CopyBackoff::default(),
            Event::Late if gate.is_waiting() => {}
            Event::Late => {
                // More may be known by now, or allowed.
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

/// The first good answer of two copies.
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
