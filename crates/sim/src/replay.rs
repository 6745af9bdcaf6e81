//! Replay: the reads of a trace in virtual time on a device model, or its pages in isolated caches.
//!
//! In:    a trace that can be read several times; a device, a cache, a pace.
//! Out:   the waits of its reads, and the work of the device.
//! Never: the whole trace in memory: at most [`MAX_QUEUED`] records are queued for their threads.
//!
//! Interpretation of the figures, and limits of block traces: docs/lab/replay.md.

mod bounds;
mod caches;
mod feed;
mod figures;
mod player;

pub use bounds::{ReplayBounds, TraceFuture};
pub use caches::{CacheCount, CacheUnit, count_misses, count_misses_in, fewest_misses};
pub use feed::MAX_QUEUED;
pub use figures::{GroupFigures, ReplayFigures};
pub use player::{Replay, ReplayGroup, ReplayPace, replay, with_capacity};

use foreread_trace::{TraceError, TraceReader};

/// Reopens the trace at its first record.
pub type OpenTrace<'t> = dyn Fn() -> Result<TraceReader<'static>, TraceError> + 't;

/// Reason that a trace was not replayed.
#[derive(Debug)]
pub enum ReplayError {
    /// The trace is malformed.
    Trace(TraceError),
    /// The trace does not fit the machine.
    Machine(String),
}

impl From<TraceError> for ReplayError {
    fn from(error: TraceError) -> Self {
        Self::Trace(error)
    }
}

impl std::fmt::Display for ReplayError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Trace(error) => error.fmt(f),
            Self::Machine(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for ReplayError {}
