//! Reads of many byte ranges at once: merged, split and ordered by what the device model knows.
//!
//! In:    ranges in any order, which may overlap, be empty, or end behind the file.
//! Out:   for each range its own bytes, once: all together, or in the order of arrival.
//! Never: a page read twice for one call. More in flight, over all callers, than the engine's
//!        budget of planned reads. A frame held for a caller that does not look.
//!
//! ```text
//!   ranges --> sweep: what is cached is copied --> plan --> planned reads --> copied as they come
//!                ^                                                                |
//!                '------ the next portion, when half of the window has come <-----'
//! ```
//!
//! How requests are planned: docs/design/ranges.md.

mod blocking;
mod future;
#[cfg(feature = "futures-core")]
mod futures_stream;
mod progress;
mod results;
mod stream;
mod sweep;
#[cfg(test)]
mod tests;

pub use future::ReadRanges;
pub use stream::{RangeItem, RangeIter, RangeStream};
