//! How stores are asked.
//!
//! In:    the caller's limits.
//! Out:   the same, as `object_store` takes them.
//! Never: credentials: those are in the environment.

use std::time::Duration;

use object_store::{BackoffConfig, RetryConfig};

/// How long a request may take, and how often it is sent again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StoreOptions {
    /// How long one request may take, with all retries; then its readers get an error, or ask for
    /// each of its pages once more.
    pub deadline: Duration,
    /// How often a request is sent again after a response of 429, 503 or another error of the
    /// server, or a connection that broke, within the deadline. An object that is opened, or a
    /// listing, whose host cannot be reached at all is an error after four.
    pub retries: usize,
    /// The pause before the first retry; each further one is longer, up to a few seconds. A store
    /// that asks for a longer one (`Retry-After`) gets it, within the deadline.
    pub first_pause: Duration,
    /// How many requests of one bucket are in flight at a time, each on a connection; 1 to 64.
    pub connections: u32,
    /// Whether a read that waits for a late request may send it a second time, for at most 2 % more
    /// requests.
    pub hedge: bool,
}

impl Default for StoreOptions {
    /// A deadline of 60 s, retries until then, the first after 100 ms; 64 connections; late
    /// requests are sent twice.
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
    /// The same for `object_store`: for its requests for credentials, those of callers, and bodies
    /// that break. All others are sent again by [`retries`](crate::retries).
    pub(crate) fn retry(&self) -> RetryConfig {
        let backoff = BackoffConfig {
            init_backoff: self.first_pause,
            max_backoff: LONGEST_PAUSE.max(self.first_pause),
            base: 2.0,
        };
        let max_retries = self.retries.min(RETRIES_OF_CLIENT_MAX);
        RetryConfig { backoff, max_retries, retry_timeout: self.deadline }
    }

    /// How many requests may be in flight.
    pub(crate) fn connections(&self) -> u32 {
        self.connections.clamp(1, CONNECTIONS_MAX)
    }
}

/// A store that throttles serves again within seconds, and a reader waits meanwhile.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A machine without a role has no service for credentials, and would wait for one until the
/// deadline.
const RETRIES_OF_CLIENT_MAX: usize = 10;

/// As many as the engine sends to one device.
pub(crate) const CONNECTIONS_MAX: u32 = 64;
