//! The crate's only clock, for the lifetime of listings.

use std::time::Instant;

/// Returns the current time.
#[expect(clippy::disallowed_methods, reason = "listings have a lifetime")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
