//! The calls of a path for requests: I/O to start, completions, time, direct requests.
//!
//! In:    a device with room; what of a request has arrived, and what became of it; the time.
//! Out:   device I/O; direct requests that have ended.
//! Never: an error that no caller waits for.

use alloc::vec::Vec;
use core::ops::Range;

use super::IoPath;
use crate::call_log::steps::{PathCall, PathOutput};
use crate::device_queue::payload::PageFill;
use crate::driver_io::{DeviceIo, DirectDone, Fault};
use crate::ids::{DeviceId, DirectId, Tag};
use crate::prefetch::learnt_device::ServedRead;
use crate::prefetch::window_estimator::EndedRead;
use crate::read_path::completion::PageSource;
use crate::sched::{Op, Origin};
use crate::table::Frame;
use crate::trace::EventKind;
use crate::units::{ByteCount, Nanos, Pages, Sector, Sectors};

/// # Requests
impl IoPath {
    /// The next device I/O to start; None when there is none, or no device has room.
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

    /// The pages of a read request that was dispatched and has not completed, without those that
    /// have [arrived](Self::arrived); of a write none.
    ///
    /// # Panics
    ///
    /// If the request is not in flight.
    #[must_use]
    pub fn pages(&self, tag: Tag) -> &[PageFill] {
        self.read_path.devices.in_flight(tag).expected_pages()
    }

    /// Where a read request that was dispatched and has not completed goes, in the order of its
    /// pages: the frames, and which bytes of each. Pages that have [arrived](Self::arrived) are
    /// left out.
    ///
    /// # Panics
    ///
    /// If the request is not in flight.
    pub fn io_parts(&self, tag: Tag) -> impl Iterator<Item = (Frame, Range<usize>)> {
        self.pages(tag).iter().map(|page| (page.filling.frame(), page.part.bytes()))
    }

    /// The frames of a request that was dispatched and has not completed, in the order of its
    /// pages: to read into, or to write from. Pages that have [arrived](Self::arrived) are left
    /// out.
    ///
    /// # Panics
    ///
    /// If the request is not in flight.
    pub fn io_frames(&self, tag: Tag) -> impl Iterator<Item = Frame> {
        let in_flight = self.read_path.devices.in_flight(tag);
        in_flight.request.load.frames().skip(in_flight.arrived_pages)
    }

    /// How much a request that was dispatched and has not completed asks for.
    ///
    /// # Panics
    ///
    /// If the request is not in flight.
    #[must_use]
    pub fn io_len(&self, tag: Tag) -> ByteCount {
        let request = &self.read_path.devices.in_flight(tag).request;
        request.load.len(request.sectors)
    }

    /// Whether no caller waited for any page of a request when it was dispatched.
    ///
    /// # Panics
    ///
    /// If the request is not in flight.
    #[must_use]
    pub fn is_ahead(&self, tag: Tag) -> bool {
        self.read_path.devices.in_flight(tag).request.load.is_ahead
    }

    /// Takes a request in flight that a caller has begun to wait for since it was dispatched, and
    /// its device; each is returned once. A driver whose device can hurry for some requests, by a
    /// second copy of what is late, learns here that what was [read ahead](Self::is_ahead) is waited
    /// for by now. No decision follows from it: a driver need not ask.
    pub fn poll_joined(&mut self) -> Option<(DeviceId, Tag)> {
        self.read_path.devices.take_joined()
    }

    /// The first `bytes` bytes of a read request are in its frames; the rest is still to come.
    ///
    /// Pages that are complete become up to date, and reads that wait for nothing else are ready.
    /// The request stays in flight until [`Self::complete`], whose result counts from its start.
    /// If it fails, the pages that have arrived stay good. To be called as soon as they are there,
    /// whether a reader waits or not: with its last byte a request has been served, and what its
    /// device takes is learnt from that time.
    ///
    /// ```text
    ///   page      0           1           2           3
    ///   |===========|===========|=====......|...........|    after 10000 bytes 0 and 1 are up to
    ///                              ^10000                    date; 2 and 3 are the request's still
    /// ```
    ///
    /// The frames of pages that have arrived are no longer the request's, and may be given to other
    /// pages at any time: the driver must not write to them again. For devices that transfer a
    /// request from its start to its end, such as a network connection.
    ///
    /// # Panics
    ///
    /// If the request is not in flight, reads no pages, or is for fewer bytes.
    ///
    /// # Examples
    ///
    /// The reader of the first page is ready when the first page has come.
    ///
    /// ```
    /// # use foreread_core::geometry::Geometry;
    /// # use foreread_core::path::{Config, IoPath};
    /// # use foreread_core::prefetch::{Policy, Rules};
    /// # use foreread_core::sched::Choice;
    /// # use foreread_core::units::{ByteCount, Nanos};
    /// # let mut path = IoPath::new(Config {
    /// #     memory: ByteCount(16 << 20),
    /// #     policy: Policy::Adaptive,
    /// #     max_window: Config::AUTO_WINDOW,
    /// #     rules: Rules::default(),
    /// # });
    /// # let device = path.add_device(Geometry::new(ByteCount(1 << 30)), &Choice::Noop);
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

    /// A device has done what `tag` asked: so many bytes, or the error number.
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
            let is_good = read_path.end_page(now, source, page, from, (bytes, fault, pages));
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

    /// Whether requests are queued. If [`Self::poll_dispatch`] gives none, the driver has to wait
    /// for completions, or they stay queued.
    #[must_use]
    pub fn is_dispatch_pending(&self) -> bool {
        self.read_path.devices.is_pending()
    }

    /// When [`Self::poll_dispatch`] may give something although nothing was asked and nothing
    /// completed meanwhile: a scheduler waits for that time, or dirty pages are old enough then.
    /// Then call [`Self::timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Nanos> {
        let wake_at = self.read_path.devices.wake_at();
        wake_at.into_iter().chain(self.writeback.next_write_out(&self.read_path)).min()
    }

    /// To be called at the time that [`Self::poll_timeout`] named; too early does no harm.
    pub fn timeout(&mut self, now: Nanos) {
        self.did(|| PathCall::Timeout { now });
        self.read_path.devices.wake(now);
        self.make_progress(now);
    }

    /// Queues a request for `sectors` sectors from `start` on. Neighbours may be merged on the way:
    /// each is told of on its own by [`Self::poll_done`].
    ///
    /// # Panics
    ///
    /// If there is no such device, or if it is for nothing, or for more than the device takes at
    /// once.
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

    /// The next direct request that has ended.
    pub fn poll_done(&mut self) -> Option<DirectDone> {
        self.did(|| PathCall::PollDone);
        let done = self.direct.pop_done();
        self.gave(|| PathOutput::Done(done));
        done
    }
}
