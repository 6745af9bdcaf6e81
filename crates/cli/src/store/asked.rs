//! Counts and prices the requests of this process to object stores.
//!
//! A cost is only given if the user gave a price.

use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
#[cfg(feature = "objects")]
use std::sync::{Mutex, PoisonError};

#[cfg(feature = "objects")]
use foreread_object::{StoreCounts, StorePrices, Stores};
use serde::Serialize;

#[cfg(feature = "objects")]
use super::prices::cost;

/// Counters of requests to stores and of their responses.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct StoreAsked {
    /// HTTP requests, including retries.
    pub requests: u64,
    pub retried: u64,
    /// Hedged copies of late requests.
    pub hedged: u64,
    /// Responses with status 429 or 503.
    pub throttled: u64,
    /// Requests without a response, or with another server error.
    pub failed: u64,
    /// Bytes of object data.
    pub bytes: u64,
    /// None if no price was given.
    pub cost: Option<f64>,
}

impl StoreAsked {
    /// Returns the difference to the earlier counters `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            requests: self.requests - before.requests,
            retried: self.retried - before.retried,
            hedged: self.hedged - before.hedged,
            throttled: self.throttled - before.throttled,
            failed: self.failed - before.failed,
            bytes: self.bytes - before.bytes,
            cost: self.cost.zip(before.cost).map(|(now, before)| now - before),
        }
    }

    /// Formats the counters as one line.
    pub fn text(&self) -> String {
        let Self { requests, retried, hedged, throttled, failed, bytes, cost } = self;
        let plural = if *requests == 1 { "" } else { "s" };
        let cost = cost.map(|cost| format!(", which costs {}", money(cost))).unwrap_or_default();
        format!(
            "{requests} request{plural} ({retried} of them sent again, {hedged} second copies of late ones, \
             {throttled} throttled, {failed} failed), and {:.1} MB came{cost}",
            *bytes as f64 / 1e6
        )
    }
}

/// Formats an amount with four significant digits: requests cost millionths.
pub fn money(amount: f64) -> String {
    if amount == 0.0 {
        return "0".to_owned();
    }
    // Small amounts get more decimals.
    let (mut digits, mut shown) = (3, amount);
    while shown < 1.0 && digits < 12 {
        (digits, shown) = (digits + 1, shown * 10.0);
    }
    while shown >= 10.0 && digits > 2 {
        (digits, shown) = (digits - 1, shown / 10.0);
    }
    format!("{amount:.digits$}")
}

/// Prints the requests to stores and their cost at the end of a command, if a price was given and
/// the command has not printed them.
pub(crate) fn say_cost() {
    let asked = asked_so_far().filter(|asked| asked.cost.is_some() && asked.requests > 0);
    if let Some(asked) = asked
        && !IS_SAID.load(Ordering::Relaxed)
    {
        // The line is lost if stderr is closed.
        let _ = writeln!(io::stderr(), "foreread: the store was sent {}", asked.text());
    }
}

/// Marks the counters as printed by the command.
pub fn set_said() {
    IS_SAID.store(true, Ordering::Relaxed);
}

static IS_SAID: AtomicBool = AtomicBool::new(false);

/// Returns the sum over all clients of this process; None without any.
#[cfg(feature = "objects")]
pub fn asked_so_far() -> Option<StoreAsked> {
    let clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
    let each = clients.iter().map(|(stores, prices)| of_counts(&stores.counters(), *prices));
    each.reduce(|sum, one| StoreAsked {
        requests: sum.requests + one.requests,
        retried: sum.retried + one.retried,
        hedged: sum.hedged + one.hedged,
        throttled: sum.throttled + one.throttled,
        failed: sum.failed + one.failed,
        bytes: sum.bytes + one.bytes,
        cost: sum.cost.zip(one.cost).map(|(sum, one)| sum + one),
    })
}

#[cfg(not(feature = "objects"))]
pub fn asked_so_far() -> Option<StoreAsked> {
    None
}

/// Adds a client to the sum.
#[cfg(feature = "objects")]
pub(super) fn add_client(stores: Stores, prices: Option<StorePrices>) {
    CLIENTS.lock().unwrap_or_else(PoisonError::into_inner).push((stores, prices));
}

/// All clients; a command has one or a few.
#[cfg(feature = "objects")]
static CLIENTS: Mutex<Vec<(Stores, Option<StorePrices>)>> = Mutex::new(Vec::new());

#[cfg(feature = "objects")]
fn of_counts(counts: &StoreCounts, prices: Option<StorePrices>) -> StoreAsked {
    let StoreCounts { requests, retried, hedged, throttled, failed, bytes } = *counts;
    let cost = cost(prices, requests, bytes);
    StoreAsked { requests, retried, hedged, throttled, failed, bytes, cost }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_is_said_with_its_cost_if_there_is_a_price() {
        let bytes = 12_345_678;
        let asked =
            StoreAsked { requests: 7, retried: 2, throttled: 1, bytes, ..Default::default() };
        let said = "7 requests (2 of them sent again, 0 second copies of late ones, 1 throttled, 0 \
                    failed), and 12.3 MB came";
        assert_eq!(asked.text(), said);
        let asked = StoreAsked { cost: Some(0.001_114), ..asked };
        assert_eq!(asked.text(), format!("{said}, which costs 0.001114"));
    }

    #[test]
    fn money_has_four_digits() {
        let said = [0.0, 0.000_000_4, 0.012_345, 1.0, 123.456, 98_765.432].map(money);
        assert_eq!(said, ["0", "0.0000004000", "0.01235", "1.000", "123.46", "98765.43"]);
    }

    #[cfg(feature = "objects")]
    #[test]
    fn without_a_price_there_is_no_cost_and_one_price_is_enough() {
        let counts = StoreCounts { requests: 2000, bytes: 10, ..StoreCounts::default() };
        assert_eq!(of_counts(&counts, None).cost, None);
        let prices = Some(StorePrices { per_1000_requests: 0.5, per_gb: 0.0 });
        assert_eq!(of_counts(&counts, prices).cost, Some(1.0));
    }
}
