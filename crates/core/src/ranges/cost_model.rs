//! Cost model of a device for the range planner, given by hand or learnt.

use crate::device_model::DeviceModel;

/// Request cost of a device. A request of b bytes takes `latency_ns + b / connection_bytes_per_s`;
/// `parallel` of them run at once, and together they transfer at most `total_bytes_per_s`.
///
/// # Examples
///
/// ```
/// use foreread_core::ranges::CostModel;
///
/// // An object store: 64 connections of 80 MB/s each.
/// let store = CostModel {
///     latency_ns: 20_000_000,
///     connection_bytes_per_s: 80_000_000,
///     total_bytes_per_s: 5_120_000_000,
///     parallel: 64,
/// };
/// assert_eq!(store.break_even_gap(), 1_600_000);
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CostModel {
    /// Time from a request to its first byte, in nanoseconds.
    pub latency_ns: u64,
    /// Bandwidth limit of one request, in bytes a second; at least 1.
    pub connection_bytes_per_s: u64,
    /// Bandwidth limit of all requests together, in bytes a second; at least 1.
    pub total_bytes_per_s: u64,
    /// Requests that run at once; further ones wait. At least 1.
    pub parallel: u32,
}

impl CostModel {
    /// Returns the cost model that an estimator has learnt. `min_parallel` is used while the model
    /// does not know the parallelism
    /// ([`DeviceEstimator::min_parallel`](crate::device_model::DeviceEstimator::min_parallel)).
    ///
    /// The estimator does not know a common bandwidth limit: the total bandwidth is that of one
    /// connection times the number of requests at once. While the cost of bytes is unknown, it is
    /// included in the latency, and the bandwidth is unlimited. docs/design/ranges.md describes how
    /// soon and how well the numbers are known.
    ///
    /// # Examples
    ///
    /// ```
    /// use foreread_core::device_model::DeviceModel;
    /// use foreread_core::ranges::CostModel;
    ///
    /// let (per_request_ns, per_kib_ns) = (1e6, Some(1024.0));
    /// let learnt = DeviceModel { per_request_ns, per_kib_ns, parallel: Some(8), samples: 20 };
    /// let model = CostModel::learnt(&learnt, 3);
    /// assert_eq!((model.latency_ns, model.parallel), (1_000_000, 8));
    /// assert_eq!(model.connection_bytes_per_s, 1_000_000_000);
    /// assert_eq!(model.total_bytes_per_s, 8_000_000_000);
    /// ```
    #[must_use]
    pub fn learnt(model: &DeviceModel, min_parallel: u32) -> Self {
        let parallel = model.parallel.unwrap_or(min_parallel).max(1);
        let bytes_per_s = |per_kib_ns: f64| whole(1024.0 * 1e9 / per_kib_ns).max(1);
        let per_kib_ns = model.per_kib_ns.filter(|ns| *ns > 0.0);
        let connection_bytes_per_s = per_kib_ns.map_or(u64::MAX, bytes_per_s);
        Self {
            latency_ns: whole(model.per_request_ns),
            connection_bytes_per_s,
            total_bytes_per_s: connection_bytes_per_s.saturating_mul(u64::from(parallel)),
            parallel,
        }
    }

    /// Returns the gap in bytes up to which a serial device reads two ranges faster as one: latency
    /// times bandwidth. With concurrent requests, merging pays for smaller gaps only, or not at
    /// all.
    ///
    /// # Panics
    ///
    /// If any number except the latency is 0.
    #[must_use]
    pub fn break_even_gap(&self) -> u64 {
        self.check();
        let bytes_per_s = self.connection_bytes_per_s.min(self.total_bytes_per_s);
        let bytes = u128::from(self.latency_ns) * u128::from(bytes_per_s) / 1_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    pub(super) fn check(&self) {
        assert!(self.connection_bytes_per_s > 0, "the bandwidth of a connection is at least 1");
        assert!(self.total_bytes_per_s > 0, "the total bandwidth is at least 1");
        assert!(self.parallel > 0, "at least one request runs at a time");
    }

    /// Returns the bytes per nanosecond of one request while `transferring` requests transfer.
    pub(super) fn rate(&self, transferring: usize) -> f64 {
        let share = float(self.total_bytes_per_s) / float(transferring as u64);
        float(self.connection_bytes_per_s).min(share) / 1e9
    }

    /// Returns a lower bound in nanoseconds for any plan of this many requests and bytes.
    pub(super) fn bound(&self, requests: u64, bytes: u64) -> f64 {
        let (latency, parallel) = (float(self.latency_ns), u64::from(self.parallel));
        let rounds = latency * float(requests.div_ceil(parallel));
        let transfer = float(bytes) / float(self.connection_bytes_per_s) * 1e9;
        let work = (float(requests) * latency + transfer) / float(parallel);
        let all_bytes = latency + float(bytes) / float(self.total_bytes_per_s) * 1e9;
        rounds.max(work).max(all_bytes)
    }

    /// Returns true if one connection is slower than the device, so that splitting may pay.
    pub(super) fn is_limited_by_connection(&self) -> bool {
        self.parallel > 1 && self.connection_bytes_per_s < self.total_bytes_per_s
    }
}

#[expect(clippy::cast_precision_loss, reason = "53 bits of a time or a size are enough")]
pub(super) fn float(number: u64) -> f64 {
    number as f64
}

/// Rounds to a whole number; negative numbers become 0, and overflows saturate.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
pub(super) fn whole(number: f64) -> u64 {
    (number + 0.5) as u64
}
