//! Least recently used: the key whose last use is longest ago is evicted.

use super::key_map::KeyMap;
use super::linked_nodes::{KeyNodes, KeyQueue};
use super::{CacheKey, CachePolicy};

#[derive(Debug)]
pub(super) struct LruCache {
    capacity: usize,
    map: KeyMap,
    nodes: KeyNodes,
    queue: KeyQueue,
}

impl LruCache {
    pub(super) fn new(capacity: usize) -> Self {
        let (map, nodes) = (KeyMap::default(), KeyNodes::default());
        Self { capacity, map, nodes, queue: KeyQueue::new() }
    }
}

impl CachePolicy for LruCache {
    fn access(&mut self, key: CacheKey) -> bool {
        if let Some(node) = self.map.get(&key) {
            self.queue.move_to_head(&mut self.nodes, *node);
            return true;
        }
        if self.queue.len() == self.capacity
            && let Some(oldest) = self.queue.pop_tail(&mut self.nodes)
        {
            self.map.remove(&self.nodes.get(oldest).key);
            self.nodes.remove(oldest);
        }
        let node = self.nodes.add(key);
        self.queue.push_head(&mut self.nodes, node);
        self.map.insert(key, node);
        false
    }

    fn len(&self) -> usize {
        self.queue.len()
    }
}
