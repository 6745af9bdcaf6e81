//! Everything that decides what is read ahead of a reader, how much and when.
//!
//! In:    one page that a reader misses, or a marker that it met; what requests of the device cost
//!        and how long they take; how much memory there is for pages ahead.
//! Out:   a [`Plan`](walk::Plan): which pages to read now, and which of them asks for more.
//! Never: a request, a frame, a page's bytes. The page-in part does what the plan says.
//!
//! ```text
//!   question --> whose stream? --> its share of the memory --> policy: a window --> plan
//!                (streams)         (memory_shares)             (policy/*)             |
//!                                        ^                                            v
//!                 window_estimator: the largest window          submitted: what came of it;
//!                 of use on this device                         run_ends: which streams ended
//!                 run_lengths: the cheapest one for how long streams run
//! ```
//!
//! `prefetcher` joins these for a path. A program with a page cache of its own needs [`walk`] and
//! a [`Policy`] only. The words are Linux's: start, size, `async_size`, marker, history, hole.

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
pub use self::policy::Policy;
pub use self::policy::custom::CustomPolicy;
pub use self::policy::rules::{AdaptivePart, Rules, Without};
pub use self::prefetcher::TooManyWeights;
pub use self::stream_state::{Advice, Distance, StreamState};
pub use self::streams::Streams;
