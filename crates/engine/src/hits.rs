//! How many reads were answered without the driver.
//!
//! In:    one count a stream, which only its thread changes.
//! Out:   their sum.
//! Never: a locked instruction on the way of a hit: a count is loaded and stored, no more.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The counts of all streams.
#[derive(Debug, Default)]
pub(crate) struct HitCounters {
    counts: Mutex<HitCounts>,
}

#[derive(Debug, Default)]
struct HitCounts {
    /// Of the streams that are open, and of some that have ended.
    streams: Vec<Arc<AtomicU64>>,
    /// Of the others.
    ended: u64,
}

/// The count of one stream. One thread at a time changes it.
#[derive(Debug)]
pub(crate) struct HitCount(Arc<AtomicU64>);

impl HitCounters {
    /// A count for one more stream.
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
    /// Adds up the streams that have ended. Called when the list is about to grow, so that it is no
    /// more than twice as long as there were streams at a time.
    fn sweep(&mut self) {
        let Self { streams, ended } = self;
        streams.retain(|count| {
            // Its stream has the other handle.
            let is_open = Arc::strong_count(count) > 1;
            if !is_open {
                // What its thread stored last came before it let go of its handle.
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
