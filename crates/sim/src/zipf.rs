//! Zipf-distributed positions: the n-th most frequent has weight `1 / n^power`. Frequent positions
//! are scattered, not adjacent.
//!
//! The closed form is that of Gray, Sundaresan, Englert, Baclawski and Weinberger, "Quickly
//! generating billion-record synthetic databases", SIGMOD 1994; it is not exact beyond rank 2.

use crate::rng::Rng;

/// A Zipf distribution of positions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Zipf {
    places: u64,
    power: f64,
    /// Sum of `1 / n^power` over all positions.
    zeta: f64,
    eta: f64,
}

#[expect(clippy::cast_precision_loss, reason = "no more than 2^22 places")]
impl Zipf {
    /// The sum over all positions takes some ns per position.
    pub(crate) const MOST_PLACES: u64 = 1 << 22;

    pub(crate) fn new(places: u64, power: f64) -> Self {
        assert!((1..=Self::MOST_PLACES).contains(&places), "{places} places");
        let term = |rank: u64| 1.0 / libm::pow(rank as f64, power);
        let zeta: f64 = (1..=places).map(term).sum();
        let of_two = 1.0 + term(2);
        let eta = (1.0 - libm::pow(2.0 / places as f64, 1.0 - power)) / (1.0 - of_two / zeta);
        Self { places, power, zeta, eta }
    }

    pub(crate) fn draw(&self, rng: &mut Rng) -> u64 {
        // The largest prime below 2^32: it divides no number of positions, so the map is a
        // permutation.
        let spread = |rank: u64| rank * 4_294_967_291 % self.places;
        spread(self.rank(rng.unit()))
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank")]
    fn rank(&self, unit: f64) -> u64 {
        let part = unit * self.zeta;
        if part < 1.0 || self.places == 1 {
            return 0;
        }
        if part < 1.0 + libm::pow(0.5, self.power) || self.places == 2 {
            return 1;
        }
        let base = self.eta * unit - self.eta + 1.0;
        let rank = self.places as f64 * libm::pow(base, 1.0 / (1.0 - self.power));
        (rank as u64).min(self.places - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likeliest_places_come_as_often_as_the_law_says() {
        let zipf = Zipf::new(1000, 0.8);
        let mut rng = Rng::new(3);
        let mut counts = [0_u32; 1000];
        for _ in 0..1_000_000 {
            counts[usize::try_from(zipf.rank(rng.unit())).unwrap()] += 1;
        }
        let wanted = |rank: u32| 1e6 / f64::from(rank + 1).powf(0.8) / zipf.zeta;
        for rank in [0, 1] {
            let error = f64::from(counts[rank as usize]) / wanted(rank) - 1.0;
            assert!(error.abs() < 0.02, "rank {rank}: {error}");
        }
        let tenth: u32 = counts[..100].iter().sum();
        let exact: f64 = (0..100).map(wanted).sum();
        assert!((f64::from(tenth) / exact - 1.0).abs() < 0.05, "{tenth} {exact}");
    }

    #[test]
    fn each_place_has_one_rank() {
        for places in [1, 2, 3, 1000, 4096] {
            let zipf = Zipf::new(places, 0.5);
            let mut all: Vec<_> = (0..places).map(|rank| rank * 4_294_967_291 % places).collect();
            all.sort_unstable();
            assert_eq!(all, (0..places).collect::<Vec<_>>());
            let mut rng = Rng::new(1);
            assert!((0..1000).all(|_| zipf.draw(&mut rng) < places));
        }
    }
}
