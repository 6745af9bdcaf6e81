//! First in, first out: evicts the key that was inserted first.

use super::key_map::KeyMap;
use super::linked_nodes::{KeyNodes, KeyQueue};
use super::{CacheKey, CachePolicy};

#[derive(Debug)]
pub(super) struct FifoCache {
    capacity: usize,
    map: KeyMap,
    nodes: KeyNodes,
    queue: KeyQueue,
    evicted: Option<CacheKey>,
}

impl FifoCache {
    pub(super) fn new(capacity: usize) -> Self {
        let (map, nodes) = (KeyMap::default(), KeyNodes::default());
        Self { capacity, map, nodes, queue: KeyQueue::new(), evicted: None }
    }

    /// Moves a cached key to the end of the queue. Returns false if it is not cached.
    pub(super) fn arrives_again(&mut self, key: CacheKey) -> bool {
        let node = self.map.get(key, &self.nodes);
        if let Some(node) = node {
            self.queue.move_to_head(&mut self.nodes, node);
        }
        node.is_some()
    }

    /// Inserts a key that is not cached, and evicts the oldest if the cache is full.
    pub(super) fn insert(&mut self, key: CacheKey) {
        if self.queue.len() == self.capacity
            && let Some(oldest) = self.queue.pop_tail(&mut self.nodes)
        {
            let key = self.nodes.get(oldest).key;
            self.map.remove(key, &self.nodes);
            self.nodes.remove(oldest);
            self.evicted = Some(key);
        }
        let node = self.nodes.add(key);
        self.queue.push_head(&mut self.nodes, node);
        self.map.insert(key, node);
    }
}

impl CachePolicy for FifoCache {
    fn access(&mut self, key: CacheKey) -> bool {
        if self.map.get(key, &self.nodes).is_some() {
            return true;
        }
        self.insert(key);
        false
    }

    fn take_evicted(&mut self) -> Option<CacheKey> {
        self.evicted.take()
    }

    fn forget(&mut self, key: CacheKey) {
        if let Some(node) = self.map.remove(key, &self.nodes) {
            self.queue.detach(&mut self.nodes, node);
            self.nodes.remove(node);
        }
    }

    fn len(&self) -> usize {
        self.queue.len()
    }
}
