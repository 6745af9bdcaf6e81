//! What hits post to the driver: markers met, streams and pins ended.
//!
//! In:    events, from any thread.
//! Out:   the same, in order, to the driver.
//! Never: a wait behind the driver, which may wait for a device. More markers than its bound: a
//!        lost marker costs one read-ahead that comes late, and is counted.

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
    /// The last pin of a page that has left has ended.
    Unpinned(Frame),
    /// So many bytes of a request have come from its source.
    Arrived { tag: u64, bytes: u64 },
    /// A source has ended its answer: bytes, or the error number.
    Fetched { tag: u64, result: Result<u64, i32> },
    /// The bytes of a task's write are in its frames.
    Filled(WriteId),
}

/// A marker, as the policy wants to know of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct MarkerHit {
    pub(crate) stream: StreamId,
    pub(crate) page: PageIndex,
    /// The pages that were left of the read, this one included.
    pub(crate) count: Pages,
    pub(crate) prev_pos: Option<ByteCount>,
    /// What the reader says of its reads, if the core has not been told yet.
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

    /// Whether it is empty, so that no thread must drive. No lock: every hit that met a
    /// marker asks, and every driver that stops.
    pub(crate) fn is_empty(&self) -> bool {
        !self.has_events.load(Ordering::SeqCst)
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Keeps all others from posting, and from taking.
    #[cfg(test)]
    pub(crate) fn hold(&self) -> MutexGuard<'_, VecDeque<DriverEvent>> {
        self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<DriverEvent>> {
        // Nothing panics while it holds this lock; a queue is whole at any time all the same.
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Markers beyond this are dropped. A driver empties the queue before each read, so it fills only
/// while one read waits; a thousand windows in that time are more than any device reads.
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
