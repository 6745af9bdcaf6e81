//! A hash table from keys to node numbers, with a hash that is the same on every machine.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::CacheKey;

/// Finds the node of a key.
pub(super) type KeyMap = HashMap<CacheKey, u32, BuildHasherDefault<KeyHasher>>;

/// Multiplies and folds: a page number is not hostile, and it is hashed at each access.
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
        let product = u128::from(self.0 ^ value ^ FIRST) * u128::from(SECOND);
        let [low, high] = [product & u128::from(u64::MAX), product >> 64];
        self.0 = u64::try_from(low ^ high).expect("both halves have 64 bits");
    }
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
