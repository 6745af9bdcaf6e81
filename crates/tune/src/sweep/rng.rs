//! The order of a round: any, and the same for the same seed.
//!
//! In:    a seed.
//! Out:   a shuffle.
//! Never: a number that decides what is measured. Only when it is.

/// SplitMix64.
#[derive(Clone, Debug)]
pub(super) struct Rng(pub(super) u64);

impl Rng {
    fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Puts them in any order, each as likely.
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let wide = u128::from(self.any()) * (last as u128 + 1);
            items.swap(last, usize::try_from(wide >> 64).expect("at most last"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_keeps_all_and_is_the_same_for_the_same_seed() {
        let of = |seed| {
            let mut items: Vec<u32> = (0..50).collect();
            Rng(seed).shuffle(&mut items);
            items
        };
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        let mut sorted = of(1);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..50).collect::<Vec<_>>());
    }
}
