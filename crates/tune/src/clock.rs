//! The one clock of the crate, and its one pause.
//!
//! In:    nothing.
//! Out:   the time; or it has passed.
//! Never: a decision. Code that decides gets the time as an argument.

use std::time::{Duration, Instant};

/// Now.
#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Sleeps, for events that the kernel does not announce: pages on their way to the cache.
#[expect(clippy::disallowed_methods, reason = "the kernel has no event for it")]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}
