//! RocksDB: an iterator with more than two sequential reads prefetches, doubling each time.
//!
//! ```text
//!   reads in order    1   2   3      4       5      ..
//!   read ahead        -   -   8K     16K     32K    .. 256K       each when the last is used up
//! ```
//!
//! Source: RocksDB's wiki, "Iterator" (automatic readahead), and the descriptions of its options
//! `initial_auto_readahead_size` (8 KiB), `max_auto_readahead_size` (256 KiB) and
//! `num_file_reads_for_auto_readahead` (2). Without `async_io` the reader waits for each.

use foreread_core::prefetch::{Ask, CustomPolicy, Decision, Residency, StreamState, WindowLimits};

use super::{continues, is_of, only_the_read, subsequent};

#[derive(Debug)]
pub(super) struct RocksDb;

const READS: usize = 0;
const SIZE: usize = 1;

const READS_BEFORE: u64 = 2;

/// First window, in pages.
const FIRST: u64 = 2;
const MAX: u64 = 64;

impl CustomPolicy for RocksDb {
    fn name(&self) -> &'static str {
        "rocksdb"
    }

    fn decide(
        &self,
        state: &mut StreamState,
        ask: Ask,
        limits: WindowLimits,
        _cache: &dyn Residency,
    ) -> Option<Decision> {
        let goes_on = is_of(state.window, ask.page) || continues(ask);
        if !goes_on {
            (state.memory[READS], state.memory[SIZE]) = (1, 0);
            return only_the_read(ask);
        }
        state.memory[READS] += 1;
        if state.memory[READS] <= READS_BEFORE {
            return only_the_read(ask);
        }
        let size = match state.memory[SIZE] {
            0 => FIRST,
            size => (size * 2).min(MAX),
        };
        state.memory[SIZE] = size;
        subsequent(ask, state.window, ask.count.0 + size, 0, limits.max)
    }
}
