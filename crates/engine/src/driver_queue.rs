//! Events that hits post to the driver: markers met, streams and pins ended.
//!
//! Posting never waits for the driver, which may be waiting for a device. Markers beyond a bound
//! are dropped and counted: a lost marker delays one read-ahead.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use foreread_core::path::{StreamId, WriteId};
use foreread_core::table::Frame;
use foreread_core::units::{ByteCount, PageIndex, Pages};

use crate::advice::Advised;

#[derive(Debug)]
pub(crate) struct DriverQueue {
    events: Mutex<VecDeque<DriverEvent>>,
    has_events: AtomicBool,
    dropped: AtomicU64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum DriverEvent {
    /// A hit met and cleared a marker.
    Marker(MarkerHit),
    /// A stream has ended.
    CloseStream(StreamId),
    /// The last pin of a page that has left the cache has ended.
    Unpinned(Frame),
    /// The first `bytes` bytes of a request have arrived from its source.
    Arrived { tag: u64, bytes: u64 },
    /// A source has finished its reply, with a byte count or an error number.
    Fetched { tag: u64, result: Result<u64, i32> },
    /// A task's write has been copied into its frames.
    Filled(WriteId),
}

/// A marker hit, as the read-ahead policy needs it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct MarkerHit {
    pub(crate) stream: StreamId,
    pub(crate) page: PageIndex,
    /// Pages left of the read, including this one.
    pub(crate) count: Pages,
    pub(crate) prev_pos: Option<ByteCount>,
    /// Advice of the reader that has not reached the core yet.
    pub(crate) advised: Option<Advised>,
}

impl DriverQueue {
    pub(crate) const fn new() -> Self {
        Self {
            events: Mutex::new(VecDeque::new()),
            has_events: AtomicBool::new(false),
            dropped: AtomicU64::new(0),
        }
    }

    pub(crate) fn post(&self, event: DriverEvent) {
        let mut events = self.lock();
        match event {
            DriverEvent::Marker(_) if events.len() >= MAX_EVENTS => {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                return;
            }
            DriverEvent::Marker(_)
            | DriverEvent::CloseStream(_)
            | DriverEvent::Unpinned(_)
            | DriverEvent::Arrived { .. }
            | DriverEvent::Fetched { .. }
            | DriverEvent::Filled(_) => events.push_back(event),
        }
        self.has_events.store(true, Ordering::SeqCst);
    }

    pub(crate) fn take(&self) -> Option<DriverEvent> {
        let mut events = self.lock();
        let event = events.pop_front();
        if events.is_empty() {
            self.has_events.store(false, Ordering::SeqCst);
        }
        event
    }

    /// Returns true if the queue is empty. Takes no lock: every hit on a marker and every driver
    /// that stops checks this.
    pub(crate) fn is_empty(&self) -> bool {
        !self.has_events.load(Ordering::SeqCst)
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Blocks all posts and takes while the guard lives.
    #[cfg(test)]
    pub(crate) fn hold(&self) -> MutexGuard<'_, VecDeque<DriverEvent>> {
        self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<DriverEvent>> {
        // No code panics while holding this lock, and the queue would be consistent even then.
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Events in the queue beyond which markers are dropped. A driver empties the queue before each
/// read, so it fills only while one read waits; a thousand windows in that time are more than any
/// device reads.
const MAX_EVENTS: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_beyond_the_bound_are_dropped_and_counted_but_no_stream_is_left_open() {
        let queue = DriverQueue::new();
        let stream = StreamId::from_bits(7);
        let (page, count) = (PageIndex(1), Pages(1));
        let marker = MarkerHit { stream, page, count, prev_pos: None, advised: None };
        for _ in 0..MAX_EVENTS + 5 {
            queue.post(DriverEvent::Marker(marker));
        }
        queue.post(DriverEvent::CloseStream(stream));
        assert_eq!(queue.dropped(), 5);
        let events: Vec<DriverEvent> = std::iter::from_fn(|| queue.take()).collect();
        assert_eq!(events.len(), MAX_EVENTS + 1);
        assert_eq!(events.last(), Some(&DriverEvent::CloseStream(stream)));
        assert!(queue.is_empty());
    }
}
