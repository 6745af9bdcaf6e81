//! The largest window that is of use on a device, and how long its requests take: learnt.
//!
//! In:    what its completions told ([`DeviceModel`]); when requests were queued and when they
//!        ended.
//! Out:   a window in pages, a power of two; a time.
//! Never: a window that was set. This is for windows that are learnt.
//!
//! ```text
//!   throughput                 ____________________
//!                        __----      ^ another doubling brings less than 1 %
//!                    _--
//!                 _-
//!             4K    16K    64K    256K    1M    4M     window
//! ```

use alloc::collections::VecDeque;

use super::learnt_device::{LearntDevice, RememberedCost, ServedRead};
use crate::device_model::{DeviceEstimator, DeviceModel};
use crate::geometry::{
    DEFAULT_WINDOW, Geometry, LimitRule, readahead_limit, scaled_down, whole_pages,
};
use crate::sched::Op;
use crate::units::{ByteCount, Nanos, PAGE_SIZE, Pages};

/// What a device is good for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowEstimator {
    window: Pages,
    /// What it was before anything was learnt.
    least: Pages,
    /// How many reads have ended since it was last looked at.
    ended: u32,
    latency_ns: u64,
    /// So many more reads are to end at most before windows are asked for ahead of others.
    alone: u32,
    /// What another run learnt of it.
    remembered: RememberedCost,
    /// Whether its requests take so long that a network is likely to lie before it.
    is_remote: bool,
}

impl WindowEstimator {
    /// Of a device of which only its size is known.
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

    /// Of a device that another run has learnt. Its first requests go alone, too: they tell whether
    /// it is still the same, and a reader of large windows loses little by it. But a device that
    /// serves many at once would be left idle by most of a second of them; of its requests beside
    /// others, too, it can be told whether they take as long as expected.
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

    /// What the next run should know. None before enough was learnt.
    pub(crate) fn learnt(&self) -> Option<LearntDevice> {
        let cost = self.remembered.latest();
        let has_learnt = cost.is_some() || self.window > self.least;
        let window = Pages(self.window.0.next_power_of_two());
        (has_learnt && self.alone == 0).then_some(LearntDevice { window, cost })
    }

    /// What reads cost: as this run's told, else as another run's did.
    pub(super) fn model(&self, estimator: &DeviceEstimator) -> Option<DeviceModel> {
        let model = self.remembered.model(estimator)?;
        let parallel = self.remembered.ways(estimator.min_parallel(), model.parallel);
        Some(DeviceModel { parallel: Some(parallel), ..model })
    }

    /// The largest window that is of use.
    pub(super) fn window(&self) -> Pages {
        self.window
    }

    /// How long a read takes from being asked for to its end. Before any has ended, what another
    /// run says.
    pub(super) fn latency_ns(&self) -> u64 {
        if self.latency_ns > 0 { self.latency_ns } else { self.remembered.request_ns() }
    }

    /// A read request has ended; returns whether something was learnt that the next file on the
    /// same disk should know.
    pub(crate) fn read_ended(&mut self, read: &EndedRead<'_>) -> bool {
        // Each file of a disk that has only small ones would begin anew.
        let was_wanted = self.wants_idle_device();
        if self.remembered.is_refuted_by(&read.served) {
            *self = Self::new(read.geometry);
            return true;
        }
        self.count_ended(read.now, read.queued_at, read.served.is_seen);
        read.estimator.is_some_and(|it| self.update(it, read.geometry)) || was_wanted
    }

    /// Whether it is far away, and a window is several requests that are served at once.
    pub(super) fn is_far(&self, max_io: Pages) -> bool {
        self.is_remote && self.window.0 >= max_io.0.saturating_mul(FAR_REQUESTS)
    }

    /// A read has ended that was asked for at `arrival`. While no caller waits, ends are seen late:
    /// such a time is only an upper bound.
    fn count_ended(&mut self, now: Nanos, arrival: Nanos, was_watched: bool) {
        let ns = now.0.saturating_sub(arrival.0);
        if was_watched || ns < self.latency_ns {
            let before = self.latency_ns;
            self.latency_ns = if before == 0 { ns } else { before - before / 8 + ns / 8 };
        }
        self.ended += 1;
        self.alone = self.alone.saturating_sub(1);
    }

    /// Whether windows are to go one at a time, so that they tell what they cost.
    ///
    /// ```text
    ///   reader    |k k k k|m                marker in k + 1: that is still on its way
    ///   device    .--- k + 1 ---.--- k + 2 ---.--- ..    never idle, so nothing tells a cost
    ///
    ///   put off   .--- k + 1 ---.  .--- k + 2 ---.  ..   asked for when its reader wants it
    /// ```
    ///
    /// A reader that is never short of read-ahead never leaves its device idle, and would never
    /// learn what it is like. So a few markers bring no window. Demand reads are never delayed
    /// by this, and if a request hangs, the others end and count.
    pub(crate) fn wants_idle_device(&self) -> bool {
        self.alone > 0
    }

    /// Looks at what was learnt, if enough ended since the last time; says whether it did.
    ///
    /// ```text
    ///   size       128K     512K     1M       2M          a size that is new is tried alone,
    ///   requests   | | | |  | | | |  | | | |  |||| ..     until its cost is known
    /// ```
    ///
    /// Until then a device is left idle for all but one of the requests that it serves at once, so
    /// a size that is worth its double is tried no longer than it takes to know a mean. The last
    /// one is tried [`ALONE`] times: that it is not worth its double says less clearly.
    fn update(&mut self, estimator: &DeviceEstimator, geometry: &Geometry) -> bool {
        let is_told = self.alone > 0 && estimator.knows_cost(Op::Read, self.window.bytes());
        // What the last request of a window tells is looked at then: a far reader asks for the next
        // window soon after it, and for the one after that a round trip later.
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
            // What bytes cost is told by another size alone, whatever this one was like.
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
        // Step by step: each size tells what its bytes cost.
        if gain(Pages(self.window.0.next_power_of_two())) >= GROWS {
            self.grow(known.per_kib_ns.is_some(), geometry);
        }
        let mut window = Pages(self.window.0.next_power_of_two());
        // A stream of a device without any cost for a request is as fast with less, but others are
        // not: smaller requests are more of them.
        let keeps_window = self.remembered.keeps_window(estimator);
        while window > self.least && !keeps_window && gain(Pages(window.0 / 2)) < SHRINKS {
            window = Pages(window.0 / 2);
        }
        assert!(window <= LARGEST && window > Pages::ZERO, "{window:?} is learnt of a device");
        self.window = window;
        true
    }

    /// The next size: twice as large; or four times, if the cost of bytes is not known. Sizes of
    /// less than four to one do not tell it, and without it each would seem worth its double.
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

/// A read request that has ended, as far as the estimator looks at it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedRead<'d> {
    pub(crate) now: Nanos,
    pub(crate) queued_at: Nanos,
    pub(crate) served: ServedRead,
    pub(crate) estimator: Option<&'d DeviceEstimator>,
    pub(crate) geometry: &'d Geometry,
}

/// What was learnt of disks, for the next file on one of them: a file of a few windows is read
/// before it has told anything.
#[derive(Debug, Default)]
pub(crate) struct KnownDisks {
    known: VecDeque<(u64, WindowEstimator)>,
}

impl KnownDisks {
    /// What is known of a disk.
    pub(crate) fn get(&self, disk: u64) -> Option<WindowEstimator> {
        let known = self.known.iter().find(|(number, _)| *number == disk);
        known.map(|(_, useful)| WindowEstimator { ended: 0, ..*useful })
    }

    /// Stores what was learnt of a disk. Beyond [`DISKS_MAX`] of them the oldest is forgotten.
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

/// How long a window takes on an idle device: in requests of at most `max_io` pages, so many of
/// which are served at once as it has `ways`.
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

/// A window grows while its double is so much faster. All further doublings together bring about
/// twice as much as the next one, so what is left out is 2 %.
const GROWS: f64 = 1.01;

/// And shrinks when it is less than that faster than its half. Between the two it stays, so that a
/// device between two sizes does not change its mind with each request.
const SHRINKS: f64 = 1.005;

/// The cost of a request in this process: a few system calls. Where a device's own cost of a
/// request is lost in the noise, each size would look as good as its half, down to a page, and no
/// larger be tried.
const ASKING_NS: f64 = 5_000.0;

/// So many requests of a size that was not seen yet go alone at most: as many as make a model.
const ALONE: u32 = 8;

/// A device that serves so many at once is not read one request at a time.
const MANY_AT_ONCE: u32 = 16;

/// As many as make a model.
const LOOK_EVERY: u32 = 8;

/// A window of so many requests is worth it only where most of them are served at once.
const FAR_REQUESTS: u64 = 4;

/// No disk of this machine that serves several at once takes as long, and every store does.
const REMOTE_NS: f64 = 2e6;

/// More than most machines have.
const DISKS_MAX: usize = 64;

/// 1 GiB, a second of a fast device; the memory is the bound long before.
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
            learn_one((estimator, useful), &geometry, number, (pages, start_ns, page_ns));
        }
    }

    /// One request in each second.
    fn learn_one(
        (estimator, useful): (&mut DeviceEstimator, &mut WindowEstimator),
        geometry: &Geometry,
        number: u64,
        (pages, start_ns, page_ns): (u64, u64, u64),
    ) {
        let mut watch = LatencyObserver::default();
        watch.begin(Nanos(0));
        let now = Nanos(number * 1_000_000_000);
        let end = Nanos(now.0 + start_ns + pages * page_ns);
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
            let learnt = (&mut estimator, &mut useful);
            learn_one(learnt, &geometry, number, (pages, start_ns, page_ns));
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
