//! What time it is: for how long a listing holds.
//!
//! In:    nothing.
//! Out:   the time, since some moment.
//! Never: asked anywhere else in this crate.

use std::time::Instant;

/// The one place of the mounts that asks what time it is.
#[expect(clippy::disallowed_methods, reason = "listings have a lifetime")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
