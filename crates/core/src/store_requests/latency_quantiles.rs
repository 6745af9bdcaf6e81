//! Quantiles of recent latencies in constant memory, rounded up by at most 3.2 %.
//!
//! ```text
//!   octave   [2^14, 2^15) ns          [2^15, 2^16) ns          ..
//!   buckets  |32 of equal width       |32, twice as wide       |
//! ```

use crate::units::Nanos;

/// Histogram of recent latencies, the last 4096 to 8192; older ones are halved repeatedly.
#[derive(Clone, Debug)]
pub struct LatencyQuantiles {
    counts: [u32; BUCKETS],
    total: u32,
}

impl Default for LatencyQuantiles {
    fn default() -> Self {
        Self { counts: [0; BUCKETS], total: 0 }
    }
}

impl LatencyQuantiles {
    /// Adds a latency.
    pub fn record(&mut self, latency: Nanos) {
        if self.total == WINDOW_MAX {
            for count in &mut self.counts {
                *count /= 2;
            }
            self.total = self.counts.iter().sum();
        }
        self.counts[bucket(latency)] += 1;
        self.total += 1;
    }

    /// Returns the number of latencies in the histogram.
    #[must_use]
    pub fn samples(&self) -> u32 {
        self.total
    }

    /// Returns the latency that `tail` of 10,000 exceed, rounded up to the end of its bucket; None
    /// without any.
    ///
    /// # Panics
    ///
    /// If `tail` is more than 10,000.
    ///
    /// ```
    /// use foreread_core::store_requests::LatencyQuantiles;
    /// use foreread_core::units::Nanos;
    ///
    /// let mut latencies = LatencyQuantiles::default();
    /// for ms in 1..=100 {
    ///     latencies.record(Nanos(ms * 1_000_000));
    /// }
    /// let p95 = latencies.exceeded_by(500).unwrap();
    /// assert!(p95 >= Nanos(95_000_000) && p95 < Nanos(98_100_000), "{p95:?}");
    /// ```
    #[must_use]
    pub fn exceeded_by(&self, tail: u32) -> Option<Nanos> {
        assert!(tail <= 10_000, "a part of all");
        if self.total == 0 {
            return None;
        }
        let mut left = u64::from(self.total) * u64::from(tail) / 10_000;
        for (bucket, count) in self.counts.iter().enumerate().rev() {
            let count = u64::from(*count);
            if count > left {
                return Some(end(bucket));
            }
            left -= count;
        }
        Some(end(0))
    }
}

/// Returns the bucket of a latency; the first and last include all shorter and longer ones.
fn bucket(latency: Nanos) -> usize {
    let ns = latency.0.clamp(SHORTEST, LONGEST - 1);
    let octave = ns.ilog2() - SHORTEST.ilog2();
    // The bits after the leading one.
    let within = (ns >> (ns.ilog2() - PARTS.ilog2())) as usize & (PARTS - 1);
    octave as usize * PARTS + within
}

/// Returns the end of a bucket, exclusive.
fn end(bucket: usize) -> Nanos {
    let start = SHORTEST << (bucket / PARTS);
    Nanos(start + start / PARTS as u64 * (bucket % PARTS + 1) as u64)
}

/// Buckets per octave.
const PARTS: usize = 32;
/// 16 us: shorter than any network.
const SHORTEST: u64 = 1 << 14;
/// 18 minutes: longer than any deadline.
const LONGEST: u64 = 1 << 40;
const BUCKETS: usize = PARTS * (LONGEST.ilog2() - SHORTEST.ilog2()) as usize;
/// Large enough to have 80 samples above p99.
const WINDOW_MAX: u32 = 8192;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_ends_where_the_next_begins() {
        for index in 0..BUCKETS - 1 {
            let end = end(index);
            assert_eq!(bucket(end), index + 1, "{end:?}");
            assert_eq!(bucket(Nanos(end.0 - 1)), index, "{end:?}");
        }
        assert_eq!((bucket(Nanos(0)), bucket(Nanos(u64::MAX))), (0, BUCKETS - 1));
    }

    #[test]
    fn a_quantile_is_at_most_one_bucket_too_long() {
        let mut latencies = LatencyQuantiles::default();
        assert_eq!(latencies.exceeded_by(500), None);
        let mut seed: u64 = 1;
        let mut all = Vec::new();
        for _ in 0..5000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let ns = 1_000_000 + (seed >> 33) % 100_000_000;
            latencies.record(Nanos(ns));
            all.push(ns);
        }
        all.sort_unstable();
        for tail in [1, 20, 180, 500, 5000, 9999] {
            let exact = all[5000 - 1 - 5000 * tail / 10_000];
            let got = latencies.exceeded_by(u32::try_from(tail).unwrap()).unwrap().0;
            assert!(got > exact && got <= exact + exact / 31 + 1, "{tail}: {got}, {exact}");
        }
    }

    #[test]
    fn a_store_that_has_become_slower_is_seen_within_some_thousand_requests() {
        let mut latencies = LatencyQuantiles::default();
        for _ in 0..100_000 {
            latencies.record(Nanos(1_000_000));
        }
        assert!(latencies.samples() <= WINDOW_MAX);
        for _ in 0..WINDOW_MAX {
            latencies.record(Nanos(50_000_000));
        }
        assert!(latencies.exceeded_by(5000).unwrap() > Nanos(49_000_000));
    }
}
