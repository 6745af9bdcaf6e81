//! Counters of a running server, added up over all connection threads.
//!
//! Each counter is read on its own, so a set of them is no exact snapshot.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of a server since it started.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct Counters {
    /// Open connections.
    pub connections: u64,
    /// Connections accepted since the start.
    pub accepted: u64,
    /// Connections closed because there were too many.
    pub refused: u64,
    /// Connections closed because of their client's behaviour.
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
    /// Cache requests, which announce later reads.
    pub caches: u64,
    /// Block-status requests, which list data and holes.
    pub block_status: u64,
    /// Bytes that clients read.
    pub bytes_read: u64,
    /// Bytes that clients wrote.
    pub bytes_written: u64,
    /// Requests answered with an error.
    pub errors: u64,
}

/// Handle that reads the counters of a server from anywhere; made by
/// [`crate::Server::counter_reader`].
#[derive(Clone, Debug, Default)]
pub struct CounterReader {
    counts: Arc<AtomicCounters>,
}

macro_rules! counts {
    ($($name:ident),*) => {
        /// The same counters as atomics.
        #[derive(Debug, Default)]
        pub(crate) struct AtomicCounters {
            $(pub(crate) $name: AtomicU64,)*
        }

        impl AtomicCounters {
            /// Adds the counts since the previous call.
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
    /// Returns the counts so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counts.load()
    }

    pub(crate) fn counts(&self) -> &AtomicCounters {
        &self.counts
    }
}
