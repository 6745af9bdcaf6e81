//! S3-FIFO: a small queue for new keys, a main queue for keys that were used again, and ghosts of
//! the keys that left the small queue unused.
//!
//! ```text
//!   new key --> small (a tenth) --used twice--> main --used--> main again
//!                  | not                         | not
//!                  v                             v
//!                ghost (keys alone) --new--> main   evicted
//! ```
//!
//! Source: Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023, algorithm 1:
//! counts of at most 3, small a tenth, as many ghosts as main has keys.

use super::key_map::KeyMap;
use super::linked_nodes::{KeyNodes, KeyQueue};
use super::{CacheKey, CachePolicy};

#[derive(Debug)]
pub(super) struct S3FifoCache {
    capacity: usize,
    small_capacity: usize,
    map: KeyMap,
    nodes: KeyNodes,
    small: KeyQueue,
    main: KeyQueue,
    ghost: KeyQueue,
    evicted: Option<CacheKey>,
}

const SMALL: u8 = 0;
const MAIN: u8 = 1;
const GHOST: u8 = 2;

/// Largest use count; it saturates.
const MAX_COUNT: u8 = 3;

/// Share of the capacity that the small queue takes, as a divisor.
const SMALL_DENOM: usize = 10;

impl S3FifoCache {
    pub(super) fn new(capacity: usize) -> Self {
        let queue = KeyQueue::new();
        Self {
            capacity,
            small_capacity: (capacity / SMALL_DENOM).max(1),
            map: KeyMap::default(),
            nodes: KeyNodes::default(),
            small: queue,
            main: queue,
            ghost: queue,
            evicted: None,
        }
    }

    fn evict(&mut self) {
        while self.len() >= self.capacity {
            if self.small.len() >= self.small_capacity || self.main.len() == 0 {
                self.evict_small();
            } else {
                self.evict_main();
            }
        }
    }

    fn evict_small(&mut self) {
        let Some(node) = self.small.pop_tail(&mut self.nodes) else { return };
        if self.nodes.get(node).mark > 1 {
            self.push(node, MAIN);
        } else {
            self.evicted = Some(self.nodes.get(node).key);
            self.push(node, GHOST);
            if self.ghost.len() > (self.capacity - self.small_capacity).max(1) {
                let old = self.ghost.pop_tail(&mut self.nodes).expect("it is not empty");
                self.drop_node(old);
            }
        }
    }

    fn evict_main(&mut self) {
        while let Some(node) = self.main.pop_tail(&mut self.nodes) {
            let count = self.nodes.get(node).mark;
            if count == 0 {
                self.evicted = Some(self.nodes.get(node).key);
                self.drop_node(node);
                return;
            }
            self.push(node, MAIN);
            self.nodes.get_mut(node).mark = count - 1;
        }
    }

    /// Puts a detached node at the head of a queue, with a count of 0.
    fn push(&mut self, node: u32, queue: u8) {
        let entry = self.nodes.get_mut(node);
        (entry.mark, entry.queue) = (0, queue);
        let to = match queue {
            SMALL => &mut self.small,
            MAIN => &mut self.main,
            _ => &mut self.ghost,
        };
        to.push_head(&mut self.nodes, node);
    }

    fn drop_node(&mut self, node: u32) {
        self.map.remove(self.nodes.get(node).key, &self.nodes);
        self.nodes.remove(node);
    }
}

impl CachePolicy for S3FifoCache {
    fn access(&mut self, key: CacheKey) -> bool {
        let found = self.map.get(key, &self.nodes);
        if let Some(node) = found.filter(|node| self.nodes.get(*node).queue != GHOST) {
            let entry = self.nodes.get_mut(node);
            entry.mark = (entry.mark + 1).min(MAX_COUNT);
            return true;
        }
        if let Some(ghost) = found {
            self.ghost.detach(&mut self.nodes, ghost);
            self.drop_node(ghost);
        }
        self.evict();
        let node = self.nodes.add(key);
        self.push(node, if found.is_some() { MAIN } else { SMALL });
        self.map.insert(key, node);
        false
    }

    fn take_evicted(&mut self) -> Option<CacheKey> {
        self.evicted.take()
    }

    fn forget(&mut self, key: CacheKey) {
        let Some(node) = self.map.get(key, &self.nodes) else { return };
        match self.nodes.get(node).queue {
            SMALL => self.small.detach(&mut self.nodes, node),
            MAIN => self.main.detach(&mut self.nodes, node),
            _ => self.ghost.detach(&mut self.nodes, node),
        }
        self.drop_node(node);
    }

    fn len(&self) -> usize {
        self.small.len() + self.main.len()
    }
}
