//! Filters readings that a cache below the device may have answered: repeated ranges that were
//! faster than fresh ones.

use foreread_core::units::ByteCount;

use super::{StepReading, SweepRun};
use crate::plateau::Reading;
use crate::plateau::robust::median;

/// Speed-up of repeated reads that indicates a cache.
const CACHED: f64 = 1.1;

/// A single window with this speed-up makes the figures doubtful, even if no readings are dropped.
const SUSPECT: f64 = 1.3;

/// Speed-up that no noise explains if several windows show it.
const FAR_FASTER: f64 = 1.5;

impl SweepRun<'_> {
    /// Returns the readings that count.
    pub(super) fn counted(&self) -> Vec<Reading> {
        let fresh_only = self.has_cache() && self.is_largest_fresh();
        let counts = |taken: &&StepReading| !(fresh_only && taken.is_again);
        self.taken.iter().filter(counts).map(reading).collect()
    }

    /// Returns the readings of fresh ranges if others count as well; None if all counted readings
    /// are fresh.
    pub(super) fn only_fresh(&self) -> Option<Vec<Reading>> {
        let fresh: Vec<Reading> =
            self.taken.iter().filter(|taken| !taken.is_again).map(reading).collect();
        (fresh.len() < self.counted().len()).then_some(fresh)
    }

    /// Returns a note on the cache, if one was detected.
    pub(super) fn note_of_cache(&self) -> Option<String> {
        if !self.has_cache() {
            return None;
        }
        let note = if self.is_largest_fresh() {
            "repeated reads are faster: there is a cache below; only first reads count"
        } else {
            "repeated reads are faster, and no unread data was left: these may be figures of a \
             cache below"
        };
        Some(note.into())
    }

    /// Returns whether all remaining ranges are in a cache below.
    pub(super) fn is_all_cached(&self) -> bool {
        let is_last_again = self.taken.iter().rev().take(3).all(|taken| taken.is_again);
        is_last_again && self.has_cache()
    }

    /// Returns whether only a cache explains this speed, according to the first readings.
    pub(super) fn is_cached(&self, window: ByteCount, mb_per_s: f64) -> bool {
        let of_window = self.taken.iter().filter(|taken| taken.window == window && !taken.is_again);
        let mut fresh: Vec<f64> = of_window.map(|taken| taken.mb_per_s).collect();
        !fresh.is_empty() && mb_per_s > CACHED * median(&mut fresh)
    }

    /// Returns whether the counted readings may be those of a cache below.
    ///
    /// ```text
    ///   each window read often enough from fresh places? ------- yes --> no
    ///   repeated reads no faster than fresh ones? -------------- yes --> no
    ///                             faster, or nothing to compare: no ---> it may: a token bucket
    ///                                                       holds fresh and cached alike back
    /// ```
    pub(super) fn may_be_cached(&self) -> bool {
        let fresh = |window: &ByteCount| {
            let of_window = self.taken.iter().filter(|one| one.window == *window && !one.is_again);
            of_window.count() >= self.least()
        };
        let only_fresh =
            self.counted().len() == self.taken.iter().filter(|it| !it.is_again).count();
        if only_fresh && self.base().iter().all(fresh) {
            return false;
        }
        let gains = self.gains();
        let is_any = gains.iter().any(|gain| *gain > SUSPECT.ln());
        gains.len() < 2 || is_any || self.has_cache() || self.burst.is_some()
    }

    fn has_cache(&self) -> bool {
        let mut gains = self.gains();
        // A cache may show with some windows only, because other limits bound the rest.
        let far = gains.iter().filter(|gain| **gain > FAR_FASTER.ln()).count();
        gains.len() > 1 && (median(&mut gains) > CACHED.ln() || (far > 1 && 3 * far >= gains.len()))
    }

    /// Returns the speed-up of repeated reads, as logarithms, for each window that was read both
    /// ways.
    fn gains(&self) -> Vec<f64> {
        let of = |window: ByteCount, is_again: bool| {
            let of_window = self.taken.iter();
            let same = of_window.filter(|one| one.window == window && one.is_again == is_again);
            let mut logs: Vec<f64> = same.map(|taken| taken.mb_per_s.ln()).collect();
            (!logs.is_empty()).then(|| median(&mut logs))
        };
        let gain = |window: &ByteCount| Some(of(*window, true)? - of(*window, false)?);
        self.windows.iter().filter_map(gain).collect()
    }

    /// Returns whether the reference window has a fresh reading, without which fresh readings of
    /// others have nothing to compare with.
    fn is_largest_fresh(&self) -> bool {
        self.taken.iter().any(|taken| Some(taken.window) == self.largest && !taken.is_again)
    }
}

fn reading(taken: &StepReading) -> Reading {
    Reading { window: taken.window, round: taken.round, mb_per_s: taken.mb_per_s }
}
