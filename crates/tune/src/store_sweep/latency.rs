//! Latencies of small reads and new connections: median and tail. Quantiles with too few samples
//! are None.

use serde::Serialize;

use super::step::{ConnectionCost, SmallRead};
use crate::plateau::robust::median;

/// Quantiles of times, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LatencyQuantiles {
    /// Median.
    pub p50: f64,
    /// p95; None below 20 samples.
    pub p95: Option<f64>,
    /// p99; None below 100 samples.
    pub p99: Option<f64>,
    /// Maximum.
    pub max: f64,
}

/// Small reads, one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SmallReads {
    /// Size of each read.
    pub size_kib: u64,
    /// Number of reads.
    pub reads: usize,
    /// Time from the request to the response header.
    pub first_byte_ms: LatencyQuantiles,
    /// Time from the request to the last byte.
    pub whole_ms: LatencyQuantiles,
}

/// Cost of a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ConnectionCosts {
    /// Median of the extra time of a connection's first request over its second.
    pub median_ms: f64,
    /// Largest extra time.
    pub max_ms: f64,
    /// Number of connections opened.
    pub connections: usize,
}

impl LatencyQuantiles {
    /// Returns the quantiles; None without samples.
    fn of(times: impl Iterator<Item = u64>) -> Option<Self> {
        let mut times: Vec<u64> = times.collect();
        times.sort_unstable();
        let max = *times.last()?;
        let ms = |ns: u64| ns as f64 / 1e6;
        // The smallest time that `percent` of 100 samples do not exceed.
        let at = |percent: usize| ms(times[(times.len() * percent).div_ceil(100) - 1]);
        let is_enough = |least: usize| times.len() >= least;
        Some(Self {
            p50: at(50),
            p95: is_enough(20).then(|| at(95)),
            p99: is_enough(100).then(|| at(99)),
            max: ms(max),
        })
    }
}

impl SmallReads {
    pub(super) fn of(size_kib: u64, reads: &[SmallRead]) -> Option<Self> {
        let times = |of: fn(&SmallRead) -> u64| LatencyQuantiles::of(reads.iter().map(of));
        Some(Self {
            size_kib,
            reads: reads.len(),
            first_byte_ms: times(|read| read.first_byte_ns)?,
            whole_ms: times(|read| read.ns)?,
        })
    }
}

impl ConnectionCosts {
    pub(super) fn of(costs: &[ConnectionCost]) -> Option<Self> {
        let more = |cost: &ConnectionCost| cost.first_ns.saturating_sub(cost.next_ns) as f64 / 1e6;
        let mut times: Vec<f64> = costs.iter().map(more).collect();
        let max_ms = times.iter().copied().reduce(f64::max)?;
        Some(Self { median_ms: median(&mut times), max_ms, connections: costs.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_a_time_that_was_seen_and_needs_enough_of_them() {
        let of = |n: u64| LatencyQuantiles::of((1..=n).rev().map(|ms| ms * 1_000_000));
        assert_eq!(of(0), None);
        let quantiles = |p50, p95, p99, max| Some(LatencyQuantiles { p50, p95, p99, max });
        assert_eq!(of(1), quantiles(1.0, None, None, 1.0));
        assert_eq!(of(19), quantiles(10.0, None, None, 19.0));
        assert_eq!(of(20), quantiles(10.0, Some(19.0), None, 20.0));
        assert_eq!(of(100), quantiles(50.0, Some(95.0), Some(99.0), 100.0));
        assert_eq!(of(1000), quantiles(500.0, Some(950.0), Some(990.0), 1000.0));
    }

    #[test]
    fn a_connection_costs_what_its_first_request_takes_longer() {
        let cost = |first_ns, next_ns| ConnectionCost { first_ns, next_ns };
        let costs = [cost(9_000_000, 4_000_000), cost(7_000_000, 4_000_000), cost(1, 4_000_000)];
        let found = ConnectionCosts::of(&costs).expect("three");
        assert_eq!((found.median_ms, found.max_ms, found.connections), (3.0, 5.0, 3));
        assert_eq!(ConnectionCosts::of(&[]), None);
    }
}
