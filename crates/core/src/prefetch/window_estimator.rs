//! Learns the largest useful window of a device, and the latency of its requests, from completions.
//!
//! ```text
//!   throughput                 ____________________
//!                        __----      ^ another doubling brings less than 1 %
//!                    _--
//!                 _-
//!             4K    16K    64K    256K    1M    4M     window
//! ```
//!
//! It is used only where the caller did not set a fixed window.

use alloc::collections::VecDeque;

use super::learnt_device::{LearntDevice, RememberedCost, ServedRead};
use crate::device_model::{DeviceEstimator, DeviceModel};
use crate::geometry::{
    DEFAULT_WINDOW, Geometry, LimitRule, readahead_limit, scaled_down, whole_pages,
};
use crate::sched::Op;
use crate::units::{ByteCount, Nanos, PAGE_SIZE, Pages};

/// Learnt window and latency of one device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowEstimator {
    window: Pages,
    /// The initial window, derived from the device's size; the learnt one never shrinks below it.
    least: Pages,
    /// Reads completed since the last update.
    ended: u32,
    latency_ns: u64,
    /// Completions left before windows may overlap; 0 when the device need not be left idle any
    /// more.
    alone: u32,
    /// Costs that an earlier run learnt.
    remembered: RememberedCost,
    /// Latency is so high that the device is probably behind a network.
    is_remote: bool,
}

impl WindowEstimator {
    /// Creates an estimator for a device of which only the size is known.
    pub(crate) fn new(geometry: &Geometry) -> Self {
        let limit = readahead_limit(geometry.capacity, LimitRule::Published);
        let window = whole_pages(scaled_down(DEFAULT_WINDOW, limit), ByteCount(PAGE_SIZE));
        let window = window.pages_up();
        assert!(window <= LARGEST, "the window of a device is no larger than one that is learnt");
        let remembered = RememberedCost::default();
        Self {
            window,
            least: window,
            ended: 0,
            latency_ns: 0,
            alone: ALONE,
            remembered,
            is_remote: false,
        }
    }

    /// Creates an estimator from the values that an earlier run learnt.
    ///
    /// Its first requests are also sent one at a time, to verify that the device has not changed; a
    /// reader of large windows loses little by that. A device that serves many requests at once is
    /// exempt: probing would leave it idle for most of a second, and its latency can be checked on
    /// concurrent requests, too.
    pub(crate) fn restored(geometry: &Geometry, learnt: &LearntDevice) -> Self {
        assert!(learnt.is_plausible(), "{learnt:?} is no device");
        let fresh = Self::new(geometry);
        let window = fresh.window.max(learnt.window.min(LARGEST));
        let serves_many = learnt.cost.is_some_and(|cost| cost.min_parallel >= MANY_AT_ONCE);
        let alone = if serves_many { 0 } else { fresh.alone };
        let is_remote = learnt.cost.is_some_and(|cost| cost.per_request_ns >= REMOTE_NS);
        let remembered = RememberedCost::new(learnt.cost);
        Self { window, alone, remembered, is_remote, ..fresh }
    }

    /// Returns the values to remember for the next run, or None while too little is known.
    pub(crate) fn learnt(&self) -> Option<LearntDevice> {
        let cost = self.remembered.latest();
        let has_learnt = cost.is_some() || self.window > self.least;
        let window = Pages(self.window.0.next_power_of_two());
        (has_learnt && self.alone == 0).then_some(LearntDevice { window, cost })
    }

    /// Returns the cost model of reads: this run's if it is known, else the remembered one.
    pub(super) fn model(&self, estimator: &DeviceEstimator) -> Option<DeviceModel> {
        let model = self.remembered.model(estimator)?;
        let parallel = self.remembered.ways(estimator.min_parallel(), model.parallel);
        Some(DeviceModel { parallel: Some(parallel), ..model })
    }

    /// Returns the largest useful window.
    pub(super) fn window(&self) -> Pages {
        self.window
    }

    /// Returns the mean latency of a read from request to completion; before the first completion,
    /// the remembered one.
    pub(super) fn latency_ns(&self) -> u64 {
        if self.latency_ns > 0 { self.latency_ns } else { self.remembered.request_ns() }
    }

    /// Records a completed read. Returns true if the estimate changed enough to share it with the
    /// next file on the same disk.
    pub(crate) fn read_ended(&mut self, read: &EndedRead<'_>) -> bool {
        // Also store probes that are not finished: with only small files, each would start over.
        let was_wanted = self.wants_idle_device();
        if self.remembered.is_refuted_by(&read.served) {
            *self = Self::new(read.geometry);
            return true;
        }
        self.count_ended(read.now, read.queued_at, read.served.is_seen);
        read.estimator.is_some_and(|it| self.update(it, read.geometry)) || was_wanted
    }

    /// Returns true if the device is remote and a window spans several concurrent requests.
    pub(super) fn is_far(&self, max_io: Pages) -> bool {
        self.is_remote && self.window.0 >= max_io.0.saturating_mul(FAR_REQUESTS)
    }

    /// Adds the latency of a read queued at `arrival`. Without a waiting caller the completion is
    /// noticed late, so the time is only an upper bound.
    fn count_ended(&mut self, now: Nanos, arrival: Nanos, was_watched: bool) {
        let ns = now.0.saturating_sub(arrival.0);
        if was_watched || ns < self.latency_ns {
            let before = self.latency_ns;
            self.latency_ns = if before == 0 { ns } else { before - before / 8 + ns / 8 };
        }
        self.ended += 1;
        self.alone = self.alone.saturating_sub(1);
    }

    /// Returns true while windows are sent one at a time, to measure their cost on an idle device.
    ///
    /// ```text
    ///   reader    |k k k k|m                marker in k + 1, which is still in flight
    ///   device    .--- k + 1 ---.--- k + 2 ---.--- ..    never idle: no cost can be measured
    ///
    ///   put off   .--- k + 1 ---.  .--- k + 2 ---.  ..   requested when the reader needs it
    /// ```
    ///
    /// A reader with enough read-ahead never leaves its device idle, so its cost would never be
    /// measured. A few markers therefore request no window. Demand reads are never delayed by this,
    /// and if a request hangs, the completions of the others still count.
    pub(crate) fn wants_idle_device(&self) -> bool {
        self.alone > 0
    }

    /// Updates the window if enough reads have completed since the last update; returns true if it
    /// did.
    ///
    /// ```text
    ///   size       128K     512K     1M       2M          each new size is probed alone until its
    ///   requests   | | | |  | | | |  | | | |  |||| ..     cost is known
    /// ```
    ///
    /// Probing leaves the device idle for all but one of the requests it could serve at once, so a
    /// size that is worth doubling is probed only until its mean is known. The last size gets
    /// [`ALONE`] probes, because a missing gain is harder to tell from noise.
    fn update(&mut self, estimator: &DeviceEstimator, geometry: &Geometry) -> bool {
        let is_told = self.alone > 0 && estimator.knows_cost(Op::Read, self.window.bytes());
        // A remote reader requests its next window soon after the last completion of this one,
        // and the // one after that a round trip later: so evaluate each completion at once.
        let look_every = if self.is_remote && self.alone == 0 { 1 } else { LOOK_EVERY };
        if self.ended < look_every && !is_told {
            return false;
        }
        self.ended = 0;
        self.remembered.note(estimator);
        let (known, ways) = if let Some(known) = self.remembered.model(estimator) {
            let ways = self.remembered.ways(2 * estimator.min_parallel(), known.parallel);
            self.is_remote = known.per_request_ns >= REMOTE_NS;
            (known, f64::from(ways))
        } else if let Some(known) = estimator.busy_model() {
            // Several readers never leave it idle.
            (known, f64::from(estimator.busy_parallel()))
        } else if is_told {
            // The cost per byte needs a second size, however fast this one was.
            self.grow(false, geometry);
            return true;
        } else {
            return false;
        };
        let gain = |window: Pages| {
            let once = window_ns(&known, window, geometry.max_io, ways);
            let twice = window_ns(&known, window + window, geometry.max_io, ways);
            2.0 * once / twice
        };
        // One step at a time: each size refines the cost per byte.
        if gain(Pages(self.window.0.next_power_of_two())) >= GROWS {
            self.grow(known.per_kib_ns.is_some(), geometry);
        }
        let mut window = Pages(self.window.0.next_power_of_two());
        // On a device without per-request cost one stream is as fast with a smaller window, but
        // smaller // requests are more requests, which slow down other streams.
        let keeps_window = self.remembered.keeps_window(estimator);
        while window > self.least && !keeps_window && gain(Pages(window.0 / 2)) < SHRINKS {
            window = Pages(window.0 / 2);
        }
        assert!(window <= LARGEST && window > Pages::ZERO, "{window:?} is learnt of a device");
        self.window = window;
        true
    }

    /// Moves to the next size: double, or fourfold while the cost per byte is unknown. Sizes closer
    /// than four to one cannot tell that cost, and without it every doubling would look worthwhile.
    fn grow(&mut self, is_slope_known: bool, geometry: &Geometry) {
        let before = Pages(self.window.0.next_power_of_two());
        if before >= LARGEST {
            return;
        }
        let mut window = before + before;
        if !is_slope_known && window + window <= geometry.max_io.min(LARGEST) {
            window += window;
        }
        self.alone = if window <= geometry.max_io { ALONE } else { 0 };
        self.window = window;
        assert!(window <= LARGEST && window > before, "{window:?} follows on {before:?}");
    }
}

/// A completed read request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedRead<'d> {
    pub(crate) now: Nanos,
    pub(crate) queued_at: Nanos,
    pub(crate) served: ServedRead,
    pub(crate) estimator: Option<&'d DeviceEstimator>,
    pub(crate) geometry: &'d Geometry,
}

/// Estimates by disk, shared among the files on it: a file of a few windows is read before its own
/// requests could teach anything.
#[derive(Debug, Default)]
pub(crate) struct KnownDisks {
    known: VecDeque<(u64, WindowEstimator)>,
}

impl KnownDisks {
    /// Returns the estimate for a disk.
    pub(crate) fn get(&self, disk: u64) -> Option<WindowEstimator> {
        let known = self.known.iter().find(|(number, _)| *number == disk);
        known.map(|(_, useful)| WindowEstimator { ended: 0, ..*useful })
    }

    /// Stores the estimate for a disk. Drops the oldest one beyond [`DISKS_MAX`].
    pub(crate) fn set(&mut self, disk: u64, useful: WindowEstimator) {
        if let Some((_, known)) = self.known.iter_mut().find(|(number, _)| *number == disk) {
            *known = useful;
            return;
        }
        if self.known.len() == DISKS_MAX {
            self.known.pop_front();
        }
        self.known.push_back((disk, useful));
        assert!(self.known.len() <= DISKS_MAX, "the oldest disk is forgotten");
    }
}

/// Returns the time of a window on an idle device, sent as requests of at most `max_io` pages of
/// which `ways` are served at once.
fn window_ns(fit: &DeviceModel, window: Pages, max_io: Pages, ways: f64) -> f64 {
    debug_assert!(ways >= 1.0, "a device serves at least one request at a time");
    let requests = window.0.div_ceil(max_io.0.max(1));
    let kib = float(window.0.min(max_io.0) * (PAGE_SIZE / 1024));
    let one = fit.per_request_ns.max(ASKING_NS) + fit.per_kib_ns.unwrap_or(0.0).max(0.0) * kib;
    one * (float(requests) / ways).max(1.0)
}

#[expect(clippy::cast_precision_loss, reason = "pages of a window")]
fn float(number: u64) -> f64 {
    number as f64
}

/// A window grows while its double is at least this much faster. All further doublings together
/// gain about twice as much as the next one, so stopping here forgoes 2 %.
const GROWS: f64 = 1.01;

/// A window shrinks when it gains less than this over its half. The gap to [`GROWS`] keeps a device
/// between two sizes from flapping with every request.
const SHRINKS: f64 = 1.005;

/// CPU cost of a request in this process: a few system calls. Without this floor, a device whose
/// per-request cost is lost in the noise would look as fast with half the size, down to a page, and
/// larger sizes would never be tried.
const ASKING_NS: f64 = 5_000.0;

/// Probes of a new size at most: as many as a cost model needs.
const ALONE: u32 = 8;

/// A device that serves this many requests at once is never probed one request at a time.
const MANY_AT_ONCE: u32 = 16;

/// Completions between two updates: as many as a cost model needs.
const LOOK_EVERY: u32 = 8;

/// A remote window of this many requests pays off only if most of them are served at once.
const FAR_REQUESTS: u64 = 4;

/// Request cost from which a device counts as remote: slower than any local disk that serves
/// several requests at once, faster than any object store.
const REMOTE_NS: f64 = 2e6;

/// Largest number of devices with an estimator; most machines have fewer.
const DISKS_MAX: usize = 64;

/// 1 GiB, a second of a fast device. Memory limits the window long before.
const LARGEST: Pages = Pages(1 << 18);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device_model::LatencyObserver;

    /// A device that takes so long for a request and for each page of it.
    fn learn(
        estimator: &mut DeviceEstimator,
        useful: &mut WindowEstimator,
        pages: u64,
        start_ns: u64,
        page_ns: u64,
    ) {
        let geometry = Geometry { max_io: Pages(1 << 16), ..Geometry::new(ByteCount(1 << 40)) };
        for number in 0..64 {
            learn_one(estimator, useful, &geometry, number, pages, start_ns + pages * page_ns);
        }
    }

    /// One request in each second.
    fn learn_one(
        estimator: &mut DeviceEstimator,
        useful: &mut WindowEstimator,
        geometry: &Geometry,
        number: u64,
        pages: u64,
        ns: u64,
    ) {
        let mut watch = LatencyObserver::default();
        watch.begin(Nanos(0));
        let now = Nanos(number * 1_000_000_000);
        let end = Nanos(now.0 + ns);
        let sent = estimator.dispatched(now, Op::Read, 0);
        estimator.completed(end, sent, Some(Pages(pages).bytes()), 1, watch.now());
        useful.count_ended(end, now, true);
        useful.update(estimator, geometry);
    }

    /// How many requests of each size go alone, as pages: of a device that takes so long.
    fn alone(start_ns: u64, page_ns: u64) -> Vec<(u64, u32)> {
        let geometry = Geometry { max_io: Pages(256), ..Geometry::new(ByteCount(1 << 40)) };
        let (mut estimator, mut useful) = (DeviceEstimator::new(), WindowEstimator::new(&geometry));
        let mut sizes: Vec<(u64, u32)> = Vec::new();
        for number in 0.. {
            let pages = useful.window().0;
            match sizes.last_mut().filter(|(last, _)| *last == pages) {
                _ if !useful.wants_idle_device() => break,
                Some((_, count)) => *count += 1,
                None => sizes.push((pages, 1)),
            }
            let ns = start_ns + pages * page_ns;
            learn_one(&mut estimator, &mut useful, &geometry, number, pages, ns);
        }
        sizes
    }

    /// 20 ms and 1 GB/s: beyond one request it is not idle any more.
    #[test]
    fn a_size_that_is_worth_its_double_goes_alone_until_it_has_a_mean() {
        assert_eq!(alone(20_000_000, 4_000), [(32, 4), (128, 4), (256, 4)]);
    }

    /// 1 ms and 4 MB/s.
    #[test]
    fn one_that_is_not_goes_alone_eight_times() {
        assert_eq!(alone(1_000_000, 1_000_000), [(32, 4), (128, 8)]);
    }

    #[test]
    fn a_device_without_a_cost_of_its_own_has_windows_of_more_than_a_page() {
        let geometry = Geometry { max_io: Pages(1 << 16), ..Geometry::new(ByteCount(1 << 40)) };
        let (mut estimator, mut useful) = (DeviceEstimator::new(), WindowEstimator::new(&geometry));
        // Ten gigabytes a second, and a line through the origin.
        for pages in [1, 16, 32, 64] {
            learn(&mut estimator, &mut useful, pages, 0, 400);
        }
        assert_eq!(estimator.model().map(|fit| fit.per_request_ns), Some(0.0));
        assert!(useful.window() >= Pages(256), "{:?}", useful.window());
        // It becomes a disk: windows come back from there, and from a page.
        useful.window = Pages(1);
        for pages in [1, 16, 32, 64, 128, 256] {
            learn(&mut estimator, &mut useful, pages, 1_000_000, 40_000);
        }
        assert!(useful.window() >= Pages(512), "{:?}", useful.window());
    }
}
