//! Prices of object stores, from environment variables.
//!
//! Prices are never guessed: they differ between stores, regions and contracts.

use std::env;

use foreread_object::{StoreCounts, StorePrices};

use crate::output::Failure;

/// Returns the prices of the environment; None if there is none.
///
/// # Errors
///
/// If a variable is not a price.
pub fn prices_of_environment() -> Result<Option<StorePrices>, Failure> {
    let (per_1000_requests, per_gb) = (variable(PER_1000_REQUESTS)?, variable(PER_GB)?);
    Ok((per_1000_requests.is_some() || per_gb.is_some()).then(|| StorePrices {
        per_1000_requests: per_1000_requests.unwrap_or_default(),
        per_gb: per_gb.unwrap_or_default(),
    }))
}

/// Returns the cost of requests and bytes; None without prices.
pub fn cost(prices: Option<StorePrices>, requests: u64, bytes: u64) -> Option<f64> {
    let counts = StoreCounts { requests, bytes, ..StoreCounts::default() };
    prices.map(|prices| prices.cost(&counts))
}

fn variable(name: &str) -> Result<Option<f64>, Failure> {
    let Ok(text) = env::var(name) else { return Ok(None) };
    let price = price(&text).map_err(|why| format!("the variable {name}: {why}"));
    price.map(Some).map_err(Failure::WrongUse)
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
