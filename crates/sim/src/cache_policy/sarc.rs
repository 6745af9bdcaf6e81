//! SARC: a list of sequential pages and a list of all others, both in LRU order. The target size of
//! the first follows from the marginal utility of one more page in each.
//!
//! ```text
//!   SEQ      head [ . . . . . . . | bottom ] tail     more wanted: many sequential misses
//!   RANDOM   head [ . . . . . . . | bottom ] tail     a hit here: this list is worth its pages
//! ```
//!
//! Source: Gill and Modha, "SARC: Sequential Prefetching in Adaptive Replacement Cache", USENIX ATC
//! 2005, its section on the algorithm: the ratio of the marginal utilities is 2 s D / L, with s
//! sequential misses since the last hit in the bottom of RANDOM, bottoms of D pages, and L pages in
//! SEQ. The read-ahead policy on top inserts the prefetched pages; alone, SEQ contains sequential
//! misses only. Difference: the unit is a page, not a track of 64 KiB.

use super::key_map::KeyMap;
use super::linked_nodes::{KeyNodes, KeyQueue};
use super::{CacheKey, CachePolicy};

#[derive(Debug)]
pub(super) struct SarcCache {
    capacity: usize,
    /// Size of a list's bottom, in pages.
    bottom: usize,
    map: KeyMap,
    /// A node's mark counts its cached predecessors, up to the threshold; 0: unknown.
    nodes: KeyNodes,
    lists: [KeyQueue; 2],
    /// By node: time at which it moved to the head of its list.
    stamps: Vec<u64>,
    clock: u64,
    desired_seq: f64,
    adapt: f64,
    seq_misses: u64,
    evicted: Option<CacheKey>,
}

const RANDOM: u8 = 0;
const SEQ: u8 = 1;

/// A page is sequential if this many pages before it were read in order.
const SEQ_THRESHOLD: u8 = 2;

/// Share of the cache that a bottom takes, as a divisor.
const BOTTOM_DENOM: usize = 50;

/// Ratio above which a hit in the bottom of SEQ makes SEQ grow.
const LARGE_RATIO: f64 = 20.0;

impl SarcCache {
    pub(super) fn new(capacity: usize) -> Self {
        let (map, nodes) = (KeyMap::default(), KeyNodes::default());
        Self {
            capacity,
            bottom: (capacity / BOTTOM_DENOM).max(1),
            map,
            nodes,
            lists: [KeyQueue::new(); 2],
            stamps: Vec::new(),
            clock: 0,
            desired_seq: 0.0,
            adapt: 0.0,
            seq_misses: 0,
            evicted: None,
        }
    }

    fn size(&self, list: u8) -> usize {
        self.lists[usize::from(list)].len()
    }

    /// Returns the counter of the preceding page; None if that is not cached.
    fn counter_before(&self, key: CacheKey) -> Option<u8> {
        let before = CacheKey { place: key.place.checked_sub(1)?, ..key };
        self.map.get(before, &self.nodes).map(|node| self.nodes.get(node).mark)
    }

    /// Computes the counter of a page from its predecessor's.
    fn counter(&self, key: CacheKey) -> u8 {
        self.counter_before(key).map_or(1, |before| (before + 1).min(SEQ_THRESHOLD))
    }

    /// Returns the marginal utility of one more page for SEQ, relative to RANDOM.
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    fn ratio(&self) -> f64 {
        let seq = self.size(SEQ).max(1) as f64;
        2.0 * self.seq_misses as f64 * self.bottom as f64 / seq
    }

    /// Returns true if a node is in the bottom of its list, judged by its time stamp.
    #[expect(clippy::cast_precision_loss, reason = "a part of a list")]
    fn is_in_bottom(&self, node: u32, list: u8) -> bool {
        let queue = &self.lists[usize::from(list)];
        let (Some(head), Some(tail)) = (queue.head(), queue.tail()) else { return false };
        let stamp = |node: u32| self.stamps[node as usize];
        let part = self.bottom as f64 / queue.len().max(1) as f64;
        let (age, span) = (stamp(node) - stamp(tail), stamp(head) - stamp(tail));
        age as f64 <= part * span as f64
    }

    fn use_node(&mut self, key: CacheKey, node: u32) {
        let list = self.nodes.get(node).queue;
        if self.is_in_bottom(node, list) {
            let ratio = self.ratio();
            if list == RANDOM {
                self.seq_misses = 0;
                self.adapt = (ratio - 1.0).clamp(-1.0, 1.0);
            } else if ratio > LARGE_RATIO {
                self.adapt = 1.0;
            }
        }
        if self.nodes.get(node).mark == 0 {
            self.nodes.get_mut(node).mark = self.counter(key);
        }
        self.lists[usize::from(list)].move_to_head(&mut self.nodes, node);
        self.stamps[node as usize] = self.clock;
    }

    fn insert(&mut self, key: CacheKey, list: u8, counter: u8) {
        if self.len() == self.capacity {
            self.evict();
        }
        let node = self.nodes.add(key);
        let entry = self.nodes.get_mut(node);
        (entry.mark, entry.queue) = (counter, list);
        self.lists[usize::from(list)].push_head(&mut self.nodes, node);
        self.stamps.resize(self.stamps.len().max(node as usize + 1), 0);
        self.stamps[node as usize] = self.clock;
        self.map.insert(key, node);
    }

    #[expect(clippy::cast_precision_loss, reason = "sizes of lists")]
    fn evict(&mut self) {
        let stamp = |list: u8| {
            let tail = self.lists[usize::from(list)].tail();
            tail.map_or(u64::MAX, |node| self.stamps[node as usize])
        };
        let is_small = self.size(SEQ) < self.bottom || self.size(RANDOM) < self.bottom;
        let from_seq = if is_small {
            stamp(SEQ) < stamp(RANDOM)
        } else {
            self.size(SEQ) as f64 > self.desired_seq
        };
        let list = if from_seq { SEQ } else { RANDOM };
        let node = self.lists[usize::from(list)].pop_tail(&mut self.nodes);
        let node = node.expect("a full cache has a page in the list that is not the smaller one");
        let key = self.nodes.get(node).key;
        self.map.remove(key, &self.nodes);
        self.nodes.remove(node);
        self.evicted = Some(key);
        if self.desired_seq > 0.0 {
            self.desired_seq += self.adapt / 2.0;
        } else {
            self.desired_seq = self.size(SEQ) as f64;
        }
    }
}

impl CachePolicy for SarcCache {
    fn access(&mut self, key: CacheKey) -> bool {
        self.clock += 1;
        if let Some(node) = self.map.get(key, &self.nodes) {
            self.use_node(key, node);
            return true;
        }
        let counter = self.counter(key);
        if self.counter_before(key) == Some(SEQ_THRESHOLD) {
            self.seq_misses += 1;
            self.insert(key, SEQ, counter);
        } else {
            self.insert(key, RANDOM, counter);
        }
        false
    }

    fn insert_ahead(&mut self, key: CacheKey) {
        if self.map.get(key, &self.nodes).is_none() {
            self.clock += 1;
            self.insert(key, SEQ, 0);
        }
    }

    fn first_use(&mut self, key: CacheKey) {
        if let Some(node) = self.map.get(key, &self.nodes) {
            self.clock += 1;
            self.use_node(key, node);
        }
    }

    fn take_evicted(&mut self) -> Option<CacheKey> {
        self.evicted.take()
    }

    fn forget(&mut self, key: CacheKey) {
        if let Some(node) = self.map.remove(key, &self.nodes) {
            let list = self.nodes.get(node).queue;
            self.lists[usize::from(list)].detach(&mut self.nodes, node);
            self.nodes.remove(node);
        }
    }

    fn len(&self) -> usize {
        self.size(RANDOM) + self.size(SEQ)
    }
}
