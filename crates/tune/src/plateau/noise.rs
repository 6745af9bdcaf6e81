//! How much readings of the same window differ, and what that makes of their mean.
//!
//! In:    readings as logarithms, without what their window and their round explain.
//! Out:   [`Noise`]: the deviation of one reading, and the standard error of many.
//! Never: a deviation of zero by luck: a window with few readings leans on all the others.

use super::block_reading::{BlockReading, values};
use super::robust::spread;

/// How much readings of the same window differ.
pub(super) struct Noise {
    pub(super) all: f64,
    /// Of each window, leaning on all where it has few readings of its own.
    of_window: Vec<f64>,
}

impl Noise {
    pub(super) fn of(of_window: &[Vec<BlockReading>], heights: &[f64], levels: &[f64]) -> Self {
        let residuals = |index: usize, entries: &Vec<BlockReading>| {
            let n = entries.len() as f64;
            // What is left of n readings after their mean was taken is too small by this.
            let lost = if n > 1.0 { (n / (n - 1.0)).sqrt() } else { 0.0 };
            values(entries, |entry| (entry.ln - levels[entry.block] - heights[index]) * lost)
        };
        let residuals: Vec<Vec<f64>> =
            of_window.iter().enumerate().map(|(index, of)| residuals(index, of)).collect();
        let several = residuals.iter().filter(|of| of.len() > 1);
        let mut together: Vec<f64> = several.clone().flatten().copied().collect();
        let free = together.len() - several.count();
        let mut all = spread(&mut together);
        if free < ENOUGH {
            all = all.max(NOISE_UNKNOWN);
        }
        let own = residuals.into_iter().map(|mut own| {
            let n = own.len() as f64;
            let (lean, spread) = (LEAN * all * all, spread(&mut own));
            ((lean + n * spread * spread) / (LEAN + n)).sqrt()
        });
        Self { all, of_window: own.collect() }
    }

    /// The standard error of what stands for `n` readings. A mean's own is the deviation over the
    /// root of n; that of a trimmed mean is a tenth more, that of a median a quarter.
    pub(super) fn error_of(&self, window: usize, n: usize) -> f64 {
        let more = if n < 5 { 1.25 } else { 1.1 };
        self.of_window[window] * more / (n as f64).sqrt()
    }
}

/// The deviation is known once so many readings are more than their windows need.
const ENOUGH: usize = 8;

/// The deviation of all counts as so many readings of a window's own.
const LEAN: f64 = 8.0;

/// What one reading may be off by until there are enough of them to tell.
const NOISE_UNKNOWN: f64 = 0.05;
