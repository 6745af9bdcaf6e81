//! Hasher of maps keyed by ids. It does not resist chosen collisions, so it must never hash
//! untrusted keys.

use std::hash::Hasher;

/// Rotates and multiplies, which spreads ids well enough: they are dense in the low half.
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
