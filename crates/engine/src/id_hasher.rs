//! The hasher of maps whose keys are ids.
//!
//! In:    ids, which are dense in their low half.
//! Out:   hashes that spread well enough.
//! Never: keys from outside: they could be chosen to collide.

use std::hash::Hasher;

/// Ids are dense in their low half: they spread well enough once turned.
#[derive(Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, half: u32) {
        self.write_u64(u64::from(half));
    }

    fn write_isize(&mut self, variant: isize) {
        self.write_u64(variant.cast_unsigned() as u64);
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(32) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
