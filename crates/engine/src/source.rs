//! Sources: anything that returns bytes for a range, read through the engine like a file.
//!
//! In:    an implementation of [`Source`], such as a client of an object store.
//! Never: a thread or runtime of the engine's for a source; a call of a source under the mutex.
//!
//! ```text
//!   reader --> core --> fetch(range, reply) --> the source's own thread, task or event loop
//!     ^                                                  |
//!     '--- a page is complete <--- reply.write(bytes) <--'
//! ```
//!
//! See docs/guide/sources.md for how to write one.

mod blocking;
mod contract;
mod errors;
mod fetches;
mod identity;
mod joined;
mod names;
mod open;
mod reply;

pub use blocking::{Blocking, ReadRange};
pub use contract::Source;
pub(crate) use fetches::{FetchTable, NewFetch, PendingFetch};
pub use identity::SourceIdentity;
pub use joined::Joined;
pub(crate) use names::{OpenSource, SourceNames};
pub use reply::Reply;
