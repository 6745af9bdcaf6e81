//! Read-ahead: which pages to prefetch for a reader, how many of them, and when.
//!
//! In:    one missed page, or a marker that a reader reached; the device's measured request cost
//!        and latency; the memory available for prefetched pages.
//! Out:   a [`Plan`](walk::Plan): the pages to read now, and the one that becomes the marker.
//! Never: I/O, frames or page contents. `page_in` carries out the plan.
//!
//! ```text
//!   question --> whose stream? --> its share of the memory --> policy: a window --> plan
//!                (streams)         (memory_shares)             (policy/*)             |
//!                                        ^                                            v
//!                 window_estimator: the largest window          submitted: was it read?
//!                 of use on this device                         run_ends: which streams ended
//!                 run_lengths: the cheapest one for how long streams run
//! ```
//!
//! `prefetcher` joins these parts for an `IoPath`. A program with its own page cache needs only
//! [`walk`] and a [`Policy`]. Terms are Linux's: start, size, `async_size`, marker, history, hole.

mod allotment;
pub(crate) mod asker;
mod decision;
pub(crate) mod hinted_frames;
mod known_runs;
pub(crate) mod learnt_device;
pub(crate) mod memory_shares;
mod policy;
pub(crate) mod prefetcher;
mod run_ends;
mod run_lengths;
mod stream_state;
mod streams;
pub mod walk;
pub(crate) mod window_estimator;

pub use self::decision::{
    Allotment, Ask, Decided, Decision, Pattern, Residency, Stride, Trigger, Window, WindowLimits,
};
pub use self::learnt_device::{LearntCost, LearntDevice};
pub use self::policy::custom::CustomPolicy;
pub use self::policy::rules::{AdaptivePart, Rules, Without};
pub use self::policy::{Policy, sizes};
pub use self::prefetcher::TooManyWeights;
pub use self::stream_state::{Advice, StreamState};
pub use self::streams::Streams;
