//! Numbers that look random, from a seed.
//!
//! In:    a seed.
//! Out:   numbers, the same on every machine.
//! Never: a source of its own.

/// `SplitMix64` (Steele, Lea, Flood, 2014).
#[derive(Clone, Debug)]
pub(super) struct Rng(pub(super) u64);

impl Rng {
    pub(super) fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// One of `0..end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "one of nothing");
        let wide = (u128::from(self.any()) * u128::from(end)) >> 64;
        u64::try_from(wide).expect("it is below its end")
    }

    /// Puts them in any order.
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = usize::try_from(self.below(last as u64 + 1)).expect("an index");
            items.swap(last, other);
        }
    }
}
