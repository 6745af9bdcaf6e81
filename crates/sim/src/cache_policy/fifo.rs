//! First in, first out: the key that came first is evicted.

use super::key_map::KeyMap;
use super::linked_nodes::{KeyNodes, KeyQueue};
use super::{CacheKey, CachePolicy};

#[derive(Debug)]
pub(super) struct FifoCache {
    capacity: usize,
    map: KeyMap,
    nodes: KeyNodes,
    queue: KeyQueue,
}

impl FifoCache {
    pub(super) fn new(capacity: usize) -> Self {
        let (map, nodes) = (KeyMap::default(), KeyNodes::default());
        Self { capacity, map, nodes, queue: KeyQueue::new() }
    }

    /// Moves a key that is here to the end of the line. Returns whether it is here.
    pub(super) fn arrives_again(&mut self, key: CacheKey) -> bool {
        let node = self.map.get(&key);
        if let Some(node) = node {
            self.queue.move_to_head(&mut self.nodes, *node);
        }
        node.is_some()
    }

    /// Adds a key that is not here, and evicts the oldest if the cache is full.
    pub(super) fn insert(&mut self, key: CacheKey) {
        if self.queue.len() == self.capacity
            && let Some(oldest) = self.queue.pop_tail(&mut self.nodes)
        {
            self.map.remove(&self.nodes.get(oldest).key);
            self.nodes.remove(oldest);
        }
        let node = self.nodes.add(key);
        self.queue.push_head(&mut self.nodes, node);
        self.map.insert(key, node);
    }
}

impl CachePolicy for FifoCache {
    fn access(&mut self, key: CacheKey) -> bool {
        if self.map.contains_key(&key) {
            return true;
        }
        self.insert(key);
        false
    }

    fn len(&self) -> usize {
        self.queue.len()
    }
}
