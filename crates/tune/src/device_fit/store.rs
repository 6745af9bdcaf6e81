//! An object store: its latency with its tail, the rate of a connection and of the link.
//!
//! In:    what a sweep of a store has found.
//! Out:   the store's parameters; None if the latency or a connection was not measured.
//! Never: a tail of a handful of reads; a limit of requests that was not met.
//!
//! ```text
//!   first byte   p50 --> median     p95, p99 --> a normal logarithm, or some slow requests besides
//!   part / rate of one connection = mean latency + part / connection rate
//!   the best rate of all connections --> link
//! ```

use foreread_core::sizes::Exact;
use foreread_core::units::{ByteCount, PAGE_SIZE};

use super::ModelPoint;
use super::text::number;
use crate::store_sweep::{LatencyQuantiles, PointResult, StoreFindings};

/// The parameters of a store, with the names that a scenario has for them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FittedStore {
    /// The size of the object that was measured.
    pub capacity: ByteCount,
    /// The median time to a first byte.
    pub latency_ms: f64,
    /// The deviation of its logarithm.
    pub latency_sigma: f64,
    /// The share of slow requests,
    pub slow_share: f64,
    /// and how many times as long they take.
    pub slow_factor: f64,
    /// 10^6 bytes a second.
    pub connection_mb_per_s: f64,
    /// The same of all together.
    pub link_mb_per_s: f64,
    /// The most that were measured.
    pub connections: u32,
    /// The least rate at which requests were refused; 0: none were.
    pub requests_per_s: f64,
    /// What requests cost.
    pub prices: StorePrices,
    /// Whether the best rate is what the link gives, and not only what so many connections do.
    pub is_link_full: bool,
    /// Whether there were enough reads for a tail.
    pub is_tail_known: bool,
}

/// Prices as the user gives them; 0: none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StorePrices {
    /// Of 1000 requests.
    pub per_1000_requests: f64,
    /// Of 10^9 bytes.
    pub per_gb: f64,
}

/// The spread of a latency.
#[derive(Clone, Copy, Debug, PartialEq)]
struct LatencySpread {
    sigma: f64,
    slow_share: f64,
    slow_factor: f64,
}

impl LatencySpread {
    /// Of quantiles.
    ///
    /// ```text
    ///   p99 within a normal logarithm through p50 and p95?  --yes--> sigma alone
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

    /// The mean over the median.
    fn mean(&self) -> f64 {
        let slow = 1.0 + self.slow_share * (self.slow_factor - 1.0);
        (self.sigma.powi(2) / 2.0).exp() * slow
    }
}

impl FittedStore {
    /// The store that explains what was found.
    #[must_use]
    pub fn of(found: &StoreFindings, object: ByteCount, prices: StorePrices) -> Option<Self> {
        let first_byte = &found.small_reads.as_ref()?.first_byte_ms;
        let spread = LatencySpread::of(first_byte);
        let latency_us = first_byte.p50 * 1e3 * spread.mean();
        let part = found.connections.first()?.part_kib as f64 * 1024.0;
        let part_us = part / found.one_connection_mb_per_s.filter(|rate| *rate > 0.0)?;
        // A part that came sooner than the first byte of small reads did came from elsewhere.
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

    /// What so many connections give with such parts.
    fn mb_per_s(&self, row: &PointResult) -> f64 {
        let Self { latency_sigma: sigma, slow_share, slow_factor, .. } = *self;
        let spread = LatencySpread { sigma, slow_share, slow_factor };
        let part = row.part_kib as f64 * 1024.0;
        let part_us = self.latency_ms * 1e3 * spread.mean() + part / self.connection_mb_per_s;
        (f64::from(row.connections) * part / part_us).min(self.link_mb_per_s)
    }

    /// What was measured beside what the model gives.
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
        let mut assumed = vec![
            "a request has at most 1M, and late ones are sent again, as the engine does it"
                .to_owned(),
        ];
        if !self.is_link_full {
            let line = "link_mb_per_s is a lower bound: more connections were still faster";
            assumed.push(line.to_owned());
        }
        if !self.is_tail_known {
            assumed.push("p99 was not measured: there are no slow requests".to_owned());
        }
        if self.requests_per_s > 0.0 {
            let line = "requests_per_s is the least rate at which requests were refused";
            assumed.push(line.to_owned());
        }
        assumed
    }
}

fn size(kib: u64) -> String {
    Exact(ByteCount(kib << 10)).to_string()
}

/// Deviations of the normal distribution at these quantiles,
const Z_95: f64 = 1.6449;
const Z_99: f64 = 2.3263;

/// and at 0.95 / 0.98: of 5 % above p95 two are slow, and three are of the 98 others.
const Z_BELOW_SLOW: f64 = 1.8719;

/// One in fifty: half of them are above the 99th percentile.
const SLOW_SHARE: f64 = 0.02;

/// How many times what a normal logarithm explains p99 has to be.
const TAIL_MIN: f64 = 1.25;

/// As far as a scenario takes it.
const SIGMA_MAX: f64 = 3.0;

/// Less than this share of what the connections would give without a link: the link is full.
const LINK_FREE: f64 = 0.9;
