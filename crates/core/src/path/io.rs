//! Between the path and its devices: requests go out, results come back.
//!
//! In:    a device with room; what became of a request.
//! Out:   device I/O; frames that are up to date, written or failed; reads that are ready.
//! Never: an error that no caller waits for. A page read ahead that fails is read again when asked.

use alloc::vec::Vec;
use core::ops::Range;

use super::job::{IoPayload, PageFill, PageRun};
use super::waiters::Waiter;
use super::{DeviceId, DeviceIo, Fault, InFlight, IoPath, ReadReady, Tag};
use crate::cache::Filling;
use crate::replay::{PathCall, PathOutput};
use crate::sched::{Op, Origin, Request};
use crate::table::Frame;
use crate::trace::EventKind;
use crate::units::{ByteCount, Nanos, Pages, Sectors};

impl IoPath {
    /// The next device I/O to start; None when there is none, or no device has room.
    pub fn poll_dispatch(&mut self, now: Nanos) -> Option<DeviceIo> {
        self.log().did(|| PathCall::PollDispatch { now });
        let io = self.next_io(now);
        let Self { cache, flying, .. } = self;
        cache.log().gave(|| {
            let frames = |tag| {
                flying.get(tag).map_or_else(Vec::new, |it| it.request.load.frames().collect())
            };
            PathOutput::Dispatched(io.map(|io| (io, frames(io.tag))))
        });
        io
    }

    fn next_io(&mut self, now: Nanos) -> Option<DeviceIo> {
        while let Some(device) = self.busy.pop_front() {
            let Some(state) = self.devices.get_mut(device) else { continue };
            state.is_busy = false;
            state.limit_writes(now);
            let Some(request) = state.queue.take(now) else {
                self.note_held_back(device);
                continue;
            };
            let (op, start, sectors) = (request.origin.op, request.start, request.sectors);
            if is_awaited(&request) {
                self.watch.begin(now);
            }
            let sent = state.sent(now, op);
            let writes_pages = !request.load.writes.is_empty();
            let command = writes_pages.then(|| self.begin_command(device, request.load.is_fua));
            self.note_busy(device);

            match op {
                Op::Read => self.stats.device_reads += 1,
                Op::Write => self.stats.device_writes += 1,
            }
            self.stats.device_pages += request.load.page_count().0;
            self.stats.device_write_pages += request.load.writes.len() as u64;
            let (fua, len) = (request.load.is_fua, len_of(&request));
            self.trace.push(now, || EventKind::Dispatched { device, op, start, sectors });
            let tag = self.flying.insert(InFlight { device, request, sent, command });
            return Some(DeviceIo { tag, device, op, fua, offset: start.offset(), len });
        }
        None
    }

    /// The pages of a read request that was dispatched and has not completed; of a write none.
    #[must_use]
    pub fn pages(&self, tag: Tag) -> &[PageFill] {
        &self.flying.get(tag).expect("the request is in flight").request.load.pages
    }

    /// Where a read request that was dispatched and has not completed goes, in the order of its
    /// pages: the frames, and which bytes of each.
    pub fn io_parts(&self, tag: Tag) -> impl Iterator<Item = (Frame, Range<usize>)> {
        self.pages(tag).iter().map(|page| (page.filling.frame(), page.part.bytes()))
    }

    /// How much a request that was dispatched and has not completed asks for.
    #[must_use]
    pub fn io_len(&self, tag: Tag) -> ByteCount {
        len_of(&self.flying.get(tag).expect("the request is in flight").request)
    }

    /// Whether no caller waited for any page of a request when it was dispatched.
    #[must_use]
    pub fn is_ahead(&self, tag: Tag) -> bool {
        self.flying.get(tag).expect("the request is in flight").request.load.is_ahead
    }

    /// A device has done what `tag` asked: so many bytes, or the error number.
    pub fn complete(&mut self, now: Nanos, tag: Tag, result: Result<ByteCount, i32>) {
        self.log().did(|| PathCall::Complete { now, tag, result });
        self.clock = now;
        let InFlight { device, mut request, sent, command } =
            self.flying.remove(tag).expect("each tag completes once");
        // Before any wait for it ends.
        let origin = request.origin;
        if let Some(state) = self.devices.get_mut(device) {
            let whose = (origin, request.arrival);
            let has_learnt = state.came_back(now, whose, sent, result, self.watch.now());
            if let Some(disk) = state.disk.filter(|_| has_learnt) {
                self.disks.set(disk, state.useful);
            }
        }
        if is_awaited(&request) {
            self.watch.end();
        }
        let bytes = result.unwrap_or(ByteCount::ZERO);
        let fault = result.err().map_or(Fault::Short, Fault::Io);
        self.end_direct(&mut request.load, request.start, bytes, fault);
        let (start, pages) = (request.start, request.load.pages.len());
        let written = request.load.writes.len();
        let mut good = request.load.written_by(bytes);
        if let Some(command) = command {
            let job = core::mem::take(&mut request.load);
            self.end_write_request(now, device, command, job, result);
        }
        let mut from = Sectors::ZERO;
        for page in request.load.pages {
            let (at, sectors) = (start + from, page.part.sectors());
            if page.is_covered(from, bytes) {
                good += Pages(1);
                self.end_fill(now, page);
            } else if pages > 1
                && self.waiters.is_waited_for(page.filling.frame())
                && self.devices.get(device).is_some()
            {
                self.try_again(now, device, origin, PageRun::again(at, page));
            } else {
                self.fail_fill(now, (device, origin, at), page, fault);
            }
            from += sectors;
        }
        let pages = Pages((pages + written) as u64);
        self.trace.push(now, || EventKind::Completed { device, start, good, pages });
        if let Some(state) = self.devices.get_mut(device) {
            state.in_flight -= 1;
            self.note_busy(device);
        }
        self.admit(now);
    }

    /// Asks once more for one page of a request that failed.
    ///
    /// ```text
    ///   request of several pages   a caller waits for this one   read it once more, alone
    ///                              no caller waits               drop it
    ///   request of one page, or    a caller waits                it gets the error
    ///   the device is removed      no caller waits               drop it
    /// ```
    ///
    /// A reader must not pay for a bad sector in a neighbour that it never asked for.
    pub(super) fn try_again(&mut self, now: Nanos, device: DeviceId, origin: Origin, run: PageRun) {
        self.stats.retries += 1;
        let state =
            self.devices.get_mut(device).expect("only a device that is there is asked again");
        state.queue.add(now, run.request(now, origin));
    }

    /// A fill failed: the page leaves the cache, and its waiters are told.
    pub(super) fn fail(&mut self, filling: Filling, fault: Fault) {
        let frame = filling.frame();
        self.stats.pages_failed += u64::from(self.waiters.is_waited_for(frame));
        self.cache.fill_failed(filling);
        self.wake(frame, Some(fault));
    }

    /// The frame is filled, written, or failed: waiters that wait for nothing else go on.
    pub(super) fn wake(&mut self, frame: Frame, fault: Option<Fault>) {
        while let Some(waiter) = self.waiters.take(frame) {
            let id = match waiter {
                Waiter::Read(id) => id,
                Waiter::Write(id) => {
                    self.wake_write(id, fault);
                    continue;
                }
            };
            let read = self.reads.get_mut(id).expect("a waiting read is not released");
            read.fault = read.fault.or(fault);
            read.wanted.outstanding -= 1;
            if read.wanted.outstanding == 0 {
                self.watch.end();
                if let Some(stream) = self.streams.get_mut(read.stream) {
                    let blocked_ns = self.clock.0.saturating_sub(read.began.0);
                    // Other policies never ask for it.
                    stream.blocked_ns = stream.blocked_ns.saturating_add(blocked_ns);
                }
                self.ready.push_back(ReadReady { id, len: read.len, fault: read.fault });
            }
        }
    }

    /// Whether requests are queued. If [`Self::poll_dispatch`] gives none, the driver has to wait
    /// for completions, or they stay queued.
    #[must_use]
    pub fn is_dispatch_pending(&self) -> bool {
        !self.busy.is_empty() || self.full > 0
    }

    /// Puts a device in the line for dispatch if it has something queued and room for it.
    pub(super) fn note_busy(&mut self, device: DeviceId) {
        let Some(state) = self.devices.get_mut(device) else { return };
        let has_room = state.in_flight < state.geometry.depth;
        let is_full = !has_room && !state.queue.is_empty();
        self.set_full(device, is_full);
        let Some(state) = self.devices.get_mut(device) else { return };
        if !state.is_busy && has_room && !state.queue.is_empty() {
            state.is_busy = true;
            self.busy.push_back(device);
        }
    }

    /// The scheduler gives nothing now although something is queued: it waits for a completion, or
    /// for a time.
    fn note_held_back(&mut self, device: DeviceId) {
        let Some(state) = self.devices.get(device) else { return };
        let is_held_back = !state.queue.is_empty();
        self.set_full(device, is_held_back);
    }

    fn set_full(&mut self, device: DeviceId, is_full: bool) {
        let Some(state) = self.devices.get_mut(device) else { return };
        if is_full != state.is_full {
            state.is_full = is_full;
            self.full = if is_full { self.full + 1 } else { self.full - 1 };
        }
    }

    /// When [`Self::poll_dispatch`] may give something although nothing was asked and nothing
    /// completed meanwhile: a scheduler waits for that time, or dirty pages are old enough then.
    /// Then call [`Self::timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Nanos> {
        // One without room is asked when a request ends, and not before.
        let has_room = |device: &super::DeviceQueue| device.in_flight < device.geometry.depth;
        let waiting = self.devices.iter().filter(|(_, device)| has_room(device));
        let wake_at = waiting.filter_map(|(_, device)| device.wake_at());
        wake_at.chain(self.next_write_out()).min()
    }

    /// To be called at the time that [`Self::poll_timeout`] named; too early does no harm.
    pub fn timeout(&mut self, now: Nanos) {
        self.log().did(|| PathCall::Timeout { now });
        let is_due = |device: &super::DeviceQueue| device.wake_at().is_some_and(|at| at <= now);
        let due = self.devices.iter().filter(|(_, device)| is_due(device)).map(|(id, _)| id);
        for device in due.collect::<Vec<_>>() {
            self.note_busy(device);
        }
        self.admit(now);
    }
}

/// How much a request moves: whole sectors, but for what is written at the end of a file.
fn len_of(request: &Request<IoPayload>) -> ByteCount {
    match request.load.write_len() {
        ByteCount::ZERO => request.sectors.bytes(),
        written => written,
    }
}

/// Whether the end of a request is seen when it comes, although no read waits: so it is with
/// writes, which a flush or a writer's room may wait for, and with direct requests.
fn is_awaited(request: &Request<IoPayload>) -> bool {
    request.origin.op == Op::Write || !request.load.direct.is_empty()
}
