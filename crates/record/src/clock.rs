//! The clock of recordings: the only place in this crate that reads the time.

use std::time::Instant;

#[expect(clippy::disallowed_methods, reason = "a recording is of real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
