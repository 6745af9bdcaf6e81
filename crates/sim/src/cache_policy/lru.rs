//! Least recently used: FIFO in which a hit reinserts the key.

use super::fifo::FifoCache;
use super::{CacheKey, CachePolicy};

#[derive(Debug)]
pub(super) struct LruCache(FifoCache);

impl LruCache {
    pub(super) fn new(capacity: usize) -> Self {
        Self(FifoCache::new(capacity))
    }
}

impl CachePolicy for LruCache {
    fn access(&mut self, key: CacheKey) -> bool {
        if self.0.arrives_again(key) {
            return true;
        }
        self.0.insert(key);
        false
    }

    fn first_use(&mut self, key: CacheKey) {
        self.0.arrives_again(key);
    }

    fn take_evicted(&mut self) -> Option<CacheKey> {
        self.0.take_evicted()
    }

    fn forget(&mut self, key: CacheKey) {
        self.0.forget(key);
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}
