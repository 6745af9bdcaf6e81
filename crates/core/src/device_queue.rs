//! Device queues: requests wait in a scheduler, are dispatched to their devices, and complete.
//!
//! In:    requests for devices; completions; the time.
//! Out:   the next request to dispatch; the payload of a completed one.
//! Never: a page's state. The modules above handle the effect of a completion on frames and
//!        waiters.
//!
//! ```text
//!   add --> scheduler --> take --> in flight --> complete --> (handled above) --> finish
//!             ^             |                       |
//!             |             '-- write depth <-------+-- device model: cost, parallelism
//!             '-- full: no room at the device, or held back
//! ```

mod ahead_queue;
mod in_flight;
mod invariants;
mod joins;
pub(crate) mod payload;
mod queue;
mod seek_meter;
mod write_depth;

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

use self::in_flight::{ArrivedPages, InFlight, ServedRequest};
use self::payload::{IoPayload, PageRun};
pub(crate) use self::queue::DeviceQueue;
pub use self::queue::DeviceState;
use self::queue::largest_request;
use crate::device_model::{LatencyObserver, ObservedSince, SentRequest};
use crate::geometry::Geometry;
use crate::ids::{DeviceId, DeviceKind, DomainCommand, RequestKind, Tag};
use crate::sched::{InvalidSetting, Op, Origin, Request, SchedulerKind};
use crate::slab::Slab;
use crate::units::{ByteCount, Nanos, Sectors};

/// A completed request.
#[derive(Debug)]
pub(crate) struct CompletedRequest {
    pub(crate) device: DeviceId,
    pub(crate) request: Request<IoPayload>,
    pub(crate) command: Option<DomainCommand>,
    /// Number and length of its pages that had arrived before.
    pub(crate) arrived_pages: usize,
    pub(crate) arrived: Sectors,
    pub(crate) served: ServedRequest,
    /// Nanoseconds between its dispatch and its completion.
    pub(crate) ns: u64,
    /// Requests at the device when it was dispatched, including itself.
    pub(crate) depth: u32,
}

/// The queues of all devices of a path.
///
/// A device with queued requests is once in `busy` while it has room, and is counted in `full`
/// while it cannot dispatch any.
#[derive(Debug, Default)]
pub(crate) struct DeviceQueues {
    devices: Slab<DeviceKind, DeviceQueue>,
    in_flight: Slab<RequestKind, InFlight>,
    busy: VecDeque<DeviceId>,
    full: usize,
    /// Requests in flight that a caller has joined since, and that the driver has not polled yet.
    joined: VecDeque<Tag>,
    /// The most recently joined request. It may have been polled or have ended; tags are unique.
    joined_last: Option<Tag>,
    /// Tracks whether a caller waits for devices, in which case completions are observed on time.
    pub(crate) observer: LatencyObserver,
    /// True if read-ahead is deferred while demand reads are queued.
    pub(crate) defers_ahead: bool,
}

impl DeviceQueues {
    pub(crate) fn add(
        &mut self,
        geometry: Geometry,
        scheduler: &SchedulerKind,
        disk: Option<u64>,
    ) -> DeviceId {
        self.devices.insert(DeviceQueue::new(geometry, scheduler, disk))
    }

    /// Removes a device; returns it with its queued requests.
    pub(crate) fn remove(
        &mut self,
        id: DeviceId,
    ) -> Option<(DeviceQueue, Vec<Request<IoPayload>>)> {
        let mut device = self.devices.remove(id)?;
        self.full -= usize::from(device.is_full);
        let queued = device.drain();
        Some((device, queued))
    }

    /// Returns true if no device was ever added.
    pub(crate) fn is_untouched(&self) -> bool {
        self.devices.is_untouched()
    }

    pub(crate) fn get(&self, id: DeviceId) -> Option<&DeviceQueue> {
        self.devices.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: DeviceId) -> Option<&mut DeviceQueue> {
        self.devices.get_mut(id)
    }

    /// Returns the device of an open file.
    pub(crate) fn of_file(&self, id: DeviceId) -> &DeviceQueue {
        self.devices.get(id).expect("a device with open files is not removed")
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (DeviceId, &DeviceQueue)> {
        self.devices.iter()
    }

    /// Queues requests for runs of pages of an open file.
    pub(crate) fn add_runs(
        &mut self,
        now: Nanos,
        device: DeviceId,
        runs: Vec<PageRun>,
        origin: Origin,
    ) {
        let state = self.devices.get_mut(device).expect("a device with open files is not removed");
        for run in runs {
            let request = run.request(now, origin);
            if self.defers_ahead && request.load.is_ahead {
                state.add_ahead(request);
            } else {
                state.queue.add(now, request);
            }
        }
        self.note_busy(device);
    }

    /// Queues a request.
    pub(crate) fn add_request(
        &mut self,
        now: Nanos,
        device: DeviceId,
        request: Request<IoPayload>,
    ) {
        self.add_request_quietly(now, device, request);
        self.note_busy(device);
    }

    /// Queues a request; the caller then has to call [`Self::note_busy`] or [`Self::finish`].
    pub(crate) fn add_request_quietly(
        &mut self,
        now: Nanos,
        device: DeviceId,
        request: Request<IoPayload>,
    ) {
        let state =
            self.devices.get_mut(device).expect("the caller names a device that is not removed");
        assert!(request.sectors > Sectors::ZERO, "a request moves at least one sector");
        debug_assert!(request.load.has_one_kind(), "a request reads pages, or writes, or neither");
        state.queue.add(now, request);
    }

    /// Takes the next request from a device with room for it.
    pub(crate) fn take(
        &mut self,
        now: Nanos,
    ) -> Option<(DeviceId, Request<IoPayload>, SentRequest)> {
        while let Some(id) = self.busy.pop_front() {
            let Some(device) = self.devices.get_mut(id) else { continue };
            assert!(device.has_room(), "a device in line has room");
            assert!(device.is_busy, "a device is in line once");
            device.is_busy = false;
            let Some(request) = device.take(now) else {
                self.note_held_back(id);
                continue;
            };
            if is_awaited(&request) {
                self.observer.begin(now);
            }
            let device = self.devices.get_mut(id).expect("a device that gave a request is there");
            let sent = device.sent(now, &request);
            self.note_busy(id);
            return Some((id, request, sent));
        }
        None
    }

    /// Dispatches a request that was taken from its queue.
    pub(crate) fn start(
        &mut self,
        device: DeviceId,
        request: Request<IoPayload>,
        sent: SentRequest,
        command: Option<DomainCommand>,
    ) -> Tag {
        let is_write = request.origin.op == Op::Write;
        assert!(command.is_none() || is_write, "only writes are commands of a flush domain");
        let depth = self.devices.get(device).map_or(1, DeviceQueue::at_device);
        self.in_flight.insert(InFlight::new(device, request, sent, depth, command))
    }

    /// Returns a request in flight.
    pub(crate) fn in_flight(&self, tag: Tag) -> &InFlight {
        self.in_flight.get(tag).expect("the caller names a request that is in flight")
    }

    /// Returns a request if it is in flight.
    pub(crate) fn find(&self, tag: Tag) -> Option<&InFlight> {
        self.in_flight.get(tag)
    }

    /// Records that the first `bytes` bytes of a read request have arrived. Returns the pages
    /// completed by them.
    ///
    /// The last byte ends the device's service of the request. Its reader may take that byte and
    /// continue before the driver reports the completion: no reader waits at that time, so the
    /// completion itself would not be a valid sample.
    ///
    /// ```text
    ///   device    |== latency ==|byte byte byte|
    ///   reader    |---waits-------------------|  (works, or asks for more)
    ///   driver                   arrived      arrived   complete
    ///                                         ^ served, and observed
    /// ```
    pub(crate) fn arrived(&mut self, now: Nanos, tag: Tag, bytes: ByteCount) -> ArrivedPages {
        let in_flight =
            self.in_flight.get_mut(tag).expect("the caller names a request that is in flight");
        assert!(in_flight.can_arrive(bytes), "{bytes:?} cannot have arrived for {tag:?}");
        let pages = in_flight.arrive(bytes);
        if in_flight.is_newly_served() {
            in_flight.served = Some(ServedRequest { at: now, is_seen: true });
            if let Some(queue) = self.devices.get_mut(in_flight.device) {
                let observed = Some(ObservedSince::ALWAYS);
                queue.completed(now, &in_flight.request, in_flight.sent, Ok(bytes), observed);
            }
        }
        pages
    }

    /// Completes a request. It keeps its slot at the device until [`Self::finish`].
    pub(crate) fn complete(
        &mut self,
        now: Nanos,
        tag: Tag,
        result: Result<ByteCount, i32>,
    ) -> CompletedRequest {
        let in_flight = self.in_flight.remove(tag).expect("each tag completes once");
        assert!(in_flight.can_complete(result), "{result:?} is less than has arrived for {tag:?}");
        self.forget_joined(tag, &in_flight);
        let InFlight { device, request, sent, depth, command, arrived_pages, arrived, .. } =
            in_flight;
        let before = in_flight.served;
        // Sample this before the request's own wait ends.
        let observed: Option<ObservedSince> = self.observer.now();
        if let Some(queue) = self.devices.get_mut(device).filter(|_| before.is_none()) {
            queue.completed(now, &request, sent, result, observed);
        }
        if is_awaited(&request) {
            self.observer.end();
        }
        let now = ServedRequest { at: now, is_seen: sent.is_seen(now, observed) };
        let served = before.unwrap_or(now);
        let ns = sent.ns_until(served.at);
        CompletedRequest { device, request, command, arrived_pages, arrived, served, ns, depth }
    }

    /// Frees the slot of a completed request once its completion has been handled.
    pub(crate) fn finish(&mut self, device: DeviceId) {
        if let Some(queue) = self.devices.get_mut(device) {
            queue.release_slot();
            self.note_busy(device);
        }
    }

    /// Notes that a flush or a write begins or ceases to wait for this device's writes. Writes held
    /// back for an expected read are dispatched when such a wait begins.
    pub(crate) fn set_awaited(&mut self, id: DeviceId, begins: bool) {
        let Some(device) = self.devices.get_mut(id) else { return };
        device.set_awaited(begins);
        if begins {
            self.note_busy(id);
        }
    }

    /// Returns true if requests are queued, with or without room for them.
    pub(crate) fn is_pending(&self) -> bool {
        !self.busy.is_empty() || self.full > 0
    }

    /// Puts a device in line for dispatch if it has both queued requests and room.
    pub(crate) fn note_busy(&mut self, id: DeviceId) {
        let Some(device) = self.devices.get_mut(id) else { return };
        let (has_room, is_queued) = (device.has_room(), !device.is_queue_empty());
        if !device.is_busy && has_room && is_queued {
            device.is_busy = true;
            debug_assert!(!self.busy.contains(&id), "{id:?} is in line twice");
            self.busy.push_back(id);
        }
        self.set_full(id, !has_room && is_queued);
    }

    /// Notes that the scheduler returns none of its queued requests because it waits for a
    /// completion or a time.
    fn note_held_back(&mut self, id: DeviceId) {
        let is_held_back = self.devices.get(id).is_some_and(|device| !device.is_queue_empty());
        self.set_full(id, is_held_back);
    }

    fn set_full(&mut self, id: DeviceId, is_full: bool) {
        let Some(device) = self.devices.get_mut(id) else { return };
        if is_full != device.is_full {
            device.is_full = is_full;
            self.full = if is_full { self.full + 1 } else { self.full - 1 };
            debug_assert!(self.full <= self.devices.len(), "a device is counted as full twice");
        }
    }

    /// Returns the time at which a scheduler may dispatch without a new request or completion.
    pub(crate) fn wake_at(&self) -> Option<Nanos> {
        // A device without room cannot dispatch before one of its requests ends.
        let waiting = self.devices.iter().filter(|(_, device)| device.has_room());
        waiting.filter_map(|(_, device)| device.wake_at()).min()
    }

    /// Puts the devices in line for dispatch that waited for this time.
    pub(crate) fn wake(&mut self, now: Nanos) {
        let is_due = |device: &DeviceQueue| device.wake_at().is_some_and(|at| at <= now);
        let due = self.devices.iter().filter(|(_, device)| is_due(device)).map(|(id, _)| id);
        for device in due.collect::<Vec<_>>() {
            self.note_busy(device);
        }
    }

    pub(crate) fn state(&self, id: DeviceId) -> Option<DeviceState> {
        Some(self.devices.get(id)?.state())
    }

    pub(crate) fn scheduler_settings(&self, id: DeviceId) -> Vec<(&'static str, String)> {
        self.devices.get(id).map_or_else(Vec::new, DeviceQueue::scheduler_settings)
    }

    /// Changes a setting of a device's scheduler, or with `scheduler` replaces it.
    pub(crate) fn set_scheduler(
        &mut self,
        id: DeviceId,
        name: &str,
        value: &str,
    ) -> Result<(), InvalidSetting> {
        if name == "scheduler" {
            return self.exchange_scheduler(id, value);
        }
        let Some(device) = self.devices.get_mut(id) else { return Ok(()) };
        device.queue.set(name, value)?;
        self.note_busy(id);
        Ok(())
    }

    /// Replaces a device's scheduler while it is in use. Queued requests move with their age;
    /// requests in flight will complete in the new scheduler. A scheduler of the same name is kept
    /// with its settings.
    fn exchange_scheduler(&mut self, id: DeviceId, name: &str) -> Result<(), InvalidSetting> {
        let choice = SchedulerKind::for_device(name)?;
        let Some(device) = self.devices.get_mut(id) else { return Ok(()) };
        if device.queue.tunables().0 == choice.name() {
            return Ok(());
        }
        let queued = [Op::Read, Op::Write].map(|op| device.queue.queued(op));
        let mut queue = choice.queue(largest_request(&device.geometry));
        for (_, other) in self.in_flight.iter().filter(|(_, other)| other.device == id) {
            queue.adopt(other.request.origin, other.request.arrival);
        }
        let mut requests = device.queue.drain();
        requests.sort_by_key(|request| request.arrival);
        for request in requests {
            queue.add(request.arrival, request);
        }
        assert!(device.queue.is_empty(), "a scheduler that is drained has nothing left");
        let is_empty = queued == [0; 2];
        assert!(queue.is_empty() == is_empty, "what was queued is queued in the new scheduler");
        device.queue = queue;
        self.note_busy(id);
        Ok(())
    }
}

/// Returns true if the request's completion is observed on time although no read waits. This is so
/// for writes, because a flush or the dirty budget may wait for them, and for direct requests.
fn is_awaited(request: &Request<IoPayload>) -> bool {
    request.origin.op == Op::Write || !request.load.direct.is_empty()
}
