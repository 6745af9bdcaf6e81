//! Random positions of a workload, uniform or Zipf-distributed.

use crate::rng::Rng;
use crate::validate::check;
use crate::zipf::Zipf;

/// Distribution of positions in a file.
pub(super) enum Places {
    /// Uniform over this many positions.
    Alike(u64),
    Zipf(Zipf),
}

impl Places {
    /// Checks that `count` positions can be drawn, with this power if there is one.
    pub(super) fn check(count: u64, zipf: Option<f64>) -> Result<(), String> {
        let is_power = zipf.is_none_or(|power| (0.01..=0.99).contains(&power));
        check(is_power, "zipf", "0.01 to 0.99")?;
        let is_few = zipf.is_none() || count <= Zipf::MOST_PLACES;
        check(is_few, "zipf", "absent for more than 4194304 places")
    }

    pub(super) fn new(count: u64, zipf: Option<f64>) -> Self {
        zipf.map_or(Self::Alike(count), |power| Self::Zipf(Zipf::new(count, power)))
    }

    /// Draws the index of the next position.
    pub(super) fn draw(&self, rng: &mut Rng) -> u64 {
        match self {
            Self::Alike(count) => rng.below(*count),
            Self::Zipf(zipf) => zipf.draw(rng),
        }
    }
}
