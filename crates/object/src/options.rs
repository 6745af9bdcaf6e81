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
    /// server, or a connection that broke, within the deadline.
    pub retries: usize,
    /// The pause before the first retry; each further one is longer, up to a few seconds.
    pub first_pause: Duration,
    /// Whether a read that waits for a late request may send it a second time, for at most 2 % more
    /// requests.
    pub hedge: bool,
}

impl Default for StoreOptions {
    /// A deadline of 60 s, 10 retries, the first after 100 ms; late requests are sent twice.
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(60),
            retries: 10,
            first_pause: Duration::from_millis(100),
            hedge: true,
        }
    }
}

impl StoreOptions {
    /// The same for `object_store`.
    pub(crate) fn retry(&self) -> RetryConfig {
        let backoff = BackoffConfig {
            init_backoff: self.first_pause,
            max_backoff: LONGEST_PAUSE.max(self.first_pause),
            base: 2.0,
        };
        RetryConfig { backoff, max_retries: self.retries, retry_timeout: self.deadline }
    }
}

/// A store that throttles serves again within seconds, and a reader waits meanwhile.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
