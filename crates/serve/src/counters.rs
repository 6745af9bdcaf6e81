//! What a server has done so far.
//!
//! In:    counts, from each connection's thread.
//! Out:   their sums.
//! Never: a number that is exact at a moment: each is read by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a server has done so far.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct Counters {
    /// Connections that are open now.
    pub connections: u64,
    /// Connections that were ever accepted.
    pub accepted: u64,
    /// Connections that were closed because there were too many.
    pub refused: u64,
    /// Connections that were closed because of what their client did.
    pub misbehaved: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Trims.
    pub trims: u64,
    /// Writes of zeroes.
    pub zeroes: u64,
    /// Requests to read ahead of a use.
    pub caches: u64,
    /// Requests for what is data and what is not.
    pub block_status: u64,
    /// Bytes that clients read.
    pub bytes_read: u64,
    /// Bytes that clients wrote.
    pub bytes_written: u64,
    /// Requests that were answered by an error.
    pub errors: u64,
}

/// Shows the counters of a server, wherever that runs. Made by [`crate::Server::counter_reader`].
#[derive(Clone, Debug, Default)]
pub struct CounterReader {
    counts: Arc<AtomicCounters>,
}

macro_rules! counts {
    ($($name:ident),*) => {
        /// The same numbers, as they grow.
        #[derive(Debug, Default)]
        pub(crate) struct AtomicCounters {
            $(pub(crate) $name: AtomicU64,)*
        }

        impl AtomicCounters {
            /// Adds what was done since the last time.
            pub(crate) fn add(&self, more: &Counters) {
                $(if more.$name > 0 {
                    self.$name.fetch_add(more.$name, Ordering::Relaxed);
                })*
            }

            fn load(&self) -> Counters {
                Counters { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counts!(
    connections,
    accepted,
    refused,
    misbehaved,
    reads,
    writes,
    flushes,
    trims,
    zeroes,
    caches,
    block_status,
    bytes_read,
    bytes_written,
    errors
);

impl CounterReader {
    /// What was done so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counts.load()
    }

    pub(crate) fn counts(&self) -> &AtomicCounters {
        &self.counts
    }
}
