//! W-TinyLFU: a small LRU window, and a segmented LRU that admits a key only if it is used more
//! often than its victim.
//!
//! ```text
//!   new key --> window, LRU, 1 % --evicted--> more often than main's victim? --> probation
//!                                                     | no: it leaves              | used
//!                                                     v                                v
//!                                                                       protected, 80 % of main
//! ```
//!
//! Source: Einziger, Friedman, Manes, "TinyLFU: A Highly Efficient Cache Admission Policy", ACM
//! TOS 13(4), 2017: a count-min sketch of four rows with counters of 4 bits, all halved after ten
//! times as many uses as the cache has keys; a window of 1 %. Without the adaptive window of later
//! versions.

use super::key_map::{KeyMap, hash};
use super::linked_nodes::{KeyNodes, KeyQueue};
use super::{CacheKey, CachePolicy};

#[derive(Debug)]
pub(super) struct TinyLfuCache {
    window_capacity: usize,
    main_capacity: usize,
    protected_capacity: usize,
    map: KeyMap,
    nodes: KeyNodes,
    window: KeyQueue,
    probation: KeyQueue,
    protected: KeyQueue,
    sketch: FrequencySketch,
    evicted: Option<CacheKey>,
}

const WINDOW: u8 = 0;
const PROBATION: u8 = 1;
const PROTECTED: u8 = 2;

impl TinyLfuCache {
    pub(super) fn new(capacity: usize) -> Self {
        let window_capacity = (capacity / 100).max(1);
        let main_capacity = capacity - window_capacity;
        let queue = KeyQueue::new();
        Self {
            window_capacity,
            main_capacity,
            protected_capacity: main_capacity / 5 * 4,
            map: KeyMap::default(),
            nodes: KeyNodes::default(),
            window: queue,
            probation: queue,
            protected: queue,
            sketch: FrequencySketch::new(capacity),
            evicted: None,
        }
    }

    fn hit(&mut self, node: u32) {
        match self.nodes.get(node).queue {
            WINDOW => self.window.move_to_head(&mut self.nodes, node),
            PROTECTED => self.protected.move_to_head(&mut self.nodes, node),
            _ if self.protected_capacity == 0 => {
                self.probation.move_to_head(&mut self.nodes, node);
            }
            _ => {
                self.probation.detach(&mut self.nodes, node);
                self.nodes.get_mut(node).queue = PROTECTED;
                self.protected.push_head(&mut self.nodes, node);
                if self.protected.len() > self.protected_capacity {
                    let old = self.protected.pop_tail(&mut self.nodes).expect("it is not empty");
                    self.nodes.get_mut(old).queue = PROBATION;
                    self.probation.push_head(&mut self.nodes, old);
                }
            }
        }
    }

    /// Shrinks an oversized window: its oldest key competes with the victim of main.
    fn admit(&mut self) {
        let candidate = self.window.pop_tail(&mut self.nodes).expect("the window is too large");
        if self.probation.len() + self.protected.len() < self.main_capacity {
            self.nodes.get_mut(candidate).queue = PROBATION;
            self.probation.push_head(&mut self.nodes, candidate);
            return;
        }
        let Some(victim) = self.probation.tail().or(self.protected.tail()) else {
            self.evict(candidate);
            return;
        };
        let frequency = |node: u32| self.sketch.count(self.nodes.get(node).key);
        if frequency(candidate) <= frequency(victim) {
            self.evict(candidate);
            return;
        }
        match self.nodes.get(victim).queue {
            PROBATION => self.probation.detach(&mut self.nodes, victim),
            _ => self.protected.detach(&mut self.nodes, victim),
        }
        self.evict(victim);
        self.nodes.get_mut(candidate).queue = PROBATION;
        self.probation.push_head(&mut self.nodes, candidate);
    }

    /// Evicts a detached node.
    fn evict(&mut self, node: u32) {
        let key = self.nodes.get(node).key;
        self.map.remove(key, &self.nodes);
        self.nodes.remove(node);
        self.evicted = Some(key);
    }
}

impl CachePolicy for TinyLfuCache {
    fn access(&mut self, key: CacheKey) -> bool {
        self.sketch.add(key);
        if let Some(node) = self.map.get(key, &self.nodes) {
            self.hit(node);
            return true;
        }
        let node = self.nodes.add(key);
        self.nodes.get_mut(node).queue = WINDOW;
        self.window.push_head(&mut self.nodes, node);
        self.map.insert(key, node);
        if self.window.len() > self.window_capacity {
            self.admit();
        }
        false
    }

    fn first_use(&mut self, key: CacheKey) {
        let Some(node) = self.map.get(key, &self.nodes) else { return };
        match self.nodes.get(node).queue {
            WINDOW => self.window.move_to_head(&mut self.nodes, node),
            PROBATION => self.probation.move_to_head(&mut self.nodes, node),
            _ => {}
        }
    }

    fn take_evicted(&mut self) -> Option<CacheKey> {
        self.evicted.take()
    }

    fn forget(&mut self, key: CacheKey) {
        let Some(node) = self.map.remove(key, &self.nodes) else { return };
        match self.nodes.get(node).queue {
            WINDOW => self.window.detach(&mut self.nodes, node),
            PROBATION => self.probation.detach(&mut self.nodes, node),
            _ => self.protected.detach(&mut self.nodes, node),
        }
        self.nodes.remove(node);
    }

    fn len(&self) -> usize {
        self.window.len() + self.probation.len() + self.protected.len()
    }
}

/// Approximate recent use counts, at most 15, of many more keys than the cache holds.
#[derive(Debug)]
struct FrequencySketch {
    /// Four rows of counters, one after the other.
    counters: Vec<u8>,
    row_mask: u64,
    uses: usize,
    uses_until_halved: usize,
}

const ROWS: u32 = 4;

const MAX_COUNT: u8 = 15;

impl FrequencySketch {
    fn new(capacity: usize) -> Self {
        let row = (capacity * 4).next_power_of_two().max(64);
        Self {
            counters: vec![0; row * ROWS as usize],
            row_mask: row as u64 - 1,
            uses: 0,
            uses_until_halved: capacity.saturating_mul(10),
        }
    }

    fn add(&mut self, key: CacheKey) {
        for row in 0..ROWS {
            let index = self.index(key, row);
            self.counters[index] = (self.counters[index] + 1).min(MAX_COUNT);
        }
        self.uses += 1;
        if self.uses >= self.uses_until_halved {
            self.uses /= 2;
            self.counters.iter_mut().for_each(|counter| *counter /= 2);
        }
    }

    fn count(&self, key: CacheKey) -> u8 {
        (0..ROWS).map(|row| self.counters[self.index(key, row)]).min().unwrap_or(0)
    }

    fn index(&self, key: CacheKey, row: u32) -> usize {
        let hash = hash(key).rotate_left(row * 16).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let column = (hash >> 20) & self.row_mask;
        let index = u64::from(row) * (self.row_mask + 1) + column;
        usize::try_from(index).expect("the counters are in memory")
    }
}
