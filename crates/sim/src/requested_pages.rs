//! What the decisions for a stream have requested from its device.
//!
//! In:    decisions, as the world sees them.
//! Out:   sums.
//! Never: a decision of its own.

use foreread_core::units::{PageIndex, Pages};

/// The pages that the decisions for a stream have requested from its device.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestedPages {
    pub(crate) pages: Pages,
    /// One past the furthest of them.
    pub(crate) end: PageIndex,
    /// The meter of the process that opened the stream.
    pub(crate) meter: usize,
}
