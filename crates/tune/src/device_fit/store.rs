//! Fits an object store: latency with its tail, rate of a connection and of the link.
//!
//! The model is None if latency or connections were not measured. A handful of reads gives no tail,
//! and a request limit that was not reached is not reported.
//!
//! ```text
//!   first byte   p50 --> median     p95, p99 --> log-normal, or some slow requests in addition
//!   part / rate of one connection = mean latency + part / connection rate
//!   the best rate of all connections --> link
//! ```

use foreread_core::sizes::Exact;
use foreread_core::units::{ByteCount, PAGE_SIZE};

use super::ModelPoint;
use super::text::number;
use crate::store_sweep::{LatencyQuantiles, PointResult, StoreFindings};

/// Parameters of a store, named as in a scenario.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FittedStore {
    /// Size of the measured object.
    pub capacity: ByteCount,
    /// Median time to the first byte.
    pub latency_ms: f64,
    /// Standard deviation of the latency's logarithm.
    pub latency_sigma: f64,
    /// Share of slow requests.
    pub slow_share: f64,
    /// Latency of a slow request as a multiple of a normal one.
    pub slow_factor: f64,
    /// Rate of one connection, in 10^6 bytes a second.
    pub connection_mb_per_s: f64,
    /// Rate of all connections together, in 10^6 bytes a second.
    pub link_mb_per_s: f64,
    /// Largest number of connections measured.
    pub connections: u32,
    /// Lowest rate at which requests were refused; 0 if none were.
    pub requests_per_s: f64,
    /// Request prices.
    pub prices: StorePrices,
    /// True if the best rate is the link's capacity, not merely the sum of these connections.
    pub is_link_full: bool,
    /// True if there were enough reads to estimate a tail.
    pub is_tail_known: bool,
}

/// Prices given by the user; 0 if none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StorePrices {
    /// Price of 1000 requests.
    pub per_1000_requests: f64,
    /// Price of 10^9 bytes.
    pub per_gb: f64,
}

/// Spread of a latency.
#[derive(Clone, Copy, Debug, PartialEq)]
struct LatencySpread {
    sigma: f64,
    slow_share: f64,
    slow_factor: f64,
}

impl LatencySpread {
    /// Estimates the spread from quantiles.
    ///
    /// ```text
    ///   p99 within a log-normal fit of p50 and p95?  --yes--> sigma alone
    ///       | no
    ///       '--> one request in fifty is slow, its median is p99: half of them are above it;
    ///            p95 is then that quantile of the others which 2 % slow ones leave
    /// ```
    fn of(times: &LatencyQuantiles) -> Self {
        let sigma_of = |time: f64, deviations: f64| (time / times.p50).ln().max(0.0) / deviations;
        let sigma = times.p95.map_or(0.0, |p95| sigma_of(p95, Z_95).min(SIGMA_MAX));
        let calm = Self { sigma, slow_share: 0.0, slow_factor: 1.0 };
        let Some((p95, p99)) = times.p95.zip(times.p99) else { return calm };
        if p99 <= TAIL_MIN * times.p50 * (Z_99 * sigma).exp() {
            return calm;
        }
        Self {
            sigma: sigma_of(p95, Z_BELOW_SLOW).min(SIGMA_MAX),
            slow_share: SLOW_SHARE,
            slow_factor: (p99 / times.p50).clamp(1.0, 1000.0),
        }
    }

    /// Returns the ratio of mean to median.
    fn mean(&self) -> f64 {
        let slow = 1.0 + self.slow_share * (self.slow_factor - 1.0);
        (self.sigma.powi(2) / 2.0).exp() * slow
    }
}

impl FittedStore {
    /// Fits a store to the findings.
    #[must_use]
    pub fn of(found: &StoreFindings, object: ByteCount, prices: StorePrices) -> Option<Self> {
        let first_byte = &found.small_reads.as_ref()?.first_byte_ms;
        let spread = LatencySpread::of(first_byte);
        let latency_us = first_byte.p50 * 1e3 * spread.mean();
        let part = found.connections.first()?.part_kib as f64 * 1024.0;
        let part_us = part / found.one_connection_mb_per_s.filter(|rate| *rate > 0.0)?;
        // A part that arrived sooner than the first byte of small reads came from a cache, not
        // from the store.
        let connection_mb_per_s = part / (part_us - latency_us).max(part_us / 10.0);
        let rows = || found.connections.iter().chain(&found.parts);
        let best = rows().max_by(|a, b| a.mb_per_s.total_cmp(&b.mb_per_s))?;
        let refused = found.throttling.iter().map(|seen| seen.requests_per_s);
        let mut store = Self {
            capacity: ByteCount((object.0 / PAGE_SIZE).max(1) * PAGE_SIZE),
            latency_ms: first_byte.p50,
            latency_sigma: spread.sigma,
            slow_share: spread.slow_share,
            slow_factor: spread.slow_factor,
            connection_mb_per_s,
            link_mb_per_s: f64::INFINITY,
            connections: rows().map(|row| row.connections).max()?,
            requests_per_s: refused.reduce(f64::min).unwrap_or(0.0),
            prices,
            is_link_full: false,
            is_tail_known: first_byte.p99.is_some(),
        };
        store.is_link_full = best.mb_per_s < LINK_FREE * store.mb_per_s(best);
        store.link_mb_per_s = best.mb_per_s.max(connection_mb_per_s);
        Some(store)
    }

    /// Returns the predicted rate of this many connections with parts of this size.
    fn mb_per_s(&self, row: &PointResult) -> f64 {
        let Self { latency_sigma: sigma, slow_share, slow_factor, .. } = *self;
        let spread = LatencySpread { sigma, slow_share, slow_factor };
        let part = row.part_kib as f64 * 1024.0;
        let part_us = self.latency_ms * 1e3 * spread.mean() + part / self.connection_mb_per_s;
        (f64::from(row.connections) * part / part_us).min(self.link_mb_per_s)
    }

    /// Returns each measured figure together with the model's prediction.
    #[must_use]
    pub fn points(&self, found: &StoreFindings) -> Vec<ModelPoint> {
        let of_row = |row: &PointResult| ModelPoint {
            what: format!("{} connections, parts of {}", row.connections, size(row.part_kib)),
            unit: "MB/s",
            measured: row.mb_per_s,
            model: self.mb_per_s(row),
        };
        let mut points: Vec<ModelPoint> = Vec::new();
        if let Some(small) = &found.small_reads {
            let times = small.first_byte_ms;
            let of_body = |deviations: f64| (self.latency_sigma * deviations).exp();
            let has_slow = self.slow_share > 0.0;
            let model_p95 = of_body(if has_slow { Z_BELOW_SLOW } else { Z_95 });
            let model_p99 = if has_slow { self.slow_factor } else { of_body(Z_99) };
            let quantiles = [
                ("p50", Some(times.p50), 1.0),
                ("p95", times.p95, model_p95),
                ("p99", times.p99, model_p99),
            ];
            points.extend(quantiles.into_iter().filter_map(|(name, measured, times)| {
                let (what, model) = (format!("first byte, {name}"), self.latency_ms * times);
                Some(ModelPoint { what, unit: "ms", measured: measured?, model })
            }));
        }
        points.extend(found.connections.iter().chain(&found.parts).map(of_row));
        points
    }

    pub(super) fn keys(&self) -> Vec<(&'static str, String)> {
        let mut keys = vec![
            ("capacity", self.capacity.0.to_string()),
            ("latency_ms", number(self.latency_ms)),
            ("latency_sigma", number(self.latency_sigma)),
            ("slow_share", number(self.slow_share)),
            ("slow_factor", number(self.slow_factor)),
            ("connection_mb_per_s", number(self.connection_mb_per_s)),
            ("link_mb_per_s", number(self.link_mb_per_s)),
            ("connections", self.connections.to_string()),
        ];
        if self.requests_per_s > 0.0 {
            keys.push(("requests_per_s", number(self.requests_per_s)));
        }
        let StorePrices { per_1000_requests, per_gb } = self.prices;
        let prices = [("price_per_1000_requests", per_1000_requests), ("price_per_gb", per_gb)];
        let prices = prices.into_iter().filter(|(_, price)| *price > 0.0);
        keys.extend(prices.map(|(key, price)| (key, number(price))));
        keys
    }

    pub(super) fn assumed(&self) -> Vec<String> {
        let mut assumed =
            vec!["requests have at most 1M and late ones are hedged, as in the engine".to_owned()];
        if !self.is_link_full {
            let line = "link_mb_per_s is a lower bound: more connections were still faster";
            assumed.push(line.to_owned());
        }
        if !self.is_tail_known {
            assumed.push("p99 was not measured: the model has no slow requests".to_owned());
        }
        if self.requests_per_s > 0.0 {
            let line = "requests_per_s is the lowest rate at which requests were refused";
            assumed.push(line.to_owned());
        }
        assumed
    }
}

fn size(kib: u64) -> String {
    Exact(ByteCount(kib << 10)).to_string()
}

/// Deviations of the normal distribution at p95 and p99.
const Z_95: f64 = 1.6449;
const Z_99: f64 = 2.3263;

/// Deviation at 0.95 / 0.98: of the 5 % above p95, two are slow, and three belong to the other 98.
const Z_BELOW_SLOW: f64 = 1.8719;

/// One in fifty: half of the slow requests are above p99.
const SLOW_SHARE: f64 = 0.02;

/// p99 exceeds the log-normal prediction by at least this factor if there is a tail.
const TAIL_MIN: f64 = 1.25;

/// Largest value that a scenario accepts.
const SIGMA_MAX: f64 = 3.0;

/// Share of the connections' unlimited rate below which the link is considered full.
const LINK_FREE: f64 = 0.9;
