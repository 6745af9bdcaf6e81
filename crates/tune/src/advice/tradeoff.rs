//! Cost of a window to readers that do not read sequentially.

use crate::report::{Latency, WindowResult};

/// Gain of a window, and its cost to other readers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tradeoff {
    /// Window size.
    pub window_kib: u64,
    /// Throughput gain of the next row over this one, in percent; None for the last row.
    pub next_gains_percent: Option<f64>,
    /// Latency of one random read of this size; None if that size was not measured.
    pub read_us: Option<f64>,
    /// Memory used by a hundred streams, in KiB: two windows each, one being read and one in
    /// flight.
    pub hundred_streams_kib: u64,
}

/// Returns one trade-off for each row.
#[must_use]
pub fn tradeoffs(rows: &[WindowResult], random: &[Latency]) -> Vec<Tradeoff> {
    let next = rows.iter().skip(1).map(Some).chain([None]);
    let tradeoff = |(row, next): (&WindowResult, Option<&WindowResult>)| Tradeoff {
        window_kib: row.window_kib,
        next_gains_percent: next.map(|next| 100.0 * (next.mb_per_s / row.mb_per_s - 1.0)),
        read_us: random
            .iter()
            .find(|latency| latency.size_kib == row.window_kib)
            .map(|latency| latency.median_us),
        hundred_streams_kib: row.window_kib.saturating_mul(200),
    };
    rows.iter().zip(next).map(tradeoff).collect()
}

/// Latency as a linear function of size: a fixed cost for each read plus its transfer.
///
/// Latencies of a disk differ by a third from one read to the next, and doubling a small read adds
/// a few percent. Between two sizes that is lost in the noise; a fit over all sizes recovers it.
#[derive(Clone, Copy, Debug)]
pub(super) struct LatencyLine {
    any_us: f64,
    us_per_kib: f64,
}

impl LatencyLine {
    /// Fits the line with the least relative error.
    pub(super) fn through(random: &[Latency]) -> Option<Self> {
        let points = random.iter().filter(|latency| latency.median_us > 0.0);
        let sum = |value: &dyn Fn(f64, f64) -> f64| -> f64 {
            let of = |latency: &Latency| {
                value(latency.size_kib as f64, latency.median_us) / latency.median_us.powi(2)
            };
            points.clone().map(of).sum()
        };
        if points.clone().count() < 3 {
            return None;
        }
        let (n, x, y) = (sum(&|_, _| 1.0), sum(&|x, _| x), sum(&|_, y| y));
        let (xx, xy) = (sum(&|x, _| x * x), sum(&|x, y| x * y));
        let slope = (n * xy - x * y) / (n * xx - x * x);
        // A larger read is never faster; a negative slope is noise.
        let us_per_kib = slope.max(0.0);
        let any_us = (y - us_per_kib * x) / n;
        Some(Self { any_us: any_us.max(0.0), us_per_kib })
    }

    pub(super) fn at(&self, size_kib: u64) -> f64 {
        self.any_us + self.us_per_kib * size_kib as f64
    }

    /// Returns the extra latency of the larger size, in percent of a one-page read.
    pub(super) fn percent_between(&self, from_kib: u64, to_kib: u64) -> f64 {
        100.0 * (self.at(to_kib) - self.at(from_kib)) / self.at(4)
    }
}
