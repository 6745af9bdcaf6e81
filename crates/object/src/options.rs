//! Options for requests to stores: deadline, retries, connections, hedging. Credentials come from
//! the environment.

use std::time::Duration;

use object_store::{BackoffConfig, RetryConfig};

/// Limits of requests to stores.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StoreOptions {
    /// Time limit of one request, retries included. At the deadline its readers get an error, or
    /// request each of their pages once more.
    pub deadline: Duration,
    /// Maximum number of retries, within the deadline, after a response of 429, 503 or another
    /// server error, or a broken connection. Opening or listing fails after four retries if the
    /// host cannot be reached at all.
    pub retries: usize,
    /// Pause before the first retry. Later pauses grow up to a few seconds. A longer pause
    /// requested by the store (`Retry-After`) is honoured within the deadline.
    pub first_pause: Duration,
    /// Maximum number of requests of one bucket in flight, each on its own connection; 1 to 64.
    pub connections: u32,
    /// True if a demand read may send a second copy of a late request. Copies add at most 2 % to
    /// the requests.
    pub hedge: bool,
}

impl Default for StoreOptions {
    /// Returns a deadline of 60 s, retries until then, the first after 100 ms; 64 connections; and
    /// hedged requests on.
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(60),
            retries: usize::MAX,
            first_pause: Duration::from_millis(100),
            connections: CONNECTIONS_MAX,
            hedge: true,
        }
    }
}

impl StoreOptions {
    /// Returns the options of `object_store`'s own retries. They apply to requests for credentials
    /// and requests of callers; [`retries`](crate::retries) handles all others.
    pub(crate) fn retry(&self) -> RetryConfig {
        let backoff = BackoffConfig {
            init_backoff: self.first_pause,
            max_backoff: LONGEST_PAUSE.max(self.first_pause),
            base: 2.0,
        };
        let max_retries = self.retries.min(RETRIES_OF_CLIENT_MAX);
        RetryConfig { backoff, max_retries, retry_timeout: self.deadline }
    }

    /// Returns the maximum number of requests in flight.
    pub(crate) fn connections(&self) -> u32 {
        self.connections.clamp(1, CONNECTIONS_MAX)
    }
}

/// A throttling store recovers within seconds, while a reader waits.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A machine without a role has no metadata service; with more retries the search for credentials
/// would last until the deadline.
const RETRIES_OF_CLIENT_MAX: usize = 10;

/// Equal to the engine's maximum number of requests to one device.
pub(crate) const CONNECTIONS_MAX: u32 = 64;
