//! Learnt values of a device that outlive the process, and the check that they still hold.
//!
//! The caller knows the identity of its device and stores the values. A restored cost model is used
//! until this run has its own, and dropped after eight contradicting requests in a row.
//!
//! ```text
//!   another run --> LearntDevice --> first requests --> as expected: windows as large as then,
//!                                         |              until this run has its own model
//!                                         '--> 8 in a row are 4 x faster or slower: forgotten
//! ```

use crate::device_model::{DeviceEstimator, DeviceModel};
use crate::units::{ByteCount, Pages};

/// Learnt values of a device to remember across runs: see
/// [`IoPath::learnt_device`](crate::path::IoPath::learnt_device).
///
/// ```
/// use foreread_core::prefetch::{LearntCost, LearntDevice};
/// use foreread_core::units::Pages;
///
/// let cost = LearntCost {
///     per_request_ns: 4.0e6, // a remote disk: 4 ms a request, 180 MB/s
///     per_kib_ns: 5690.0,
///     parallel: Some(1),
///     min_parallel: 1,
/// };
/// let learnt = LearntDevice { window: Pages(512), cost: Some(cost) };
/// assert!(learnt.is_plausible());
/// assert!(!LearntDevice { window: Pages(513), ..learnt }.is_plausible(), "no power of two");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LearntDevice {
    /// Largest useful window, a power of two.
    pub window: Pages,
    /// Cost of a read. None if only the window is known: the estimate starts from it, and no
    /// request can contradict it.
    pub cost: Option<LearntCost>,
}

/// Cost of a read on a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LearntCost {
    /// Fixed cost of a request in nanoseconds.
    pub per_request_ns: f64,
    /// Cost of 1024 bytes in nanoseconds.
    pub per_kib_ns: f64,
    /// Requests served at once; None if the device was never seen at its limit.
    pub parallel: Option<u32>,
    /// Lower bound of the requests served at once.
    pub min_parallel: u32,
}

impl LearntDevice {
    /// Largest window that an estimate can have: 1 GiB.
    pub const LARGEST_WINDOW: Pages = Pages(1 << 18);

    /// Returns true if a device can have these values; data from a file may be corrupt.
    #[must_use]
    pub fn is_plausible(&self) -> bool {
        let is_window = self.window.0.is_power_of_two() && self.window <= Self::LARGEST_WINDOW;
        is_window && self.cost.is_none_or(|cost| cost.is_plausible())
    }
}

impl LearntCost {
    fn is_plausible(&self) -> bool {
        let is_time = |ns: f64| (0.0..=NS_MAX).contains(&ns);
        let is_count = |count: u32| (1..=PARALLEL_MAX).contains(&count);
        is_time(self.per_request_ns)
            && is_time(self.per_kib_ns)
            && self.per_request_ns + self.per_kib_ns > 0.0
            && self.parallel.is_none_or(is_count)
            && is_count(self.min_parallel)
    }

    /// Returns the cost model without a parallelism limit: see [`RememberedCost::ways`].
    fn model(&self) -> DeviceModel {
        DeviceModel {
            per_request_ns: self.per_request_ns,
            per_kib_ns: Some(self.per_kib_ns),
            parallel: None,
            samples: 0,
        }
    }

    /// Returns the fixed cost of a request.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "plausible")]
    fn request_ns(&self) -> u64 {
        self.per_request_ns as u64
    }

    /// Returns the expected time of a request of `bytes` on an idle device.
    fn service_ns(&self, bytes: ByteCount) -> f64 {
        self.per_request_ns + self.per_kib_ns * float(bytes.0) / 1024.0
    }
}

/// A completed read request, as seen at the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServedRead {
    /// Time at the device; an upper bound unless `is_seen`.
    pub(crate) ns: u64,
    /// Bytes read; None if it failed.
    pub(crate) bytes: Option<ByteCount>,
    /// Requests at the device when it was dispatched, itself included.
    pub(crate) in_flight: u32,
    /// Its completion was noticed when it happened.
    pub(crate) is_seen: bool,
}

/// Values of an earlier run, valid until requests of this run contradict them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RememberedCost {
    cost: Option<LearntCost>,
    /// A window was restored, with or without a cost.
    is_restored: bool,
    /// This run has its own model, which replaces the restored one.
    is_superseded: bool,
    /// Last cost known to this run, for the next one. After a while of requests of one size, the
    /// estimator no longer knows the cost per byte.
    latest: Option<LearntCost>,
    /// Consecutive requests that were too slow (positive) or too fast (negative).
    run: i32,
}

impl RememberedCost {
    pub(crate) fn new(cost: Option<LearntCost>) -> Self {
        Self { cost, is_restored: true, is_superseded: false, latest: cost, run: 0 }
    }

    /// Checks a request against the restored cost. Returns true if this is another device.
    ///
    /// A request that queues in the device takes longer by the number of rounds ahead of it. A time
    /// that is an upper bound can prove the device faster, but not slower.
    pub(crate) fn is_refuted_by(&mut self, read: &ServedRead) -> bool {
        let Some(cost) = self.cost.filter(|_| !self.is_superseded) else { return false };
        let Some(bytes) = read.bytes.filter(|bytes| *bytes > ByteCount::ZERO) else { return false };
        let (service_ns, ns) = (cost.service_ns(bytes), float(read.ns));
        let ways = cost.parallel.unwrap_or(cost.min_parallel);
        let rounds = f64::from(read.in_flight.div_ceil(ways).max(1));
        let side = if ns * FACTOR < service_ns {
            -1
        } else if !read.is_seen {
            return false;
        } else if ns > service_ns * rounds * FACTOR {
            1
        } else {
            0
        };
        self.run = if side * self.run > 0 { self.run + side } else { side };
        self.run.abs() >= RUN
    }

    /// Returns the device's model: this run's once it has a cost per byte, until then the restored
    /// one.
    pub(crate) fn model(&self, estimator: &DeviceEstimator) -> Option<DeviceModel> {
        let own = estimator.model();
        let remembered = || self.cost.map(|cost| cost.model());
        own.filter(|own| own.per_kib_ns.is_some()).or_else(remembered).or(own)
    }

    /// Returns the parallelism to assume, where `tried` would be tried without restored values.
    ///
    /// A restored limit is not enforced: a device that serves more today would never be given more.
    /// The restored lower bound takes many requests to find again, so it counts until a limit is
    /// seen.
    pub(crate) fn ways(&self, tried: u32, parallel: Option<u32>) -> u32 {
        let remembered = self.cost.map_or(1, |cost| cost.parallel.unwrap_or(cost.min_parallel));
        parallel.unwrap_or(tried.max(remembered))
    }

    /// Returns the restored fixed cost of a request, or 0 if there is none.
    pub(crate) fn request_ns(&self) -> u64 {
        self.cost.map_or(0, |cost| cost.request_ns())
    }

    /// Returns true if only lone requests may shrink the window. A device that is never idle looks
    /// as if it served one request at a time, at any window.
    pub(crate) fn keeps_window(&self, estimator: &DeviceEstimator) -> bool {
        self.is_restored && estimator.model().is_none()
    }

    /// Takes over this run's estimate for the next run.
    pub(crate) fn note(&mut self, estimator: &DeviceEstimator) {
        let Some(DeviceModel { per_request_ns, per_kib_ns, parallel, .. }) = estimator.model()
        else {
            return;
        };
        let min_parallel = estimator.min_parallel();
        if let Some(per_kib_ns) = per_kib_ns {
            self.is_superseded = true;
            let before = self.latest.and_then(|cost| cost.parallel);
            let parallel = parallel.or(before);
            let cost = LearntCost { per_request_ns, per_kib_ns, parallel, min_parallel };
            self.latest = Some(cost).filter(LearntCost::is_plausible).or(self.latest);
        } else if let Some(latest) = &mut self.latest {
            latest.parallel = parallel.or(latest.parallel);
            latest.min_parallel = latest.min_parallel.max(min_parallel);
        }
    }

    /// Returns the values for the next run, or None while the cost per byte was never known.
    pub(crate) fn latest(&self) -> Option<LearntCost> {
        self.latest
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "nanoseconds and bytes, of which 53 bits are enough"
)]
fn float(number: u64) -> f64 {
    number as f64
}

/// Deviation, as a factor, that means another device. A request elsewhere on the same disk may take
/// twice as long.
const FACTOR: f64 = 4.0;

/// Consecutive deviations that rule out a hiccup: as many as change a device model.
const RUN: i32 = 8;

/// Largest plausible cost of a request, or of a KiB: ten seconds.
const NS_MAX: f64 = 1e10;

/// Largest plausible parallelism, above the queue depth of any device.
const PARALLEL_MAX: u32 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: LearntCost =
        LearntCost { per_request_ns: 4e6, per_kib_ns: 1000.0, parallel: Some(2), min_parallel: 2 };

    fn read(ns: u64, in_flight: u32, is_seen: bool) -> ServedRead {
        ServedRead { ns, bytes: Some(ByteCount(1 << 20)), in_flight, is_seen }
    }

    /// The number of the read that refutes it.
    fn refuted_by(reads: impl IntoIterator<Item = ServedRead>) -> Option<usize> {
        let mut remembered = RememberedCost::new(Some(DISK));
        reads.into_iter().position(|read| remembered.is_refuted_by(&read))
    }

    #[test]
    fn the_eighth_contradiction_in_a_row_ends_it() {
        // 1 MiB takes 5 ms.
        let (slow, fast, usual) =
            (read(21_000_000, 1, true), read(1_200_000, 1, true), read(9_000_000, 1, true));
        assert_eq!(refuted_by([slow; 20]), Some(7));
        assert_eq!(refuted_by([fast; 20]), Some(7));
        assert_eq!(refuted_by([usual; 200]), None);
        assert_eq!(refuted_by((0..200).map(|n| if n % 8 == 0 { usual } else { slow })), None);
        let both = (0..200).map(|n| if n % 2 == 0 { fast } else { slow });
        assert_eq!(refuted_by(both), None, "one in turn with the other is noise");
    }

    #[test]
    fn a_device_that_is_known_by_now_is_not_forgotten_when_it_slows_down() {
        let mut remembered = RememberedCost::new(Some(DISK));
        remembered.is_superseded = true;
        assert!((0..20).all(|_| !remembered.is_refuted_by(&read(90_000_000, 1, true))));
    }

    #[test]
    fn what_waits_for_others_or_is_seen_late_is_not_slow() {
        assert_eq!(refuted_by([read(21_000_000, 3, true); 20]), None, "it waits for a round");
        assert_eq!(refuted_by([read(41_000_000, 3, true); 20]), Some(7));
        assert_eq!(refuted_by([read(900_000_000, 1, false); 20]), None);
        let late_and_fast = read(1_200_000, 1, false);
        assert_eq!(refuted_by([late_and_fast; 20]), Some(7), "it was faster still");
        let failed = ServedRead { bytes: None, ..read(9_000_000_000, 1, true) };
        assert_eq!(refuted_by([failed; 20]), None);
    }

    #[test]
    fn no_device_is_like_that() {
        let of = |cost| LearntDevice { window: Pages(512), cost: Some(cost) }.is_plausible();
        assert!(of(DISK));
        for ns in [f64::NAN, f64::INFINITY, -1.0, 1e11] {
            assert!(!of(LearntCost { per_request_ns: ns, ..DISK }), "{ns}");
            assert!(!of(LearntCost { per_kib_ns: ns, ..DISK }), "{ns}");
        }
        assert!(!of(LearntCost { per_request_ns: 0.0, per_kib_ns: 0.0, ..DISK }));
        assert!(!of(LearntCost { parallel: Some(0), ..DISK }));
        assert!(!of(LearntCost { min_parallel: u32::MAX, ..DISK }));
        for window in [0, 3, 1 << 19, u64::MAX] {
            assert!(!LearntDevice { window: Pages(window), cost: None }.is_plausible());
        }
    }
}
