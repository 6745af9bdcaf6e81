//! What was learnt of a device, as it outlives the path that learnt it; and whether it still holds.
//!
//! In:    an estimate from another run; the first requests of this one.
//! Out:   a cost model until this path has one of its own; or that the device is another one now.
//! Never: a file, an identity: the driver of a path knows which device it has and where this is
//!        kept. A window that stays wrong: eight requests in a row that contradict it end it.
//!
//! ```text
//!   another run  --> LearntDevice --> first requests --> as expected: windows as large as then
//!                                          |                            until its own model is known
//!                                          '--> 8 in a row are 4 x faster or slower: forgotten
//! ```

use crate::device_model::{DeviceEstimator, DeviceModel};
use crate::units::{ByteCount, Pages};

/// What is worth keeping of what was learnt of a device: see
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
    /// The largest window that is of use, a power of two.
    pub window: Pages,
    /// What a read costs. None if only the window is known: it is then where the estimate begins,
    /// and no request can contradict it.
    pub cost: Option<LearntCost>,
}

/// What a read of a device costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LearntCost {
    /// Nanoseconds of a request, whatever its size.
    pub per_request_ns: f64,
    /// Nanoseconds of 1024 bytes.
    pub per_kib_ns: f64,
    /// How many requests it serves at once; None if it was never seen at its limit.
    pub parallel: Option<u32>,
    /// How many it was seen to serve at once at least.
    pub min_parallel: u32,
}

impl LearntDevice {
    /// The largest window that an estimate can have: 1 GiB.
    pub const LARGEST_WINDOW: Pages = Pages(1 << 18);

    /// Whether a device can be like this: what comes from a file may be anything.
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

    /// Without a limit: see [`RememberedCost::ways`].
    fn model(&self) -> DeviceModel {
        DeviceModel {
            per_request_ns: self.per_request_ns,
            per_kib_ns: Some(self.per_kib_ns),
            parallel: None,
            samples: 0,
        }
    }

    /// What a request costs, whatever its size.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "plausible")]
    fn request_ns(&self) -> u64 {
        self.per_request_ns as u64
    }

    /// How long a request of so many bytes should take on an idle device.
    fn service_ns(&self, bytes: ByteCount) -> f64 {
        self.per_request_ns + self.per_kib_ns * float(bytes.0) / 1024.0
    }
}

/// A read request that has ended, as the device saw it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServedRead {
    /// How long it was at the device; an upper bound unless its end was seen.
    pub(crate) ns: u64,
    /// The bytes that came; None if it failed.
    pub(crate) bytes: Option<ByteCount>,
    /// How many requests were at the device when it was sent, with itself.
    pub(crate) in_flight: u32,
    /// Whether its end was seen when it happened.
    pub(crate) is_seen: bool,
}

/// What another run learnt of a device, as long as no request of this one contradicts it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RememberedCost {
    cost: Option<LearntCost>,
    /// Whether there is a window from another run, with or without a cost.
    is_restored: bool,
    /// Whether this run has a model of its own: what another run learnt says nothing any more.
    is_superseded: bool,
    /// The last cost that this run knew, for the next one. A device that has been read in requests
    /// of one size for a while does not say any more what bytes cost.
    latest: Option<LearntCost>,
    /// How many requests in a row were too slow (positive) or too fast (negative).
    run: i32,
}

impl RememberedCost {
    pub(crate) fn new(cost: Option<LearntCost>) -> Self {
        Self { cost, is_restored: true, is_superseded: false, latest: cost, run: 0 }
    }

    /// Looks at a request; returns whether the device is not the one that was remembered.
    ///
    /// A request that waits for others in the device takes longer by as many rounds as there are.
    /// A time that is only an upper bound can be too short, but not too long.
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

    /// The model of the device: its own as soon as that has the cost of bytes, until then the one
    /// that is remembered.
    pub(crate) fn model(&self, estimator: &DeviceEstimator) -> Option<DeviceModel> {
        let own = estimator.model();
        let remembered = || self.cost.map(|cost| cost.model());
        own.filter(|own| own.per_kib_ns.is_some()).or_else(remembered).or(own)
    }

    /// How many requests to count on at once, if `tried` would be tried without what is remembered.
    ///
    /// A limit that is remembered limits nothing: a device that serves more today would never be
    /// given more. What it served at least takes many requests to find out, and counts until a
    /// limit is seen.
    pub(crate) fn ways(&self, tried: u32, parallel: Option<u32>) -> u32 {
        let remembered = self.cost.map_or(1, |cost| cost.parallel.unwrap_or(cost.min_parallel));
        parallel.unwrap_or(tried.max(remembered))
    }

    /// What a request costs, as far as another run knew; 0 if it did not.
    pub(crate) fn request_ns(&self) -> u64 {
        self.cost.map_or(0, |cost| cost.request_ns())
    }

    /// Whether only requests that go alone may say that a window is too large. A device that is
    /// never idle looks as if it served one request at a time, whatever its window.
    pub(crate) fn keeps_window(&self, estimator: &DeviceEstimator) -> bool {
        self.is_restored && estimator.model().is_none()
    }

    /// Takes over what was learnt, for the next run.
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

    /// What the next run should know. None as long as the cost of bytes was never known.
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

/// Faster or slower than was remembered by this factor is another device. A request at another
/// place of the same disk may take twice as long.
const FACTOR: f64 = 4.0;

/// So many such requests in a row are no hiccup: as many as change the model of a device.
const RUN: i32 = 8;

/// No device takes more than ten seconds for a request, or for a KiB.
const NS_MAX: f64 = 1e10;

/// More than any device takes in.
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
