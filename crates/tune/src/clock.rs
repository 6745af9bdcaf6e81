//! The crate's only clock and its only sleep. Code that decides takes the time as an argument.

use std::time::{Duration, Instant};

/// Returns the current time.
#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Sleeps to wait for events that the kernel does not announce, such as pages in flight to the
/// cache.
#[expect(clippy::disallowed_methods, reason = "the kernel has no event for it")]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}
