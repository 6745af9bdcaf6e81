//! Counters of requests, bytes and costs of stores. Retries and requests for credentials count,
//! too.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use object_store::Extensions;

/// Requests sent to stores, and their outcome so far.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct StoreCounts {
    /// HTTP requests sent, retries included.
    pub requests: u64,
    /// Requests that repeat an earlier one, which was refused or broke, for the same range or
    /// attributes.
    pub retried: u64,
    /// Hedged copies of late requests.
    pub hedged: u64,
    /// Responses of 429 and 503, by which a store requests fewer requests.
    pub throttled: u64,
    /// Requests without a response, and responses of 500 and above other than throttling.
    pub failed: u64,
    /// Bytes of objects received.
    pub bytes: u64,
}

/// Prices of a store, in the caller's currency.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StorePrices {
    /// Price of 1000 requests.
    pub per_1000_requests: f64,
    /// Price of 10^9 bytes of egress.
    pub per_gb: f64,
}

impl StorePrices {
    /// Returns the cost of these requests and bytes.
    ///
    /// ```
    /// use foreread_object::{StoreCounts, StorePrices};
    ///
    /// let prices = StorePrices { per_1000_requests: 0.0004, per_gb: 0.09 };
    /// let counts =
    ///     StoreCounts { requests: 10_000, bytes: 2_000_000_000, ..StoreCounts::default() };
    /// assert!((prices.cost(&counts) - 0.184).abs() < 1e-12);
    /// ```
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "money is rounded")]
    pub fn cost(&self, counts: &StoreCounts) -> f64 {
        let Self { per_1000_requests, per_gb } = self;
        counts.requests as f64 / 1e3 * per_1000_requests + counts.bytes as f64 / 1e9 * per_gb
    }
}

/// Counts the attempts of one request. `object_store` resends requests by itself, so the counter
/// travels with each attempt.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attempts(Arc<AtomicU32>);

impl Attempts {
    /// Returns extensions that attach a new counter to a request.
    pub(crate) fn extensions() -> Extensions {
        let mut extensions = Extensions::new();
        extensions.insert(Self::default());
        extensions
    }

    /// Counts one more attempt, and returns true if it is not the first.
    fn is_repeated(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) > 0
    }
}

/// The counters, shared by all clients of a [`Stores`](crate::Stores).
#[derive(Debug, Default)]
pub(crate) struct StoreCounters {
    requests: AtomicU64,
    retried: AtomicU64,
    hedged: AtomicU64,
    throttled: AtomicU64,
    failed: AtomicU64,
    bytes: AtomicU64,
}

impl StoreCounters {
    /// Counts a request being sent; `attempts` counts its earlier attempts, if known.
    pub(crate) fn sent(&self, attempts: Option<&Attempts>) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        if attempts.is_some_and(Attempts::is_repeated) {
            self.retried.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a hedged copy of a late request.
    pub(crate) fn hedged(&self) {
        self.hedged.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the end of a request with this status; None if there was no response.
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
        let Self { requests, retried, hedged, throttled, failed, bytes } = self;
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        StoreCounts {
            requests: value(requests),
            retried: value(retried),
            hedged: value(hedged),
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
            counters.sent(None);
            counters.answered(status);
        }
        counters.arrived(10);
        let counts = counters.counts();
        assert_eq!((counts.requests, counts.throttled, counts.failed), (7, 2, 2));
        assert_eq!((counts.retried, counts.bytes), (0, 10));
    }

    #[test]
    fn only_a_further_attempt_of_the_same_request_is_a_retry() {
        let counters = StoreCounters::default();
        let (first, second) = (Attempts::extensions(), Attempts::extensions());
        for extensions in [&first, &second, &first.clone(), &first, &Extensions::new()] {
            counters.sent(extensions.get());
        }
        assert_eq!((counters.counts().requests, counters.counts().retried), (5, 2));
    }
}
