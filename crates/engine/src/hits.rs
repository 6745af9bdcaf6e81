//! Counters of reads served without the driver, one per stream. Only the stream's thread changes
//! its counter, so that a hit costs a plain load and store and no locked instruction.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Hit counters of all streams.
#[derive(Debug, Default)]
pub(crate) struct HitCounters {
    counts: Mutex<HitCounts>,
}

#[derive(Debug, Default)]
struct HitCounts {
    /// Counters of the open streams, and of ended ones that have not been swept yet.
    streams: Vec<Arc<AtomicU64>>,
    /// Sum over the ended streams already swept.
    ended: u64,
}

/// Hit counter of one stream. Only one thread at a time changes it.
#[derive(Debug)]
pub(crate) struct HitCount(Arc<AtomicU64>);

impl HitCounters {
    /// Creates the counter of a new stream.
    pub(crate) fn of_a_stream(&self) -> HitCount {
        let mut counts = self.lock();
        if counts.streams.len() == counts.streams.capacity() {
            counts.sweep();
        }
        let count = Arc::new(AtomicU64::new(0));
        counts.streams.push(Arc::clone(&count));
        HitCount(count)
    }

    pub(crate) fn sum(&self) -> u64 {
        let counts = self.lock();
        let open = counts.streams.iter().map(|count| count.load(Ordering::Relaxed));
        counts.ended + open.sum::<u64>()
    }

    fn lock(&self) -> MutexGuard<'_, HitCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HitCounts {
    /// Folds the counters of ended streams into the sum. Called when the list is about to grow, so
    /// that it stays at most twice as long as the peak number of open streams.
    fn sweep(&mut self) {
        let Self { streams, ended } = self;
        streams.retain(|count| {
            // An open stream holds the other handle.
            let is_open = Arc::strong_count(count) > 1;
            if !is_open {
                // Pairs with the release in the drop of the stream's handle, after its last store.
                fence(Ordering::Acquire);
                *ended += count.load(Ordering::Relaxed);
            }
            is_open
        });
        streams.reserve(streams.len().max(8));
    }
}

impl HitCount {
    #[inline]
    pub(crate) fn add_one(&self) {
        self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_of_streams_that_ended_are_counted_and_their_counts_are_not_kept() {
        let hits = HitCounters::default();
        let open = hits.of_a_stream();
        open.add_one();
        for _ in 0..1000 {
            let stream = hits.of_a_stream();
            stream.add_one();
            stream.add_one();
        }
        assert_eq!(hits.sum(), 2001);
        assert!(hits.lock().streams.capacity() < 40);
    }
}
