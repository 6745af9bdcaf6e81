//! The world of a run: one path, the devices behind it, and the processes that wait for them.
//!
//! In:    requests of processes; events of the clock.
//! Out:   completions for processes; the record and the meters of the run.
//! Never: the future of a process: `run` polls those.
//!
//! ```text
//!   process --read, direct--> path --poll_dispatch--> device model --CommandEnd--> clock
//!      ^                        |                                                    |
//!      '----- poll_ready -------+<------------------- complete ----------------------'
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use foreread_core::path::{
    Config, DeviceId, DeviceIo, DirectDone, DirectId, FileId, IoPath, ReadId, ReadReady, StreamId,
    Tag,
};
use foreread_core::prefetch::Decided;
use foreread_core::sched::{BadSetting, Choice, Op, Origin};
use foreread_core::table::PageTable;
use foreread_core::trace::EventKind;
use foreread_core::units::{ByteCount, Nanos, PageIndex, Pages, Sector, Sectors};

use crate::clock::VirtualClock;
use crate::device::{BlockDevice, CommandEnd, DeviceCommand, DeviceParams};
use crate::meter::{DeviceMeter, ProcessMeter, RunTotals};
use crate::picture::PictureRecorder;
use crate::record::{RecordMode, RunRecord};
use crate::slots::{SlotPools, SlotsId};
use crate::task::TaskId;
use crate::time::seconds;

/// The completion of the request that a process waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TaskCompletion {
    Read(ReadReady),
    Direct(DirectDone),
}

/// The receiver of a direct request's completion.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DirectReceiver {
    Process(TaskId),
    Slots(SlotsId),
}

/// An event of virtual time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SimEvent {
    /// A process has waited until this time.
    Wake(TaskId),
    /// A device has ended a command.
    Ended(DeviceId, Tag),
    /// So many bytes of a command have come, before its end.
    Arrived(DeviceId, CommandEnd, ByteCount),
    /// The path's timeout.
    Timeout,
}

#[derive(Debug)]
pub(crate) struct SimWorld {
    pub(crate) path: IoPath,
    pub(crate) table: Arc<PageTable>,
    pub(crate) clock: VirtualClock<SimEvent>,
    pub(crate) record: RunRecord,
    pub(crate) meters: Vec<ProcessMeter>,
    pub(crate) runnable: VecDeque<TaskId>,
    pub(crate) slots: SlotPools,
    pub(crate) picture: Option<Box<PictureRecorder>>,
    devices: Vec<SimDevice>,
    /// By the index of the read: the process that waits for it.
    read_waiters: Vec<Option<TaskId>>,
    /// By the index of the direct request.
    direct_receivers: Vec<Option<DirectReceiver>>,
    /// By the index of the process: a completion that it has not taken.
    completions: Vec<Option<TaskCompletion>>,
    /// By the index of the stream.
    requested: Vec<RequestedPages>,
    /// The time of the earliest scheduled `Timeout` event.
    timeout: Option<Nanos>,
}

#[derive(Debug)]
struct SimDevice {
    model: Box<dyn BlockDevice>,
    meter: DeviceMeter,
}

/// The pages that the decisions for a stream have requested from its device.
#[derive(Clone, Copy, Debug, Default)]
struct RequestedPages {
    pages: Pages,
    /// One past the furthest of them.
    end: PageIndex,
    /// The meter of the process that opened the stream.
    meter: usize,
}

impl SimWorld {
    pub(crate) fn new(config: Config, mode: RecordMode) -> Self {
        let mut path = IoPath::new(config);
        path.set_trace(MAX_EVENTS_PER_CALL);
        if mode == RecordMode::Log {
            path.record(usize::MAX);
        }
        Self {
            table: path.table(),
            path,
            clock: VirtualClock::new(),
            record: RunRecord::new(mode),
            meters: Vec::new(),
            runnable: VecDeque::new(),
            slots: SlotPools::default(),
            picture: None,
            devices: Vec::new(),
            read_waiters: Vec::new(),
            direct_receivers: Vec::new(),
            completions: Vec::new(),
            requested: Vec::new(),
            timeout: None,
        }
    }

    pub(crate) fn add_device(
        &mut self,
        name: &str,
        params: &DeviceParams,
        scheduler: &Choice,
    ) -> Result<DeviceId, String> {
        let model = params.build()?;
        let id = self.path.add_device(params.geometry(), scheduler);
        assert!(id.index() as usize == self.devices.len(), "the path numbers devices from 0");
        self.devices.push(SimDevice { model, meter: DeviceMeter::new(name) });
        Ok(id)
    }

    pub(crate) fn change_device(
        &mut self,
        device: DeviceId,
        at: Nanos,
        to: &DeviceParams,
    ) -> Result<(), String> {
        self.devices[device.index() as usize].model.change(at, to)
    }

    pub(crate) fn open(
        &mut self,
        device: DeviceId,
        start: Sector,
        len: ByteCount,
    ) -> Option<FileId> {
        self.path.open_at(device, start, len)
    }

    pub(crate) fn set_scheduler(
        &mut self,
        device: DeviceId,
        name: &str,
        value: &str,
    ) -> Result<(), BadSetting> {
        self.path.set_scheduler(device, name, value)?;
        self.pump();
        Ok(())
    }

    pub(crate) fn now(&self) -> Nanos {
        self.clock.now()
    }

    /// Lets a process continue, after those that became runnable before it.
    pub(crate) fn wake(&mut self, task: TaskId) {
        self.runnable.push_back(task);
    }

    /// Notes that a process waits for a read.
    pub(crate) fn wait_for_read(&mut self, id: ReadId, task: TaskId) {
        put(&mut self.read_waiters, id.index(), task);
    }

    pub(crate) fn take_completion(&mut self, task: TaskId) -> Option<TaskCompletion> {
        self.completions.get_mut(task.0)?.take()
    }

    pub(crate) fn direct(
        &mut self,
        device: DeviceId,
        start: Sector,
        sectors: Sectors,
        origin: Origin,
        receiver: DirectReceiver,
    ) -> DirectId {
        let id = self.path.direct(self.now(), device, start, sectors, origin);
        put(&mut self.direct_receivers, id.index(), receiver);
        self.pump();
        id
    }

    pub(crate) fn free_slot(&mut self, id: SlotsId) {
        if let Some(task) = self.slots.free(id) {
            self.wake(task);
        }
    }

    /// Handles an event whose time has come.
    pub(crate) fn handle(&mut self, event: SimEvent) {
        let now = self.now();
        match event {
            SimEvent::Wake(task) => self.wake(task),
            SimEvent::Ended(device, tag) => {
                let SimDevice { model, meter } = &mut self.devices[device.index() as usize];
                meter.ended(now, tag);
                let next = model.ended(now, tag);
                self.schedule_end(device, next);
                let len = self.path.io_len(tag);
                self.path.complete(now, tag, Ok(len));
                self.pump();
            }
            SimEvent::Arrived(device, end, bytes) => {
                self.path.arrived(now, end.tag, bytes);
                self.schedule_piece(device, end, bytes);
                self.pump();
            }
            SimEvent::Timeout => {
                self.timeout = None;
                self.path.timeout(now);
                self.pump();
            }
        }
    }

    /// Takes every output of the path: commands for devices, completions for processes, events for
    /// the record. Each call of the path is followed by this one.
    pub(crate) fn pump(&mut self) {
        let now = self.now();
        while let Some(io) = self.path.poll_dispatch(now) {
            self.start(now, io);
        }
        while let Some(ready) = self.path.poll_ready() {
            let task = self.read_waiters[ready.id.index() as usize].take();
            let task = task.expect("wait_for_read was called for each read");
            self.complete(task, TaskCompletion::Read(ready));
        }
        while let Some(done) = self.path.poll_done() {
            let receiver = self.direct_receivers[done.id.index() as usize].take();
            match receiver.expect("`direct` notes a receiver for each request") {
                DirectReceiver::Process(task) => self.complete(task, TaskCompletion::Direct(done)),
                DirectReceiver::Slots(slots) => self.free_slot(slots),
            }
        }
        while let Some(event) = self.path.poll_trace() {
            self.record.path(&event);
            if let EventKind::Decided { stream, decided } = event.what {
                self.note_requested(stream, &decided);
                if let Some(picture) = &mut self.picture {
                    picture.decided(now, stream, &decided, &self.table);
                }
            }
        }
        assert!(self.path.trace_lost() == 0, "MAX_EVENTS_PER_CALL is too small");
        self.schedule_timeout(now);
    }

    pub(crate) fn new_stream(&mut self, file: FileId, meter: usize) -> StreamId {
        assert!(meter < self.meters.len(), "the meter of a process");
        let stream = self.path.stream(file);
        *self.requested_by(stream) = RequestedPages { meter, ..RequestedPages::default() };
        stream
    }

    fn note_requested(&mut self, stream: StreamId, decided: &Decided) {
        if decided.submitted > Pages::ZERO {
            let requested = self.requested_by(stream);
            requested.pages += decided.submitted;
            requested.end = requested.end.max(decided.decision.window.end());
            let meter = requested.meter;
            self.meters[meter].windows += 1;
            self.meters[meter].window_pages += decided.submitted.0;
        }
    }

    /// Returns how many pages were requested again, for a stream that reads from the start of its
    /// file and leaves no page out.
    ///
    /// ```text
    ///   |=====|=========|===============|       requested: the sum of all windows
    ///            |~~~~~~|                       requested again
    ///   |<------------ end ------------>|       requested, if each page were requested once
    /// ```
    pub(crate) fn read_twice(&mut self, stream: StreamId) -> Pages {
        let RequestedPages { pages, end, .. } = *self.requested_by(stream);
        pages.saturating_sub(end - PageIndex(0))
    }

    fn requested_by(&mut self, stream: StreamId) -> &mut RequestedPages {
        let index = stream.index() as usize;
        self.requested.resize(self.requested.len().max(index + 1), RequestedPages::default());
        &mut self.requested[index]
    }

    /// Submits a request of the path to its device.
    fn start(&mut self, now: Nanos, io: DeviceIo) {
        debug_assert!(io.offset.0.is_multiple_of(512) && io.len.0.is_multiple_of(512), "{io:?}");
        let start = Sector(io.offset.0 / 512);
        let sectors = Sectors(io.len.0 / 512);
        let command = DeviceCommand { tag: io.tag, op: io.op, start, sectors };
        let SimDevice { model, meter } = &mut self.devices[io.device.index() as usize];
        meter.started(now, &command);
        // Only reads of pages are told of what has come.
        let has_pages = !self.path.pages(io.tag).is_empty();
        let end = model.submit(now, command);
        let end = end.map(|end| CommandEnd { pieces: end.pieces.filter(|_| has_pages), ..end });
        self.schedule_end(io.device, end);
    }

    fn schedule_end(&mut self, device: DeviceId, end: Option<CommandEnd>) {
        if let Some(end) = end {
            self.schedule_piece(device, end, ByteCount::ZERO);
        }
    }

    /// The end of a command comes after its last piece.
    fn schedule_piece(&mut self, device: DeviceId, end: CommandEnd, arrived: ByteCount) {
        match end.next_piece(arrived) {
            Some((bytes, at)) => self.clock.schedule(at, SimEvent::Arrived(device, end, bytes)),
            None => self.clock.schedule(end.at, SimEvent::Ended(device, end.tag)),
        }
    }

    fn schedule_timeout(&mut self, now: Nanos) {
        let Some(at) = self.path.poll_timeout() else { return };
        if self.timeout.is_none_or(|scheduled| at < scheduled) {
            self.timeout = Some(at);
            self.clock.schedule(at.max(now), SimEvent::Timeout);
        }
    }

    fn complete(&mut self, task: TaskId, completion: TaskCompletion) {
        let completions = &mut self.completions;
        completions.resize(completions.len().max(task.0 + 1), None);
        assert!(completions[task.0].is_none(), "a process waits for one request at a time");
        completions[task.0] = Some(completion);
        self.runnable.push_back(task);
    }

    pub(crate) fn device_meters(&self) -> impl Iterator<Item = &DeviceMeter> {
        self.devices.iter().map(|device| &device.meter)
    }

    pub(crate) fn totals(&self) -> RunTotals {
        let now = self.now();
        let device_bytes = |meter: &DeviceMeter| meter.bytes(Op::Read).0 + meter.bytes(Op::Write).0;
        RunTotals {
            at: now,
            requests: self.requests(),
            device_bytes: self.device_meters().map(device_bytes).sum(),
            device_s: self.device_meters().map(|meter| meter.busy_seconds(now)).sum(),
            processes: self.meters.iter().map(ProcessMeter::totals).collect(),
            waited_s: self.meters.iter().map(|meter| seconds(meter.waited_ns)).sum(),
            evicted_unread: self.path.cache_stats().evicted_before_use,
        }
    }

    /// Returns the number of requests that all devices were sent.
    pub(crate) fn requests(&self) -> u64 {
        let requests = |meter: &DeviceMeter| meter.requests(Op::Read) + meter.requests(Op::Write);
        self.device_meters().map(requests).sum()
    }
}

fn put<T: Copy>(values: &mut Vec<Option<T>>, index: u32, value: T) {
    let index = index as usize;
    values.resize(values.len().max(index + 1), None);
    assert!(values[index].is_none(), "an index is reused only after its request has ended");
    values[index] = Some(value);
}

/// The capacity of the path's trace: more events than one call of the path can cause, which is a
/// read of all frames in requests of a page.
const MAX_EVENTS_PER_CALL: usize = 1 << 20;
