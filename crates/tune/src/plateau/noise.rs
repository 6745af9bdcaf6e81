//! Estimates the deviation of a reading and the standard error of many.
//!
//! A window with few readings borrows the deviation of the others, so a lucky one does not appear
//! noiseless.

use super::block_reading::{BlockReading, values};
use super::robust::spread;

/// Spread of readings of the same window.
pub(super) struct Noise {
    pub(super) all: f64,
    /// Deviation of each window, shrunk towards the common one if it has few readings.
    of_window: Vec<f64>,
}

impl Noise {
    pub(super) fn of(of_window: &[Vec<BlockReading>], heights: &[f64], levels: &[f64]) -> Self {
        let residuals = |index: usize, entries: &Vec<BlockReading>| {
            let n = entries.len() as f64;
            // Corrects the residuals of n readings for the fitted mean.
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

    /// Returns the standard error of a centre of `n` readings. For a mean it is the deviation over
    /// the square root of n; for a trimmed mean it is a tenth more, for a median a quarter.
    pub(super) fn error_of(&self, window: usize, n: usize) -> f64 {
        let more = if n < 5 { 1.25 } else { 1.1 };
        self.of_window[window] * more / (n as f64).sqrt()
    }
}

/// Readings beyond the windows' own that make the deviation known.
const ENOUGH: usize = 8;

/// Weight of the common deviation, in readings of the window.
const LEAN: f64 = 8.0;

/// Assumed deviation of one reading until there are enough readings.
const NOISE_UNKNOWN: f64 = 0.05;
