//! Reads of many byte ranges at once: merged, split and ordered by the device model.
//!
//! In:    ranges in any order, which may overlap, be empty, or end past the file.
//! Out:   each range's bytes once: all together, or in completion order.
//! Never: a page read twice for one call; more bytes in flight, over all callers, than the engine's
//!        budget of planned reads; a frame held for a caller that does not poll.
//!
//! ```text
//!   ranges --> sweep: cached pages are copied ---> plan --> planned reads --> copied as they come
//!                ^                                                                |
//!                '------ the next portion, when half of the window has come <-----'
//! ```
//!
//! See docs/design/ranges.md for how requests are planned.

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
