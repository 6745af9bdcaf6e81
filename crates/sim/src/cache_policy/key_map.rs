//! Hash table from keys to node numbers. The hash is the same on every machine.
//!
//! ```text
//!   slots   | . | h n | h n | . | h n | .      h: 32 bits of the key's hash, n: its node
//! ```
//!
//! The keys are stored in the nodes, which a hit touches anyway, so a slot takes 8 bytes. Linear
//! probing, at most half full; a removal shifts displaced entries back.

use std::hash::Hasher;

use super::CacheKey;
use super::linked_nodes::{KeyNodes, NONE};

/// Finds the node of a key.
#[derive(Debug)]
pub(super) struct KeyMap {
    slots: Vec<KeySlot>,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct KeySlot {
    hash: u32,
    node: u32,
}

const EMPTY: KeySlot = KeySlot { hash: 0, node: NONE };

/// Initial number of slots.
const SLOTS: usize = 64;

impl Default for KeyMap {
    fn default() -> Self {
        Self { slots: vec![EMPTY; SLOTS], len: 0 }
    }
}

impl KeyMap {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the node of a key.
    #[inline]
    pub(super) fn get(&self, key: CacheKey, nodes: &KeyNodes) -> Option<u32> {
        self.slot_of(key, nodes).map(|at| self.slots[at].node)
    }

    /// Inserts a key that is not in the table.
    pub(super) fn insert(&mut self, key: CacheKey, node: u32) {
        if (self.len + 1) * 2 > self.slots.len() {
            self.grow();
        }
        self.put(KeySlot { hash: short_hash(key), node });
        self.len += 1;
    }

    /// Removes a key and returns its node, which still holds the key.
    pub(super) fn remove(&mut self, key: CacheKey, nodes: &KeyNodes) -> Option<u32> {
        let at = self.slot_of(key, nodes)?;
        let node = self.slots[at].node;
        let mask = self.slots.len() - 1;
        let (mut hole, mut next) = (at, (at + 1) & mask);
        while self.slots[next].node != NONE {
            // An entry that could no longer be found behind the hole moves into it.
            let home = self.slots[next].hash as usize & mask;
            if next.wrapping_sub(home) & mask >= next.wrapping_sub(hole) & mask {
                self.slots[hole] = self.slots[next];
                hole = next;
            }
            next = (next + 1) & mask;
        }
        self.slots[hole] = EMPTY;
        self.len -= 1;
        Some(node)
    }

    #[inline]
    fn slot_of(&self, key: CacheKey, nodes: &KeyNodes) -> Option<usize> {
        let hash = short_hash(key);
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot.node == NONE {
                return None;
            }
            if slot.hash == hash && nodes.get(slot.node).key == key {
                return Some(at);
            }
            at = (at + 1) & mask;
        }
    }

    /// Stores an entry in the first free slot of its probe sequence.
    fn put(&mut self, slot: KeySlot) {
        let mask = self.slots.len() - 1;
        let mut at = slot.hash as usize & mask;
        while self.slots[at].node != NONE {
            at = (at + 1) & mask;
        }
        self.slots[at] = slot;
    }

    fn grow(&mut self) {
        let slots = vec![EMPTY; self.slots.len() * 2];
        let old = std::mem::replace(&mut self.slots, slots);
        old.into_iter().filter(|slot| slot.node != NONE).for_each(|slot| self.put(slot));
    }
}

/// Returns 32 bits of a key's hash. Eight neighbouring keys share one cache line of slots, because
/// requests touch consecutive pages.
fn short_hash(key: CacheKey) -> u32 {
    let group = (key.place / NEIGHBOURS) ^ u64::from(key.file).rotate_left(40);
    let of_group = u32::try_from(fold(group) >> 32).expect("half of 64 bits");
    of_group ^ u32::try_from(key.place % NEIGHBOURS).expect("one of a few")
}

/// Slots per cache line of 64 bytes.
const NEIGHBOURS: u64 = 8;

/// Multiply-and-fold hash: it runs at each access, and page numbers are not adversarial.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = fold(self.0 ^ value);
    }
}

fn fold(value: u64) -> u64 {
    let product = u128::from(value ^ FIRST) * u128::from(SECOND);
    let [low, high] = [product & u128::from(u64::MAX), product >> 64];
    u64::try_from(low ^ high).expect("both halves have 64 bits")
}

/// Digits of pi.
const FIRST: u64 = 0x243f_6a88_85a3_08d3;

const SECOND: u64 = 0x1319_8a2e_0370_7345;

/// Mixes a key into 64 bits.
pub(super) fn hash(key: CacheKey) -> u64 {
    let mut hasher = KeyHasher::default();
    hasher.write_u32(key.file);
    hasher.write_u64(key.place);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::rng::Rng;

    /// Random insertions and removals, while the table grows.
    #[test]
    fn it_finds_what_a_map_of_std_finds() {
        let mut rng = Rng::new(3);
        let (mut nodes, mut map, mut model) =
            (KeyNodes::default(), KeyMap::default(), HashMap::new());
        for step in 0..40_000_u64 {
            let key = CacheKey { file: 0, place: rng.below(1 + step / 20) };
            match model.get(&key).copied() {
                Some(node) if rng.below(2) == 0 => {
                    assert_eq!(map.remove(key, &nodes), Some(node));
                    nodes.remove(node);
                    model.remove(&key);
                }
                Some(node) => assert_eq!(map.get(key, &nodes), Some(node)),
                None => {
                    assert_eq!((map.get(key, &nodes), map.remove(key, &nodes)), (None, None));
                    let node = nodes.add(key);
                    map.insert(key, node);
                    model.insert(key, node);
                }
            }
            assert_eq!(map.len(), model.len());
        }
        assert!(model.iter().all(|(key, node)| map.get(*key, &nodes) == Some(*node)));
    }
}
