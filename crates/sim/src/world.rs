//! The world of a run: one path, the devices behind it, and the processes that wait for them.
//!
//! In:    requests of processes; events of the clock.
//! Out:   completions for processes; the record and the meters of the run.
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
use foreread_core::sched::{InvalidSetting, Op, Origin, SchedulerKind};
use foreread_core::table::PageTable;
use foreread_core::trace::EventKind;
use foreread_core::units::{ByteCount, Nanos, Pages, Sector, Sectors};

mod devices;
mod series;

use crate::clock::VirtualClock;
use crate::device::{BlockDevice, CommandEnd, DeviceCommand, DeviceParams};
use crate::external_cache::ExternalCache;
use crate::meter::{DeviceMeter, ProcessMeter, RunTotals};
use crate::picture::PictureRecorder;
use crate::read_log::ReadLog;
use crate::record::{RecordMode, RunRecord};
use crate::requested_pages::RequestedByStream;
use crate::slots::{SlotPools, SlotsId};
use crate::task::TaskId;
use crate::time::seconds;
use crate::time_series::SeriesRecorder;

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
    /// The waiting time of a process is over.
    Wake(TaskId),
    /// A device has completed a command.
    Ended(DeviceId, Tag),
    /// The next bytes of a command have arrived, before its end.
    Arrived(DeviceId, CommandEnd, ByteCount),
    /// A device requested to be woken.
    WakeDevice(DeviceId),
    /// Timeout of the path.
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
    pub(crate) external: Option<ExternalCache>,
    pub(crate) read_log: Option<ReadLog>,
    pub(crate) series: Option<Box<SeriesRecorder>>,
    devices: Vec<SimDevice>,
    /// By read index: the waiting process.
    read_waiters: Vec<Option<TaskId>>,
    /// By index of the direct request: its receiver.
    direct_receivers: Vec<Option<DirectReceiver>>,
    /// By process index: a completion that the process has not taken yet.
    completions: Vec<Option<TaskCompletion>>,
    requested: RequestedByStream,
    /// Time of the earliest scheduled `Timeout` event.
    timeout: Option<Nanos>,
}

#[derive(Debug)]
struct SimDevice {
    model: Box<dyn BlockDevice>,
    meter: DeviceMeter,
    /// Time of its earliest scheduled `WakeDevice` event.
    wake_at: Option<Nanos>,
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
            external: None,
            read_log: None,
            series: None,
            devices: Vec::new(),
            read_waiters: Vec::new(),
            direct_receivers: Vec::new(),
            completions: Vec::new(),
            requested: RequestedByStream::default(),
            timeout: None,
        }
    }

    pub(crate) fn add_device(
        &mut self,
        name: &str,
        params: &DeviceParams,
        scheduler: &SchedulerKind,
        run_seed: u64,
    ) -> Result<DeviceId, String> {
        let model = params.build_in(run_seed)?;
        let id = self.path.add_device(params.geometry(), scheduler);
        assert!(id.index() as usize == self.devices.len(), "the path numbers devices from 0");
        self.devices.push(SimDevice { model, meter: DeviceMeter::new(name), wake_at: None });
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
        let id = self.path.open_at(device, start, len)?;
        if let Some(external) = &mut self.external {
            external.open(device.index(), start, id, len);
        }
        Some(id)
    }

    pub(crate) fn set_scheduler(
        &mut self,
        device: DeviceId,
        name: &str,
        value: &str,
    ) -> Result<(), InvalidSetting> {
        self.path.set_scheduler(device, name, value)?;
        self.pump();
        Ok(())
    }

    pub(crate) fn now(&self) -> Nanos {
        self.clock.now()
    }

    /// Makes a process runnable, after those that are runnable already.
    pub(crate) fn wake(&mut self, task: TaskId) {
        self.runnable.push_back(task);
    }

    /// Registers a process as waiting for a read.
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

    /// Handles an event that is due.
    pub(crate) fn handle(&mut self, event: SimEvent) {
        let now = self.now();
        self.advance_series(now);
        match event {
            SimEvent::Wake(task) => self.wake(task),
            SimEvent::Ended(device, tag) => {
                let len = self.path.io_len(tag);
                let SimDevice { model, meter, .. } = &mut self.devices[device.index() as usize];
                meter.ended(now, len);
                let next = model.ended(now, tag);
                self.schedule_end(device, next);
                self.path.complete(now, tag, Ok(len));
                if let Some(external) = &mut self.external {
                    external.filled(tag, &self.table);
                }
                self.pump();
            }
            SimEvent::Arrived(device, end, bytes) => {
                self.path.arrived(now, end.tag, bytes);
                self.schedule_piece(device, end, bytes);
                self.pump();
            }
            SimEvent::WakeDevice(device) => self.wake_device(now, device),
            SimEvent::Timeout => {
                self.timeout = None;
                self.path.timeout(now);
                self.pump();
            }
        }
    }

    /// Processes every output of the path: commands for devices, completions for processes, events
    /// for the record. Must follow each call of the path.
    pub(crate) fn pump(&mut self) {
        let now = self.now();
        if let Some(external) = &mut self.external {
            external.drop_leaving(&mut self.path, now);
        }
        while let Some(io) = self.path.poll_dispatch(now) {
            self.start(now, io);
        }
        self.tell_joined(now);
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
                if let Some(meter) = self.requested.note(stream, &decided) {
                    self.meters[meter].windows += 1;
                    self.meters[meter].window_pages += decided.submitted.0;
                }
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
        self.requested.begin(stream, meter);
        stream
    }

    /// Returns the number of pages requested again, for a stream that reads its file from the start
    /// without gaps.
    pub(crate) fn read_twice(&mut self, stream: StreamId) -> Pages {
        self.requested.of(stream).twice()
    }

    /// Submits a request of the path to its device.
    fn start(&mut self, now: Nanos, io: DeviceIo) {
        debug_assert!(io.offset.0.is_multiple_of(512) && io.len.0.is_multiple_of(512), "{io:?}");
        let (start, sectors) = (Sector(io.offset.0 / 512), Sectors(io.len.0 / 512));
        let is_ahead = io.op == Op::Read && self.path.is_ahead(io.tag);
        let command = DeviceCommand { tag: io.tag, op: io.op, start, sectors, is_ahead };
        let SimDevice { model, meter, .. } = &mut self.devices[io.device.index() as usize];
        meter.started(now, &command);
        if let Some(series) = &mut self.series {
            series.add_request(io.len.0);
        }
        if let Some(external) = &mut self.external
            && io.op == Op::Read
            && !self.path.pages(io.tag).is_empty()
        {
            let bytes = io.offset.0..io.offset.0 + io.len.0;
            external.sent(io.tag, io.device.index(), bytes, is_ahead);
        }
        let end = model.submit(now, command);
        self.schedule_end(io.device, end);
        self.schedule_wake(now, io.device);
    }

    fn schedule_end(&mut self, device: DeviceId, end: Option<CommandEnd>) {
        let Some(mut end) = end else { return };
        // Only reads of pages are notified of partial arrivals.
        end.pieces = end.pieces.filter(|_| !self.path.pages(end.tag).is_empty());
        self.schedule_piece(device, end, ByteCount::ZERO);
    }

    /// Schedules the next piece of a command, or its end after the last piece.
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
            evicted_unread: self.path.cache_stats().evicted_before_use
                + self.external.as_ref().map_or(0, ExternalCache::evicted_unread),
        }
    }

    /// Returns the number of requests sent to all devices.
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

/// Capacity of the path's trace: more events than one call of the path can cause, a read of all
/// frames in requests of a page.
const MAX_EVENTS_PER_CALL: usize = 1 << 20;
