//! How many requests were sent to stores, and how many bytes came.
//!
//! In:    each request, response and chunk, as it passes.
//! Out:   sums.
//! Never: a request that is not counted, such as a retry or one for credentials.

use std::sync::atomic::{AtomicU64, Ordering};

/// What stores were asked and have answered so far.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct StoreCounts {
    /// HTTP requests sent, retries included.
    pub requests: u64,
    /// Responses by which a store asks for fewer requests: 429 and 503.
    pub throttled: u64,
    /// Requests without a response, and responses of 500 and above that are not throttling.
    pub failed: u64,
    /// Bytes of objects that have come.
    pub bytes: u64,
}

/// The counters themselves, shared by all clients of a [`Stores`](crate::Stores).
#[derive(Debug, Default)]
pub(crate) struct StoreCounters {
    requests: AtomicU64,
    throttled: AtomicU64,
    failed: AtomicU64,
    bytes: AtomicU64,
}

impl StoreCounters {
    pub(crate) fn sent(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// A request has ended with this status; None: without one.
    pub(crate) fn answered(&self, status: Option<u16>) {
        let counter = match status {
            Some(429 | 503) => &self.throttled,
            Some(..500) => return,
            Some(_) | None => &self.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn arrived(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> StoreCounts {
        let Self { requests, throttled, failed, bytes } = self;
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        StoreCounts {
            requests: value(requests),
            throttled: value(throttled),
            failed: value(failed),
            bytes: value(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_asks_for_fewer_requests_is_not_one_that_fails() {
        let counters = StoreCounters::default();
        for status in [Some(200), Some(206), Some(404), Some(429), Some(503), Some(500), None] {
            counters.sent();
            counters.answered(status);
        }
        counters.arrived(10);
        let counts = StoreCounts { requests: 7, throttled: 2, failed: 2, bytes: 10 };
        assert_eq!(counters.counts(), counts);
    }
}
