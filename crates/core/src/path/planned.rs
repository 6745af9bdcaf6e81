//! Calls for planned reads, whose requests the caller has planned itself ([`crate::ranges::plan`]).
//! They are neither read ahead nor merged.

use core::ops::Range;

use super::IoPath;
use crate::call_log::steps::{PathCall, PathOutput};
use crate::device_model::DeviceModel;
use crate::ids::{FileId, ReadId};
use crate::ranges::{CostModel, RequestLimits};
use crate::units::{ByteCount, Nanos, PAGE_SIZE, PageIndex};

/// # Planned reads
impl IoPath {
    /// Reads the missing pages of a range, with one request where they are contiguous. No policy is
    /// consulted, and the request is not merged with others.
    ///
    /// All planned reads share one budget of pages in flight ([`Self::planned_budget`]); reads that
    /// exceed it wait, first come, first served. A read returns its budget when its pages have
    /// arrived, even before it is released. One read covers at most [`Self::largest_planned`]
    /// bytes; [`ReadReady::len`](crate::driver_io::ReadReady::len) reports the covered length. A
    /// read past the end of the file is ready at once, with a length of 0.
    ///
    /// # Panics
    ///
    /// If the file is closed, or `pages` is empty.
    ///
    /// # Examples
    ///
    /// ```
    /// # use foreread_core::geometry::Geometry;
    /// # use foreread_core::path::{Config, IoPath};
    /// # use foreread_core::prefetch::{Policy, Rules};
    /// # use foreread_core::sched::SchedulerKind;
    /// # use foreread_core::units::{ByteCount, Nanos, PageIndex};
    /// # let mut path = IoPath::new(Config {
    /// #     memory: ByteCount(16 << 20),
    /// #     policy: Policy::Adaptive,
    /// #     max_window: Config::AUTO_WINDOW,
    /// #     rules: Rules::default(),
    /// # });
    /// # let device = path.add_device(Geometry::new(ByteCount(1 << 30)), &SchedulerKind::Noop);
    /// let file = path.open(device, ByteCount(1 << 20)).unwrap();
    /// // Two neighbours: the plan has split them, and they stay two requests.
    /// let reads = [0..4, 4..8].map(|pages| {
    ///     path.read_planned(Nanos(0), file, PageIndex(pages.start)..PageIndex(pages.end))
    /// });
    /// for _ in reads {
    ///     let io = path.poll_dispatch(Nanos(0)).expect("a request for each");
    ///     assert_eq!(io.len, ByteCount(16384));
    ///     path.complete(Nanos(100_000), io.tag, Ok(io.len));
    /// }
    /// for read in reads {
    ///     assert_eq!(path.poll_ready().map(|ready| ready.id), Some(read));
    ///     path.release(Nanos(100_000), read);
    /// }
    /// ```
    pub fn read_planned(&mut self, now: Nanos, file: FileId, pages: Range<PageIndex>) -> ReadId {
        self.did(|| PathCall::ReadPlanned { now, file, pages: pages.clone() });
        let id = self.read_path.begin_planned(now, file, pages);
        self.gave(|| PathOutput::Read(id));
        id
    }

    /// Cancels a read that waits for budget or frames: it ends with a length of 0. A read that has
    /// started continues. Both become ready once and must be released. Does nothing if the read was
    /// released.
    pub fn cancel_read(&mut self, now: Nanos, id: ReadId) {
        self.did(|| PathCall::CancelRead { now, id });
        self.read_path.cancel_read(id);
        self.make_progress(now);
    }

    /// Returns the limit of bytes that planned reads may have in flight: a quarter of the frames.
    #[must_use]
    pub fn planned_budget(&self) -> ByteCount {
        self.read_path.planned_budget().bytes()
    }

    /// Returns the largest planned read: an eighth of the frames, as for all reads.
    #[must_use]
    pub fn largest_planned(&self) -> ByteCount {
        self.read_path.prefetch.largest_read().bytes()
    }

    /// Returns the device model and the request limits for planning reads of this file. None if the
    /// file is closed.
    ///
    /// While the cost of a request is unknown, a plan reads each range separately; while the cost
    /// of a byte is unknown, it assumes 100 MB/s for each request.
    #[must_use]
    pub fn planning(&self, file: FileId) -> Option<(CostModel, RequestLimits)> {
        let path = &self.read_path;
        let open = path.files.get(file).filter(|open| !open.is_closing)?;
        let device = path.devices.of_file(open.device);
        let known = device.estimator().and_then(|it| Some((it.model()?, it.min_parallel())));
        let model = known.map_or(UNKNOWN, |(model, parallel)| {
            let per_kib_ns = model.per_kib_ns.or(Some(UNKNOWN_PER_KIB_NS));
            CostModel::learnt(&DeviceModel { per_kib_ns, ..model }, parallel)
        });
        let largest = device.geometry.max_io.min(path.prefetch.largest_read()).bytes().0;
        let budget = self.planned_budget().0;
        Some((model, RequestLimits { align: PAGE_SIZE, largest, budget }))
    }

    /// Returns the bytes of planned reads that are in flight or wait for frames.
    #[must_use]
    pub fn planned_in_flight(&self) -> ByteCount {
        self.read_path.planned_in_flight().bytes()
    }
}

/// Model of an unknown device: merging or splitting saves nothing.
const UNKNOWN: CostModel = CostModel {
    latency_ns: 0,
    connection_bytes_per_s: 100_000_000,
    total_bytes_per_s: 100_000_000,
    parallel: 1,
};

/// 100 MB/s.
const UNKNOWN_PER_KIB_NS: f64 = 10_240.0;
