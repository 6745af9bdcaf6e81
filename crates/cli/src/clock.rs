//! The only clock of the command line, its processor time, and its only sleep.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Returns the current time.
#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
pub fn clock() -> Instant {
    Instant::now()
}

/// Returns the CPU time of this process: user and system, all its threads.
pub(crate) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).expect("processor time is not negative")
}

/// Sleeps until then; not at all if that has passed.
#[expect(clippy::disallowed_methods, reason = "a device that is slow on purpose, a pause")]
pub fn sleep_until(due: Instant) {
    std::thread::sleep(due.saturating_duration_since(clock()));
}
