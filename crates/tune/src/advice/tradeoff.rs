//! What a window costs readers that do not read in order.
//!
//! In:    rows of a sweep, latencies by size.
//! Out:   [`Tradeoff`], one for each row.
//! Never: a choice.

use crate::report::{Latency, WindowResult};

/// One window: what it gains, and what it costs other readers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tradeoff {
    /// The window.
    pub window_kib: u64,
    /// What the next row gains over it, in percent of throughput; None behind the last.
    pub next_gains_percent: Option<f64>,
    /// What one read of this size takes, anywhere; None if that size was not measured.
    pub read_us: Option<f64>,
    /// What a hundred streams hold in memory, in KiB: two windows each, the one that is read and
    /// the one that is on its way.
    pub hundred_streams_kib: u64,
}

/// One for each row.
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

/// Latency by size, as a line: what any read costs, and what its transfer adds.
///
/// Reads of a disk differ by a third from one to the next, and what a doubling adds to a small one
/// is a few percent: between two sizes that is lost in the noise, over all sizes it is not.
#[derive(Clone, Copy, Debug)]
pub(super) struct LatencyLine {
    any_us: f64,
    us_per_kib: f64,
}

impl LatencyLine {
    /// The line that is off by the least, in shares of each latency.
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
        // A larger read is never faster; what looks so is noise.
        let us_per_kib = slope.max(0.0);
        let any_us = (y - us_per_kib * x) / n;
        Some(Self { any_us: any_us.max(0.0), us_per_kib })
    }

    pub(super) fn at(&self, size_kib: u64) -> f64 {
        self.any_us + self.us_per_kib * size_kib as f64
    }

    /// What a read loses from one size to another, in percent of a page's.
    pub(super) fn percent_between(&self, from_kib: u64, to_kib: u64) -> f64 {
        100.0 * (self.at(to_kib) - self.at(from_kib)) / self.at(4)
    }
}
