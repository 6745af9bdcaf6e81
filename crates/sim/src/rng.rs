//! Seeded random numbers, stable across machines and versions. Logarithms come from `libm`, because
//! the last bit of a platform's functions may differ.

/// SplitMix64: 64 bits of state; the sequences of neighbouring seeds are unrelated.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Creates a generator with this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Creates one of several independent generators with the same seed, distinguished by name: a
    /// process that draws more does not affect the others.
    #[must_use]
    pub fn named(seed: u64, name: &str) -> Self {
        let of_name = name.bytes().fold(seed, |state, byte| mix(state ^ u64::from(byte)));
        Self(mix(of_name))
    }

    /// Creates the generator of a device with seed `own`, in a run with seed `run`. It differs in
    /// each run; with [`DEFAULT_SEED`] it depends on `own` only.
    #[must_use]
    pub const fn of_device(own: u64, run: u64) -> Self {
        Self(own ^ mix(run) ^ mix(DEFAULT_SEED))
    }

    /// Draws 64 random bits.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// Draws uniformly from `0..end`.
    ///
    /// # Panics
    ///
    /// If `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "one of nothing");
        // 2^64 is so much larger than any range used here that the bias is negligible.
        let wide = u128::from(self.any()) * u128::from(end);
        (wide >> 64) as u64
    }

    /// Draws uniformly from 0 to just below 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are kept")]
    pub fn unit(&mut self) -> f64 {
        (self.any() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Draws from the exponential distribution with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log(1.0 - self.unit())
    }

    /// Draws from the standard normal distribution.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * libm::log(1.0 - self.unit())).sqrt();
        radius * libm::cos(std::f64::consts::TAU * self.unit())
    }

    /// Shuffles the items uniformly.
    #[expect(clippy::cast_possible_truncation, reason = "a number below a length is an index")]
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last as u64 + 1) as usize;
            items.swap(last, other);
        }
    }
}

/// Seed of a run that sets none.
pub const DEFAULT_SEED: u64 = 1;

const fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_for_ever() {
        let mut rng = Rng::new(1);
        assert_eq!(
            [rng.any(), rng.any()],
            [13_757_245_211_066_428_519, 17_911_839_290_282_890_590]
        );
    }

    #[test]
    fn a_device_draws_others_in_each_run_and_its_own_in_the_first() {
        let first = |mut rng: Rng| rng.any();
        assert_eq!(first(Rng::of_device(7, DEFAULT_SEED)), first(Rng::new(7)));
        assert_ne!(first(Rng::of_device(7, 2)), first(Rng::new(7)));
        assert_ne!(first(Rng::of_device(7, 2)), first(Rng::of_device(7, 3)));
        assert_ne!(first(Rng::of_device(7, 2)), first(Rng::of_device(8, 2)));
    }

    #[test]
    fn each_number_of_a_range_comes_about_as_often() {
        let mut rng = Rng::new(7);
        let mut counts = [0_u32; 10];
        for _ in 0..100_000 {
            counts[usize::try_from(rng.below(10)).unwrap()] += 1;
        }
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    }

    #[test]
    fn names_draw_apart() {
        let first = |name| Rng::named(1, name).any();
        assert_ne!(first("a"), first("b"));
        assert_ne!(Rng::named(1, "a").any(), Rng::named(2, "a").any());
    }

    #[test]
    fn a_shuffle_keeps_all() {
        let mut items: Vec<_> = (0..100).collect();
        Rng::new(3).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
