//! Read rate of a reader, without the time that it was blocked.

use crate::units::Pages;

/// Pages and time, halved with each addition to discount the old.
///
/// Sums instead of rates: a reader that takes two windows at once and then pauses has two very
/// different rates, and one true one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReadRate {
    pages: u64,
    ns: u64,
}

impl ReadRate {
    /// Creates the rate of a new reader: a few pages at the average rate. Its first pages may come
    /// in one read, which reveals no rate.
    pub(super) fn like(root: Option<u64>) -> Self {
        let Some(root) = root else { return Self::default() };
        let ns = GUESSED_PAGES * SCALE / u128::from(root).pow(2).max(1);
        let ns = u64::try_from(ns).unwrap_or(MOST_NS).min(MOST_NS);
        Self { pages: u64::try_from(GUESSED_PAGES).unwrap_or(1), ns }
    }

    pub(super) fn add(&mut self, pages: Pages, ns: u64) {
        let pages = pages.0.min(MOST_PAGES);
        let ns = ns.max(pages * LEAST_NS_A_PAGE).min(MOST_NS);
        if pages > 0 {
            self.pages = self.pages / 2 + pages;
            self.ns = self.ns / 2 + ns;
        } else {
            self.ns = (self.ns + ns).min(MOST_NS);
        }
        debug_assert!(self.pages <= 2 * MOST_PAGES, "sums stay far from their ends");
    }

    /// Returns the square root of the rate in micropages per second, or None without data.
    pub(super) fn root(self) -> Option<u64> {
        if self.pages == 0 {
            return None;
        }
        let rate = u128::from(self.pages) * SCALE / u128::from(self.ns.max(1));
        Some(u64::try_from(rate).unwrap_or(u64::MAX).isqrt().max(1))
    }

    /// Returns the number of pages read in this time.
    pub(super) fn pages_in(self, ns: u64) -> Pages {
        let pages = u128::from(self.pages) * u128::from(ns) / u128::from(self.ns.max(1));
        Pages(u64::try_from(pages).unwrap_or(u64::MAX).min(MOST_PAGES))
    }

    /// Returns the time to read these pages, or None without data.
    pub(super) fn ns_of(self, pages: Pages) -> Option<u64> {
        let ns = u128::from(self.ns) * u128::from(pages.0);
        let ns = ns.checked_div(u128::from(self.pages))?;
        Some(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

/// Converts pages per nanosecond to micropages per second.
const SCALE: u128 = 1_000_000_000_000_000;

/// Weight of the initial guess: half of it is gone after the first window.
const GUESSED_PAGES: u128 = 16;

/// Four gigabytes per second: even a reader that only copies needs longer for a page.
const LEAST_NS_A_PAGE: u64 = 1000;

/// More than any memory has frames, to keep the sums far from overflow.
const MOST_PAGES: u64 = 1 << 32;

/// 150 years.
const MOST_NS: u64 = 1 << 62;
