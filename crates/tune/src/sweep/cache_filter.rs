//! Caches below us: what was read before comes faster.
//!
//! In:    readings, and whether the device had been asked for the same before.
//! Out:   those that count.
//! Never: a reading of a cache, if there is one of the device.

use foreread_core::units::ByteCount;

use super::{StepReading, SweepRun};
use crate::plateau::Reading;
use crate::plateau::robust::median;

/// By how many times what was read before has to be faster.
const CACHED: f64 = 1.1;

/// One window that is so many times as fast when it reads again is enough to doubt the figures, if
/// not to leave readings out.
const SUSPECT: f64 = 1.3;

/// What no noise explains, if it happens to several windows.
const FAR_FASTER: f64 = 1.5;

impl SweepRun<'_> {
    /// The readings that count.
    pub(super) fn counted(&self) -> Vec<Reading> {
        let fresh_only = self.has_cache() && self.is_largest_fresh();
        let counts = |taken: &&StepReading| !(fresh_only && taken.is_again);
        self.taken.iter().filter(counts).map(reading).collect()
    }

    /// The readings of ranges that were read for the first time, if others count beside them; none
    /// if all that count are of this kind.
    pub(super) fn only_fresh(&self) -> Option<Vec<Reading>> {
        let fresh: Vec<Reading> =
            self.taken.iter().filter(|taken| !taken.is_again).map(reading).collect();
        (fresh.len() < self.counted().len()).then_some(fresh)
    }

    /// What is to be said about it.
    pub(super) fn note_of_cache(&self) -> Option<String> {
        if !self.has_cache() {
            return None;
        }
        let note = if self.is_largest_fresh() {
            "what is read twice comes faster: something below caches; only what was read for the \
             first time counts"
        } else {
            "what is read twice comes faster, and nothing was left to read for the first time: \
             these may be figures of a cache below"
        };
        Some(note.into())
    }

    /// Whether nothing is left that a cache below does not have.
    pub(super) fn is_all_cached(&self) -> bool {
        let is_last_again = self.taken.iter().rev().take(3).all(|taken| taken.is_again);
        is_last_again && self.has_cache()
    }

    /// Whether a speed is one that only a cache has, as far as the first readings say.
    pub(super) fn is_cached(&self, window: ByteCount, mb_per_s: f64) -> bool {
        let of_window = self.taken.iter().filter(|taken| taken.window == window && !taken.is_again);
        let mut fresh: Vec<f64> = of_window.map(|taken| taken.mb_per_s).collect();
        !fresh.is_empty() && mb_per_s > CACHED * median(&mut fresh)
    }

    /// Whether what counts may be figures of a cache below.
    ///
    /// ```text
    ///   each window read often enough from fresh places? ------- yes --> no
    ///   what is read again no faster than what was fresh? ------ yes --> no
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
        // A cache may be seen with some windows only: others are held back by something else.
        let far = gains.iter().filter(|gain| **gain > FAR_FASTER.ln()).count();
        gains.len() > 1 && (median(&mut gains) > CACHED.ln() || (far > 1 && 3 * far >= gains.len()))
    }

    /// By how much each window is faster where it reads again, as logarithms; of those windows that
    /// were read both ways.
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

    /// With it all are compared: without a fresh reading of it, fresh ones of others say nothing.
    fn is_largest_fresh(&self) -> bool {
        self.taken.iter().any(|taken| Some(taken.window) == self.largest && !taken.is_again)
    }
}

fn reading(taken: &StepReading) -> Reading {
    Reading { window: taken.window, round: taken.round, mb_per_s: taken.mb_per_s }
}
