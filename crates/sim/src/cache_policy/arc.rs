//! ARC: a list of keys used once and a list of keys used again, whose sizes adapt to hits in their
//! ghost lists.
//!
//! ```text
//!   b1 (ghosts) <-- t1: used once | t2: used again --> b2 (ghosts)
//!        a use here: t1 grows       a use here: t2 grows
//! ```
//!
//! Source: Megiddo and Modha, "ARC: A Self-Tuning, Low Overhead Replacement Cache", FAST 2003,
//! figure 4.

use super::key_map::KeyMap;
use super::linked_nodes::{KeyNodes, KeyQueue};
use super::{CacheKey, CachePolicy};

#[derive(Debug)]
pub(super) struct ArcCache {
    capacity: usize,
    /// Target size of `t1`, in keys.
    target: usize,
    map: KeyMap,
    nodes: KeyNodes,
    lists: [KeyQueue; 4],
    evicted: Option<CacheKey>,
}

const T1: u8 = 0;
const T2: u8 = 1;
const B1: u8 = 2;
const B2: u8 = 3;

impl ArcCache {
    pub(super) fn new(capacity: usize) -> Self {
        let (map, nodes) = (KeyMap::default(), KeyNodes::default());
        Self { capacity, target: 0, map, nodes, lists: [KeyQueue::new(); 4], evicted: None }
    }

    fn size(&self, list: u8) -> usize {
        self.lists[usize::from(list)].len()
    }

    fn push(&mut self, node: u32, list: u8) {
        self.nodes.get_mut(node).queue = list;
        self.lists[usize::from(list)].push_head(&mut self.nodes, node);
    }

    fn detach(&mut self, node: u32) {
        let list = self.nodes.get(node).queue;
        self.lists[usize::from(list)].detach(&mut self.nodes, node);
    }

    /// Evicts the oldest key of a list.
    fn drop_tail(&mut self, list: u8) {
        if let Some(node) = self.lists[usize::from(list)].pop_tail(&mut self.nodes) {
            self.map.remove(self.nodes.get(node).key, &self.nodes);
            self.nodes.remove(node);
        }
    }

    /// REPLACE of the paper: moves the oldest key of `t1` or `t2` to its ghost list.
    fn replace(&mut self, is_in_b2: bool) {
        let t1 = self.size(T1);
        let from_t1 = t1 > 0 && (t1 > self.target || (is_in_b2 && t1 == self.target));
        let (from, to) = if from_t1 { (T1, B1) } else { (T2, B2) };
        if let Some(node) = self.lists[usize::from(from)].pop_tail(&mut self.nodes) {
            self.evicted = Some(self.nodes.get(node).key);
            self.push(node, to);
        }
    }

    /// Makes room for a key that is in none of the lists: case IV of the paper.
    fn make_room(&mut self) {
        let (once, all) = (self.size(T1) + self.size(B1), self.map.len());
        if once == self.capacity {
            if self.size(T1) < self.capacity {
                self.drop_tail(B1);
                self.replace(false);
            } else {
                let oldest = self.lists[usize::from(T1)].tail();
                self.evicted = oldest.map(|node| self.nodes.get(node).key);
                self.drop_tail(T1);
            }
        } else if all >= self.capacity {
            if all == 2 * self.capacity {
                self.drop_tail(B2);
            }
            self.replace(false);
        }
    }
}

impl CachePolicy for ArcCache {
    fn access(&mut self, key: CacheKey) -> bool {
        let Some(node) = self.map.get(key, &self.nodes) else {
            self.make_room();
            let node = self.nodes.add(key);
            self.push(node, T1);
            self.map.insert(key, node);
            return false;
        };
        let list = self.nodes.get(node).queue;
        let is_hit = matches!(list, T1 | T2);
        if !is_hit {
            let (ours, other) = (self.size(list).max(1), self.size(B1 + B2 - list));
            let step = (other / ours).max(1);
            self.target = match list {
                B1 => (self.target + step).min(self.capacity),
                _ => self.target.saturating_sub(step),
            };
            self.replace(list == B2);
        }
        self.detach(node);
        self.push(node, T2);
        is_hit
    }

    fn first_use(&mut self, key: CacheKey) {
        if let Some(node) = self.map.get(key, &self.nodes)
            && self.nodes.get(node).queue == T1
        {
            self.lists[usize::from(T1)].move_to_head(&mut self.nodes, node);
        }
    }

    fn take_evicted(&mut self) -> Option<CacheKey> {
        self.evicted.take()
    }

    fn forget(&mut self, key: CacheKey) {
        if let Some(node) = self.map.remove(key, &self.nodes) {
            self.detach(node);
            self.nodes.remove(node);
        }
    }

    fn len(&self) -> usize {
        self.size(T1) + self.size(T2)
    }
}
