//! The clock of recordings.
//!
//! In:    nothing.
//! Out:   now.
//! Never: another look at the clock in this crate.

use std::time::Instant;

#[expect(clippy::disallowed_methods, reason = "a recording is of real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
