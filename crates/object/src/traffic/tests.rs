//! Requests of one store, in tokio's paused time.

use std::task::{Context, Poll, Waker};

use super::*;
use crate::options::CONNECTIONS_MAX;

fn is_ready<F: Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_cuts_what_is_in_flight_and_demand_reads_are_let_through_first() {
    let traffic = StoreTraffic::new(&StoreOptions::default(), Arc::default());
    let mut permits = Vec::new();
    for _ in 0..CONNECTIONS_MAX {
        permits.push(traffic.permit(false).await);
    }
    traffic.answered(Instant::now(), Some(503), None);
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
    let traffic = StoreTraffic::new(&StoreOptions::default(), Arc::default());
    let mut permits = Vec::new();
    for _ in 0..CONNECTIONS_MAX {
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
    let traffic = StoreTraffic::new(&StoreOptions::default(), Arc::default());
    let mut permits = Vec::new();
    for _ in 0..CONNECTIONS_MAX {
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
    for _ in 0..CONNECTIONS_MAX {
        permits.push(traffic.permit(true).await);
    }
    assert!(is_ready(pin!(traffic.permit(true))).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_serves_again_has_as_many_as_before() {
    let traffic = StoreTraffic::new(&StoreOptions::default(), Arc::default());
    traffic.answered(Instant::now(), Some(429), None);
    assert!(traffic.lock().limit.is_cut());
    for _ in 0..64 * 16 {
        traffic.answered(Instant::now(), Some(206), None);
    }
    assert!(!traffic.lock().limit.is_cut());
}
