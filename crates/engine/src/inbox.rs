//! What hits post to the driver: markers met, streams and pins ended.
//!
//! In:    posts, from any thread.
//! Out:   the same, in order, to the driver.
//! Never: a wait behind the driver, which may wait for a device. More markers than its bound: a
//!        lost marker costs one read-ahead that comes late, and is counted.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use foreread_core::path::StreamId;
use foreread_core::table::Frame;
use foreread_core::units::{ByteCount, PageIndex, Pages};

use crate::advice::Advised;

#[derive(Debug)]
pub(crate) struct Inbox {
    posts: Mutex<VecDeque<Post>>,
    has_posts: AtomicBool,
    dropped: AtomicU64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Post {
    /// A hit met and cleared a marker.
    Marker(Marker),
    /// A stream has ended.
    CloseStream(StreamId),
    /// The last pin of a page that has left has ended.
    Unpinned(Frame),
}

/// A marker, as the policy wants to know of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Marker {
    pub(crate) stream: StreamId,
    pub(crate) page: PageIndex,
    /// The pages that were left of the read, this one included.
    pub(crate) count: Pages,
    pub(crate) prev_pos: Option<ByteCount>,
    /// What the reader says of its reads, if the core has not been told yet.
    pub(crate) advised: Option<Advised>,
}

impl Inbox {
    pub(crate) const fn new() -> Self {
        Self {
            posts: Mutex::new(VecDeque::new()),
            has_posts: AtomicBool::new(false),
            dropped: AtomicU64::new(0),
        }
    }

    pub(crate) fn post(&self, post: Post) {
        let mut posts = self.lock();
        match post {
            Post::Marker(_) if posts.len() >= MOST_POSTS => {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                return;
            }
            Post::Marker(_) | Post::CloseStream(_) | Post::Unpinned(_) => posts.push_back(post),
        }
        self.has_posts.store(true, Ordering::SeqCst);
    }

    pub(crate) fn take(&self) -> Option<Post> {
        let mut posts = self.lock();
        let post = posts.pop_front();
        if posts.is_empty() {
            self.has_posts.store(false, Ordering::SeqCst);
        }
        post
    }

    /// Whether there are no posts, so that no thread must drive. No lock: every hit that met a
    /// marker asks, and every driver that stops.
    pub(crate) fn is_empty(&self) -> bool {
        !self.has_posts.load(Ordering::SeqCst)
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Post>> {
        // Nothing panics while it holds this lock; a queue is whole at any time all the same.
        self.posts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Markers beyond this are dropped. A driver empties the inbox before each read, so it fills only
/// while one read waits; a thousand windows in that time are more than any device reads.
const MOST_POSTS: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_beyond_the_bound_are_dropped_and_counted_but_no_stream_is_left_open() {
        let inbox = Inbox::new();
        let stream = StreamId::from_bits(7);
        let (page, count) = (PageIndex(1), Pages(1));
        let marker = Marker { stream, page, count, prev_pos: None, advised: None };
        for _ in 0..MOST_POSTS + 5 {
            inbox.post(Post::Marker(marker));
        }
        inbox.post(Post::CloseStream(stream));
        assert_eq!(inbox.dropped(), 5);
        let posts: Vec<Post> = std::iter::from_fn(|| inbox.take()).collect();
        assert_eq!(posts.len(), MOST_POSTS + 1);
        assert_eq!(posts.last(), Some(&Post::CloseStream(stream)));
        assert!(inbox.is_empty());
    }
}
