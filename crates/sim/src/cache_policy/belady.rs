//! Belady's MIN: the fewest possible misses of a demand-filled cache. It evicts the key whose next
//! use is furthest away, so it needs the whole trace.
//!
//! ```text
//!   uses    a b c a b d c ..      a cache of 2 with a and b, and c comes: b is used later than a,
//!           ^ ^                   so b leaves
//! ```
//!
//! Source: Belady, "A study of replacement algorithms for a virtual-storage computer", IBM Systems
//! Journal 5(2), 1966; proof of optimality: Mattson, Gecsei, Slutz and Traiger, "Evaluation
//! techniques for storage hierarchies", IBM Systems Journal 9(2), 1970. MIN is also optimal for
//! each prefix of the trace: among keys that the prefix does not use again, the choice of victim
//! does not matter. Read-ahead cannot reduce the number of fetches: an early fetch can be delayed
//! until its use.

use std::collections::{BinaryHeap, HashMap};
use std::hash::BuildHasherDefault;

use super::CacheKey;
use super::key_map::KeyHasher;

/// All uses of a trace, with the next use of each key. Takes eight bytes per use.
#[derive(Debug)]
pub struct FutureUses {
    /// By use: the number of its key. Keys are numbered in order of first use.
    keys: Vec<u32>,
    /// By use: index of the next use of the same key, or [`NEVER`].
    next: Vec<u32>,
    key_count: usize,
}

/// Collects uses for [`FutureUses`].
#[derive(Debug, Default)]
pub struct UseCollector {
    numbers: HashMap<CacheKey, u32, BuildHasherDefault<KeyHasher>>,
    keys: Vec<u32>,
    is_full: bool,
}

/// Index that means no further use.
const NEVER: u32 = u32::MAX;

impl FutureUses {
    /// Largest number of uses that are kept: 1 GiB.
    pub const MAX_USES: usize = 1 << 27;

    /// Returns the number of uses.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns true if there are no uses.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns the number of distinct keys.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.key_count
    }

    /// Returns the fewest misses of a cache with this capacity, in keys.
    ///
    /// # Panics
    ///
    /// If the capacity is 0.
    #[must_use]
    pub fn fewest_misses(&self, capacity: usize) -> u64 {
        let mut misses = 0;
        self.each(capacity, |_, is_miss| misses += u64::from(is_miss));
        misses
    }

    /// Calls `used` for each use, with the number of its key and whether MIN misses it.
    ///
    /// # Panics
    ///
    /// If the capacity is 0.
    pub fn each(&self, capacity: usize, mut used: impl FnMut(u32, bool)) {
        assert!(capacity > 0, "a cache holds at least one key");
        // By key: its next use, while it is cached.
        let mut cached = vec![None; self.key_count];
        let mut count = 0;
        let mut furthest: BinaryHeap<(u32, u32)> = BinaryHeap::new();
        for (key, next) in self.keys.iter().zip(&self.next) {
            let is_miss = cached[*key as usize].is_none();
            used(*key, is_miss);
            if is_miss && count == capacity {
                // Skip stale entries: the key was used again after they were pushed.
                while let Some((at, victim)) = furthest.pop() {
                    if cached[victim as usize] == Some(at) {
                        cached[victim as usize] = None;
                        break;
                    }
                }
            } else {
                count += usize::from(is_miss);
            }
            cached[*key as usize] = Some(*next);
            furthest.push((*next, *key));
            if furthest.len() / 4 > capacity.max(256) {
                furthest.retain(|(at, key)| cached[*key as usize] == Some(*at));
            }
        }
    }
}

impl UseCollector {
    /// Records a use and returns the number of its key, or None beyond [`FutureUses::MAX_USES`].
    pub fn add(&mut self, key: CacheKey) -> Option<u32> {
        if self.keys.len() >= FutureUses::MAX_USES {
            self.is_full = true;
            return None;
        }
        // MAX_USES is below 2^32.
        let next = u32::try_from(self.numbers.len()).unwrap_or(NEVER);
        let number = *self.numbers.entry(key).or_insert(next);
        self.keys.push(number);
        Some(number)
    }

    /// Iterates over the distinct keys, in no particular order.
    pub fn keys(&self) -> impl Iterator<Item = CacheKey> {
        self.numbers.keys().copied()
    }

    /// Returns the uses, or None if there were too many.
    #[must_use]
    pub fn finish(self) -> Option<FutureUses> {
        if self.is_full {
            return None;
        }
        let key_count = self.numbers.len();
        let mut last = vec![NEVER; key_count];
        let mut next = vec![NEVER; self.keys.len()];
        for (at, key) in self.keys.iter().enumerate().rev() {
            let number = u32::try_from(at).unwrap_or(NEVER);
            next[at] = std::mem::replace(&mut last[*key as usize], number);
        }
        Some(FutureUses { keys: self.keys, next, key_count })
    }
}
