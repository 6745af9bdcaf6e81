//! Calls for requests: I/O to start, completions, time, direct requests. An error is reported only
//! if a caller waits for it.

use alloc::vec::Vec;
use core::ops::Range;

use super::IoPath;
use crate::call_log::steps::{PathCall, PathOutput};
use crate::device_queue::payload::PageFill;
use crate::driver_io::{DeviceIo, DirectDone, Fault};
use crate::ids::{DeviceId, DirectId, Tag};
use crate::prefetch::learnt_device::ServedRead;
use crate::prefetch::window_estimator::EndedRead;
use crate::read_path::completion::{PageSource, RequestEnd};
use crate::sched::{Op, Origin};
use crate::table::Frame;
use crate::trace::EventKind;
use crate::units::{ByteCount, Nanos, Pages, Sector, Sectors};

/// # Requests
impl IoPath {
    /// Takes the next device I/O to start; None if there is none or no device has room.
    pub fn poll_dispatch(&mut self, now: Nanos) -> Option<DeviceIo> {
        self.did(|| PathCall::PollDispatch { now });
        let io = self.dispatch(now);
        self.gave_with(|path| {
            let frames = |tag| path.io_frames(tag).collect::<Vec<_>>();
            PathOutput::Dispatched(io.map(|io| (io, frames(io.tag))))
        });
        io
    }

    fn dispatch(&mut self, now: Nanos) -> Option<DeviceIo> {
        let Self { read_path, writeback, .. } = self;
        let (device, request, sent) = read_path.devices.take(now)?;
        let (op, start, sectors) = (request.origin.op, request.start, request.sectors);
        let load = &request.load;
        let writes_pages = !load.writes.is_empty();
        assert!(!writes_pages || op == Op::Write, "dirty pages are in write requests");
        assert!(load.pages.is_empty() || op == Op::Read, "pages to fill are in read requests");
        let command = writes_pages
            .then(|| writeback.begin_command(&mut read_path.devices, device, load.is_fua));
        let stats = &mut read_path.telemetry.stats;
        match op {
            Op::Read => stats.device_reads += 1,
            Op::Write => stats.device_writes += 1,
        }
        stats.device_pages += load.page_count().0;
        stats.device_write_pages += load.writes.len() as u64;
        let (fua, len) = (load.is_fua, load.len(sectors));
        let trace = &mut read_path.telemetry.trace;
        trace.push(now, || EventKind::Dispatched { device, op, start, sectors });
        let tag = read_path.devices.start(device, request, sent, command);
        Some(DeviceIo { tag, device, op, fua, offset: start.offset(), len })
    }

    /// Returns the pages of a read request in flight, without those that have
    /// [arrived](Self::arrived); empty for a write.
    ///
    /// # Panics
    ///
    /// If the request is not in flight.
    #[must_use]
    pub fn pages(&self, tag: Tag) -> &[PageFill] {
        self.read_path.devices.in_flight(tag).expected_pages()
    }

    /// Returns the frames of a read request in flight and the bytes of each to read into, in the
    /// order of its pages. Pages that have [arrived](Self::arrived) are left out.
    ///
    /// # Panics
    ///
    /// If the request is not in flight.
    pub fn io_parts(&self, tag: Tag) -> impl Iterator<Item = (Frame, Range<usize>)> {
        self.pages(tag).iter().map(|page| (page.filling.frame(), page.part.bytes()))
    }

    /// Returns the frames of a request in flight, in the order of its pages, to read into or to
    /// write from. Pages that have [arrived](Self::arrived) are left out.
    ///
    /// # Panics
    ///
    /// If the request is not in flight.
    pub fn io_frames(&self, tag: Tag) -> impl Iterator<Item = Frame> {
        let in_flight = self.read_path.devices.in_flight(tag);
        in_flight.request.load.frames().skip(in_flight.arrived_pages)
    }

    /// Returns the length of a request in flight.
    ///
    /// # Panics
    ///
    /// If the request is not in flight.
    #[must_use]
    pub fn io_len(&self, tag: Tag) -> ByteCount {
        let request = &self.read_path.devices.in_flight(tag).request;
        request.load.len(request.sectors)
    }

    /// Returns true if no reader was waiting for a page of the request when it was dispatched.
    ///
    /// # Panics
    ///
    /// If the request is not in flight.
    #[must_use]
    pub fn is_ahead(&self, tag: Tag) -> bool {
        self.read_path.devices.in_flight(tag).request.load.is_ahead
    }

    /// Takes a request in flight, with its device, that a caller has joined since its dispatch;
    /// each is returned once. A driver that can speed up single requests, for example by hedging a
    /// late one, learns here that a caller now waits for a [read-ahead](Self::is_ahead) request.
    /// Polling is optional and changes no decision.
    pub fn poll_joined(&mut self) -> Option<(DeviceId, Tag)> {
        self.read_path.devices.take_joined()
    }

    /// Reports that the first `bytes` bytes of a read request are in its frames; the rest is still
    /// in flight.
    ///
    /// Complete pages become up to date, and reads that wait for nothing else become ready. The
    /// request stays in flight until [`Self::complete`], whose result counts from its start. If it
    /// fails, pages that have arrived stay good. Call this as soon as the bytes have arrived, even
    /// if no reader waits: the arrival of the last byte ends the request's service time, from which
    /// the device is learnt.
    ///
    /// ```text
    ///   page      0           1           2           3
    ///   |===========|===========|=====......|...........|    after 10000 bytes, 0 and 1 are up to
    ///                              ^10000                    date; 2 and 3 are still in flight
    /// ```
    ///
    /// The frames of pages that have arrived no longer belong to the request and may be reused at
    /// any time: the driver must not write to them again. This is for devices that transfer a
    /// request from start to end, such as a network connection.
    ///
    /// # Panics
    ///
    /// If the request is not in flight, reads no pages, or is shorter than `bytes`.
    ///
    /// # Examples
    ///
    /// The reader of the first page is ready as soon as that page has arrived.
    ///
    /// ```
    /// # use foreread_core::geometry::Geometry;
    /// # use foreread_core::path::{Config, IoPath};
    /// # use foreread_core::prefetch::{Policy, Rules};
    /// # use foreread_core::sched::SchedulerKind;
    /// # use foreread_core::units::{ByteCount, Nanos};
    /// # let mut path = IoPath::new(Config {
    /// #     memory: ByteCount(16 << 20),
    /// #     policy: Policy::Adaptive,
    /// #     max_window: Config::AUTO_WINDOW,
    /// #     rules: Rules::default(),
    /// # });
    /// # let device = path.add_device(Geometry::new(ByteCount(1 << 30)), &SchedulerKind::Noop);
    /// # let file = path.open(device, ByteCount(1 << 20)).unwrap();
    /// # let stream = path.stream(file);
    /// let read = path.read(Nanos(0), stream, ByteCount(0), ByteCount(4096), None);
    /// let io = path.poll_dispatch(Nanos(0)).expect("a request for more than the first page");
    /// assert!(io.len > ByteCount(4096));
    /// // ... copy the first 4096 bytes into the first frame ...
    /// path.arrived(Nanos(20_000_000), io.tag, ByteCount(4096));
    /// assert_eq!(path.poll_ready().map(|ready| ready.id), Some(read));
    /// // ... and the rest into `path.io_frames(io.tag)` ...
    /// path.complete(Nanos(21_000_000), io.tag, Ok(io.len));
    /// # path.release(Nanos(21_000_000), read);
    /// ```
    pub fn arrived(&mut self, now: Nanos, tag: Tag, bytes: ByteCount) {
        self.did(|| PathCall::Arrived { now, tag, bytes });
        let Self { read_path, writeback, .. } = self;
        read_path.clock = now;
        let arrived = read_path.devices.arrived(now, tag, bytes);
        let (device, start) = (arrived.device, arrived.start);
        let pages = Pages(arrived.pages.len() as u64);
        for page in arrived.pages {
            read_path.end_fill(now, page);
            writeback.tell_woken(read_path);
        }
        let trace = &mut read_path.telemetry.trace;
        trace.push(now, || EventKind::Arrived { device, start, pages });
        self.make_progress(now);
    }

    /// Ends a request in flight with the number of bytes transferred, or the error number.
    ///
    /// # Panics
    ///
    /// If the request is not in flight, or the result is less than has [arrived](Self::arrived).
    pub fn complete(&mut self, now: Nanos, tag: Tag, result: Result<ByteCount, i32>) {
        self.did(|| PathCall::Complete { now, tag, result });
        let Self { read_path, writeback, direct, .. } = self;
        read_path.clock = now;
        let completed = read_path.devices.complete(now, tag, result);
        let (device, mut request) = (completed.device, completed.request);
        let origin = request.origin;
        if origin.op == Op::Read
            && let Some(queue) = read_path.devices.get(device)
        {
            let (is_seen, ns, in_flight) =
                (completed.served.is_seen, completed.ns, completed.depth);
            let read = EndedRead {
                now: completed.served.at,
                queued_at: request.arrival,
                served: ServedRead { ns, bytes: result.ok(), in_flight, is_seen },
                estimator: queue.estimator(),
                geometry: &queue.geometry,
            };
            read_path.prefetch.read_ended(device.index(), queue.disk, &read);
        }
        let bytes = result.unwrap_or(ByteCount::ZERO);
        let fault = result.err().map_or(Fault::Short, Fault::Io);
        direct.end(&mut request.load, request.start, bytes, fault);
        assert!(request.load.direct.is_empty(), "each direct request was told of");
        let (start, pages) = (request.start, request.load.pages.len());
        let written = request.load.writes.len();
        let mut good = request.load.written_by(bytes) + Pages(completed.arrived_pages as u64);
        if let Some(command) = completed.command {
            let load = core::mem::take(&mut request.load);
            writeback.end_write_request(read_path, now, device, command, load, result);
        }
        let mut from = completed.arrived;
        for page in request.load.pages.into_iter().skip(completed.arrived_pages) {
            let source = PageSource { device, origin, start: start + from };
            let sectors = page.part.sectors();
            let end = RequestEnd { bytes, fault, pages };
            let is_good = read_path.end_page(now, source, page, from, end);
            writeback.tell_woken(read_path);
            good += Pages(u64::from(is_good));
            from += sectors;
        }
        assert!(from == Sectors::ZERO || from == request.sectors, "its pages are all of a read");
        let pages = Pages((pages + written) as u64);
        assert!(good <= pages, "{good:?} pages of {pages:?} are good");
        let trace = &mut read_path.telemetry.trace;
        trace.push(now, || EventKind::Completed { device, start, good, pages });
        read_path.devices.finish(device);
        self.make_progress(now);
    }

    /// Returns true if requests are queued. If [`Self::poll_dispatch`] returns None nevertheless,
    /// they stay queued until the driver reports completions.
    #[must_use]
    pub fn is_dispatch_pending(&self) -> bool {
        self.read_path.devices.is_pending()
    }

    /// Returns the time at which [`Self::poll_dispatch`] may return I/O without another call or
    /// completion, because a scheduler idles until then or dirty pages come of age. Call
    /// [`Self::timeout`] then.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Nanos> {
        let wake_at = self.read_path.devices.wake_at();
        wake_at.into_iter().chain(self.writeback.next_write_out(&self.read_path)).min()
    }

    /// Handles the time returned by [`Self::poll_timeout`]; calling it too early is harmless.
    pub fn timeout(&mut self, now: Nanos) {
        self.did(|| PathCall::Timeout { now });
        self.read_path.devices.wake(now);
        self.make_progress(now);
    }

    /// Queues a request for `sectors` sectors from `start` on. Adjacent requests may be merged, but
    /// [`Self::poll_done`] reports each separately.
    ///
    /// # Panics
    ///
    /// If there is no such device, or `sectors` is 0 or exceeds the device's largest request.
    pub fn direct(
        &mut self,
        now: Nanos,
        device: DeviceId,
        start: Sector,
        sectors: Sectors,
        origin: Origin,
    ) -> DirectId {
        self.did(|| PathCall::Direct { now, device, start, sectors, origin });
        let (id, request) = self.direct.begin(now, start, sectors, origin);
        self.read_path.devices.add_request(now, device, request);
        self.gave(|| PathOutput::Direct(id));
        id
    }

    /// Takes the next direct request that has ended.
    pub fn poll_done(&mut self) -> Option<DirectDone> {
        self.did(|| PathCall::PollDone);
        let done = self.direct.pop_done();
        self.gave(|| PathOutput::Done(done));
        done
    }
}
