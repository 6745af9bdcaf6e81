//! Prices of object stores, from flags or environment variables.
//!
//! Prices are never guessed: they differ between stores, regions and contracts.

use clap::Args;
#[cfg(feature = "objects")]
use foreread_object::{StoreCounts, StorePrices};

#[cfg(feature = "objects")]
use crate::output::Failure;

/// Prices of a store, to print costs.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct PriceArgs {
    /// Price of 1000 requests to the store, in any currency; the number of requests and their cost
    /// are then printed at the end and included in the figures
    #[arg(
        long,
        value_name = "PRICE",
        env = PER_1000_REQUESTS,
        hide_env_values = true,
        value_parser = price
    )]
    pub(super) price_per_1000_requests: Option<f64>,

    /// Price of 10^9 bytes read from the store
    #[arg(
        long,
        value_name = "PRICE",
        env = PER_GB,
        hide_env_values = true,
        value_parser = price
    )]
    pub(super) price_per_gb: Option<f64>,
}

#[cfg(feature = "objects")]
impl PriceArgs {
    /// Returns the prices from the environment, for a command without these flags.
    pub fn of_environment() -> Result<Self, Failure> {
        let of = |name: &str| {
            let Ok(text) = std::env::var(name) else { return Ok(None) };
            let price = price(&text).map_err(|why| format!("the variable {name}: {why}"));
            price.map(Some).map_err(Failure::WrongUse)
        };
        let (per_1000_requests, per_gb) = (of(PER_1000_REQUESTS)?, of(PER_GB)?);
        Ok(Self { price_per_1000_requests: per_1000_requests, price_per_gb: per_gb })
    }

    /// Returns the prices of 1000 requests and of 10^9 bytes; 0 if not given.
    pub fn given(&self) -> (f64, f64) {
        let Self { price_per_1000_requests, price_per_gb } = *self;
        (price_per_1000_requests.unwrap_or_default(), price_per_gb.unwrap_or_default())
    }

    /// Returns the cost of requests and bytes; None without a price.
    pub fn cost(&self, requests: u64, bytes: u64) -> Option<f64> {
        let Self { price_per_1000_requests, price_per_gb } = *self;
        let is_given = price_per_1000_requests.is_some() || price_per_gb.is_some();
        let prices = StorePrices {
            per_1000_requests: price_per_1000_requests.unwrap_or_default(),
            per_gb: price_per_gb.unwrap_or_default(),
        };
        let counts = StoreCounts { requests, bytes, ..StoreCounts::default() };
        is_given.then(|| prices.cost(&counts))
    }
}

const PER_1000_REQUESTS: &str = "FOREREAD_PRICE_PER_1000_REQUESTS";
const PER_GB: &str = "FOREREAD_PRICE_PER_GB";

fn price(text: &str) -> Result<f64, String> {
    let price = text.parse().ok().filter(|price| (0.0..=PRICE_MAX).contains(price));
    price.ok_or_else(|| "write a price such as 0.0004, from 0 to 1000000".to_owned())
}

/// Limit that catches typing errors; more than any store charges.
const PRICE_MAX: f64 = 1e6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_a_number_that_a_store_may_charge() {
        assert_eq!((price("0"), price("0.0004"), price("9e-2")), (Ok(0.0), Ok(0.0004), Ok(0.09)));
        for wrong in ["", "-1", "free", "NaN", "inf", "1e7", "0,09"] {
            assert!(price(wrong).is_err(), "{wrong}");
        }
    }
}
