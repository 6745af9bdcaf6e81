//! The one clock of the command line, and the one pause.

use std::time::Instant;

/// The one clock of the command line.
#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
pub(crate) fn clock() -> Instant {
    Instant::now()
}

/// Sleeps until then; not at all if that has passed.
#[expect(clippy::disallowed_methods, reason = "a device that is slow on purpose, a pause")]
pub(crate) fn sleep_until(due: Instant) {
    std::thread::sleep(due.saturating_duration_since(clock()));
}
