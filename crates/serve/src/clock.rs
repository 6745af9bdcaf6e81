//! What time it is: for time-outs and for how often a line is logged.
//!
//! In:    nothing.
//! Out:   the time, since some moment.
//! Never: asked anywhere else in this crate.

use std::time::Instant;

/// The one place of the server that asks what time it is.
#[expect(clippy::disallowed_methods, reason = "clients have deadlines, and lines a rate")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
