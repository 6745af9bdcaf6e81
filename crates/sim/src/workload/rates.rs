//! Rates of many clients: a list, or a random distribution.
//!
//! ```text
//!   kib_per_s = [8, 24, 512]                                    one client each
//!   kib_per_s = { clients = 800, median = 1 }                   all alike
//!   kib_per_s = { clients = 128, median = 32, sigma = 1 }       half of them below 32
//! ```

use std::fmt;

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};

use crate::rng::Rng;
use crate::validate::check;

/// Rates of clients, in KiB/s.
#[derive(Clone, Debug, PartialEq)]
pub enum Rates {
    /// An explicit list.
    List(Vec<f64>),
    /// Random.
    Drawn(Drawn),
}

/// Rates with a log-normal distribution.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Drawn {
    /// Number of clients.
    pub clients: u32,
    /// Median, in KiB/s.
    pub median: f64,
    /// Standard deviation of the logarithm; 0: all equal.
    #[serde(default)]
    pub sigma: f64,
    /// Seed of the rates, independent of the run's seed.
    #[serde(default)]
    pub seed: u64,
}

impl Rates {
    /// Returns all rates, in KiB/s.
    #[must_use]
    pub fn all(&self) -> Vec<f64> {
        match self {
            Self::List(rates) => rates.clone(),
            Self::Drawn(drawn) => {
                let mut rng = Rng::named(drawn.seed, "rates");
                let mut draw = || drawn.median * libm::exp(drawn.sigma * rng.normal());
                (0..drawn.clients).map(|_| draw()).collect()
            }
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if let Self::Drawn(drawn) = self {
            check((1..=100_000).contains(&drawn.clients), "clients", "1 to 100000")?;
            check(is_rate(drawn.median), "median", "0.001 to 10^9")?;
            let is_deviation = drawn.sigma.is_finite() && (0.0..=3.0).contains(&drawn.sigma);
            check(is_deviation, "sigma", "0 to 3")?;
        }
        check(self.all().iter().all(|rate| is_rate(*rate)), "kib_per_s", "0.001 to 10^9")
    }
}

/// Returns true if this is a valid rate, in KiB/s.
pub(super) fn is_rate(rate: f64) -> bool {
    rate.is_finite() && (1e-3..=1e9).contains(&rate)
}

impl<'de> Deserialize<'de> for Rates {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ListOrDrawn)
    }
}

struct ListOrDrawn;

impl<'de> Visitor<'de> for ListOrDrawn {
    type Value = Rates;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of rates, or { clients = 100, median = 32, sigma = 1 }")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Rates, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(Rates::List)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Rates, A::Error> {
        Drawn::deserialize(MapAccessDeserializer::new(map)).map(Rates::Drawn)
    }
}
