//! Monotonic time for time-outs and log rate limits; the crate's only access to the clock.

use std::time::Instant;

/// Returns the current time. No other code of the server reads the clock.
#[expect(clippy::disallowed_methods, reason = "clients have deadlines, and lines a rate")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
