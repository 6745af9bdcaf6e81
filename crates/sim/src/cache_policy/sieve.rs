//! SIEVE: one queue in insertion order, and a clock hand that evicts the first key not used since
//! its last pass.
//!
//! ```text
//!   head  [a] [b*] [c] [d*]  tail        * visited
//!               ^ hand moves to the head; it clears marks and evicts the first without
//! ```
//!
//! Source: Zhang et al., "SIEVE is Simpler than LRU", NSDI 2024, algorithm 1.

use super::key_map::KeyMap;
use super::linked_nodes::{KeyNodes, KeyQueue};
use super::{CacheKey, CachePolicy};

#[derive(Debug)]
pub(super) struct SieveCache {
    capacity: usize,
    map: KeyMap,
    nodes: KeyNodes,
    queue: KeyQueue,
    /// None: the hand restarts from the tail.
    hand: Option<u32>,
    evicted: Option<CacheKey>,
}

impl SieveCache {
    pub(super) fn new(capacity: usize) -> Self {
        let (map, nodes) = (KeyMap::default(), KeyNodes::default());
        Self { capacity, map, nodes, queue: KeyQueue::new(), hand: None, evicted: None }
    }

    fn evict(&mut self) {
        let tail = |queue: &KeyQueue| queue.tail().expect("a full cache has a tail");
        let mut node = self.hand.unwrap_or_else(|| tail(&self.queue));
        // The hand clears each mark it passes, so two rounds are enough.
        while self.nodes.get(node).mark != 0 {
            self.nodes.get_mut(node).mark = 0;
            node = self.nodes.newer(node).unwrap_or_else(|| tail(&self.queue));
        }
        let key = self.nodes.get(node).key;
        self.remove(node);
        self.evicted = Some(key);
    }

    /// Removes a node. The hand continues with the next one.
    fn remove(&mut self, node: u32) {
        self.hand = self.nodes.newer(node);
        self.queue.detach(&mut self.nodes, node);
        self.map.remove(self.nodes.get(node).key, &self.nodes);
        self.nodes.remove(node);
    }
}

impl CachePolicy for SieveCache {
    fn access(&mut self, key: CacheKey) -> bool {
        if let Some(node) = self.map.get(key, &self.nodes) {
            self.nodes.get_mut(node).mark = 1;
            return true;
        }
        if self.queue.len() == self.capacity {
            self.evict();
        }
        let node = self.nodes.add(key);
        self.queue.push_head(&mut self.nodes, node);
        self.map.insert(key, node);
        false
    }

    fn take_evicted(&mut self) -> Option<CacheKey> {
        self.evicted.take()
    }

    fn forget(&mut self, key: CacheKey) {
        let Some(node) = self.map.get(key, &self.nodes) else { return };
        let hand = self.hand;
        self.remove(node);
        if hand != Some(node) {
            self.hand = hand;
        }
    }

    fn len(&self) -> usize {
        self.queue.len()
    }
}
