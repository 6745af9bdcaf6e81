//! Measuring: what `demo` and `bench` have in common.
//!
//! In:    a target, a pattern, ways to read it.
//! Out:   runs: how many reads took how long, and what the device was asked for.
//! Never: a figure that was not measured in this process.

pub(crate) mod arm;
pub(crate) mod pattern;
mod slow_mount;
pub(crate) mod slow_server;
pub(crate) mod target;

use std::time::Instant;

/// The one clock of the command line.
#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
pub(crate) fn clock() -> Instant {
    Instant::now()
}
