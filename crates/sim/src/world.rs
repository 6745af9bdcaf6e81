//! The world of a run: one path, the devices behind it, and the processes that wait for them.
//!
//! In:    what processes ask; what comes with the time.
//! Out:   answers for them.
//! Never: a process; `run` and `process` have them.
//!
//! ```text
//!   process --read, direct--> path --poll_dispatch--> device model --Ending--> clock
//!      ^                        |                                                |
//!      '----- poll_ready -------+<----------------- complete --------------------'
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
use crate::meter::{DeviceMeter, ProcessMeter, RunTotals, seconds};
use crate::record::{RecordMode, RunRecord};

/// Names a process.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct TaskId(pub(crate) usize);

/// What a process waited for.
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

/// Names a number of places, of which each request in flight takes one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SlotsId(usize);

#[derive(Debug)]
pub(crate) struct SimWorld {
    pub(crate) path: IoPath,
    pub(crate) table: Arc<PageTable>,
    pub(crate) clock: VirtualClock<SimEvent>,
    pub(crate) record: RunRecord,
    pub(crate) meters: Vec<ProcessMeter>,
    pub(crate) runnable: VecDeque<TaskId>,
    disks: Vec<SimDevice>,
    /// By the index of the read: the task that waits.
    reading: Vec<Option<TaskId>>,
    /// By the index of the direct request: the receiver of its completion.
    telling: Vec<Option<DirectReceiver>>,
    answers: Vec<Option<TaskCompletion>>,
    slots: Vec<Slots>,
    /// By the index of the stream.
    asked: Vec<RequestedPages>,
    /// When the path wants to be asked again, if that is on the clock.
    timeout: Option<Nanos>,
}

/// What comes with the time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SimEvent {
    Wake(TaskId),
    Ended(DeviceId, Tag),
    Timeout,
}

#[derive(Debug)]
struct SimDevice {
    model: Box<dyn BlockDevice>,
    meter: DeviceMeter,
}

/// What a stream's decisions asked the device for.
#[derive(Clone, Copy, Debug, Default)]
struct RequestedPages {
    pages: Pages,
    /// One past the furthest of them.
    end: PageIndex,
    /// The meter of the process that opened it.
    meter: usize,
}

#[derive(Debug)]
struct Slots {
    free: u32,
    waiting: VecDeque<TaskId>,
}

impl SimWorld {
    pub(crate) fn new(config: Config, keep: RecordMode) -> Self {
        let mut path = IoPath::new(config);
        path.set_trace(EVENTS_AT_ONCE);
        if keep == RecordMode::Log {
            path.record(usize::MAX);
        }
        Self {
            table: path.table(),
            path,
            clock: VirtualClock::new(),
            record: RunRecord::new(keep),
            meters: Vec::new(),
            runnable: VecDeque::new(),
            disks: Vec::new(),
            reading: Vec::new(),
            telling: Vec::new(),
            answers: Vec::new(),
            slots: Vec::new(),
            asked: Vec::new(),
            timeout: None,
        }
    }

    pub(crate) fn add_device(
        &mut self,
        name: &str,
        model: &DeviceParams,
        scheduler: &Choice,
    ) -> Result<DeviceId, String> {
        let device = model.build()?;
        let id = self.path.add_device(model.geometry(), scheduler);
        assert!(id.index() as usize == self.disks.len(), "devices stay");
        self.disks.push(SimDevice { model: device, meter: DeviceMeter::new(name) });
        Ok(id)
    }

    pub(crate) fn change_device(
        &mut self,
        device: DeviceId,
        at: Nanos,
        to: &DeviceParams,
    ) -> Result<(), String> {
        self.disks[device.index() as usize].model.change(at, to)
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

    pub(crate) fn wake(&mut self, task: TaskId) {
        self.runnable.push_back(task);
    }

    pub(crate) fn expect_read(&mut self, id: ReadId, task: TaskId) {
        put(&mut self.reading, id.index(), task);
    }

    pub(crate) fn take_answer(&mut self, task: TaskId) -> Option<TaskCompletion> {
        self.answers.get_mut(task.0)?.take()
    }

    pub(crate) fn direct(
        &mut self,
        device: DeviceId,
        start: Sector,
        sectors: Sectors,
        origin: Origin,
        tell: DirectReceiver,
    ) -> DirectId {
        let id = self.path.direct(self.now(), device, start, sectors, origin);
        put(&mut self.telling, id.index(), tell);
        self.pump();
        id
    }

    pub(crate) fn new_slots(&mut self, free: u32) -> SlotsId {
        self.slots.push(Slots { free, waiting: VecDeque::new() });
        SlotsId(self.slots.len() - 1)
    }

    /// Takes a place; if there is none, the process is woken when one comes free, and asks again.
    pub(crate) fn take_slot(&mut self, id: SlotsId, task: TaskId) -> bool {
        let slots = &mut self.slots[id.0];
        if slots.free == 0 {
            slots.waiting.push_back(task);
            return false;
        }
        slots.free -= 1;
        true
    }

    pub(crate) fn free_slot(&mut self, id: SlotsId) {
        let slots = &mut self.slots[id.0];
        slots.free += 1;
        if let Some(task) = slots.waiting.pop_front() {
            self.wake(task);
        }
    }

    /// Does what has come.
    pub(crate) fn arrive(&mut self, coming: SimEvent) {
        let now = self.now();
        match coming {
            SimEvent::Wake(task) => self.wake(task),
            SimEvent::Ended(device, tag) => {
                let disk = &mut self.disks[device.index() as usize];
                disk.meter.ended(now, tag);
                let next = disk.model.ended(now, tag);
                self.note(device, next);
                let len = self.path.io_len(tag);
                self.path.complete(now, tag, Ok(len));
                self.pump();
            }
            SimEvent::Timeout => {
                self.timeout = None;
                self.path.timeout(now);
                self.pump();
            }
        }
    }

    /// Lets the path say all that it has to say: to devices, to processes, to the record.
    pub(crate) fn pump(&mut self) {
        let now = self.now();
        while let Some(io) = self.path.poll_dispatch(now) {
            self.start(now, io);
        }
        while let Some(ready) = self.path.poll_ready() {
            let task = self.reading[ready.id.index() as usize].take();
            self.answer(task.expect("a task waits for each read"), TaskCompletion::Read(ready));
        }
        while let Some(done) = self.path.poll_done() {
            match self.telling[done.id.index() as usize]
                .take()
                .expect("each request has a receiver")
            {
                DirectReceiver::Process(task) => self.answer(task, TaskCompletion::Direct(done)),
                DirectReceiver::Slots(slots) => self.free_slot(slots),
            }
        }
        while let Some(event) = self.path.poll_trace() {
            self.record.path(&event);
            if let EventKind::Decided { stream, decided } = event.what {
                self.note_asked(stream, &decided);
            }
        }
        assert!(self.path.trace_lost() == 0, "no more events at once than there is room for");
        self.note_timeout(now);
    }

    pub(crate) fn new_stream(&mut self, file: FileId, meter: usize) -> StreamId {
        let stream = self.path.stream(file);
        *self.asked_by(stream) = RequestedPages { meter, ..RequestedPages::default() };
        stream
    }

    fn note_asked(&mut self, stream: StreamId, decided: &Decided) {
        if decided.submitted > Pages::ZERO {
            let asked = self.asked_by(stream);
            asked.pages += decided.submitted;
            asked.end = asked.end.max(decided.decision.window.end());
            let meter = asked.meter;
            self.meters[meter].windows += 1;
            self.meters[meter].window_pages += decided.submitted.0;
        }
    }

    /// How many pages a stream that began at the start of its file, and left none out, asked for
    /// although it had asked for them before.
    ///
    /// ```text
    ///   |=====|=========|===============|       asked for: the sum of all
    ///            |~~~~~~|                       asked for again
    ///   |<------------ end ------------>|       what it would have been once
    /// ```
    pub(crate) fn read_twice(&mut self, stream: StreamId) -> Pages {
        let RequestedPages { pages, end, .. } = *self.asked_by(stream);
        pages.saturating_sub(end - PageIndex(0))
    }

    fn asked_by(&mut self, stream: StreamId) -> &mut RequestedPages {
        let index = stream.index() as usize;
        self.asked.resize(self.asked.len().max(index + 1), RequestedPages::default());
        &mut self.asked[index]
    }

    fn start(&mut self, now: Nanos, io: DeviceIo) {
        let start = Sector(io.offset.0 / 512);
        let command =
            DeviceCommand { tag: io.tag, op: io.op, start, sectors: Sectors(io.len.0 / 512) };
        let disk = &mut self.disks[io.device.index() as usize];
        disk.meter.started(now, &command);
        let ending = disk.model.submit(now, command);
        self.note(io.device, ending);
    }

    fn note(&mut self, device: DeviceId, ending: Option<CommandEnd>) {
        if let Some(CommandEnd { at, tag }) = ending {
            self.clock.say(at, SimEvent::Ended(device, tag));
        }
    }

    fn note_timeout(&mut self, now: Nanos) {
        let Some(at) = self.path.poll_timeout() else { return };
        if self.timeout.is_none_or(|said| at < said) {
            self.timeout = Some(at);
            self.clock.say(at.max(now), SimEvent::Timeout);
        }
    }

    fn answer(&mut self, task: TaskId, answer: TaskCompletion) {
        let answers = &mut self.answers;
        answers.resize(answers.len().max(task.0 + 1), None);
        assert!(answers[task.0].is_none(), "a process waits for one thing at a time");
        answers[task.0] = Some(answer);
        self.runnable.push_back(task);
    }

    pub(crate) fn device_meters(&self) -> impl Iterator<Item = &DeviceMeter> {
        self.disks.iter().map(|disk| &disk.meter)
    }

    pub(crate) fn totals(&self) -> RunTotals {
        let now = self.now();
        let both = |of: fn(&DeviceMeter, Op) -> u64| -> u64 {
            let sums = self.device_meters().map(|meter| of(meter, Op::Read) + of(meter, Op::Write));
            sums.sum()
        };
        RunTotals {
            at: now,
            requests: both(DeviceMeter::requests),
            device_bytes: both(|meter, op| meter.bytes(op).0),
            device_s: self.device_meters().map(|meter| meter.busy_seconds(now)).sum(),
            processes: self.meters.iter().map(ProcessMeter::done).collect(),
            waited_s: self.meters.iter().map(|meter| seconds(meter.waited_ns)).sum(),
            evicted_unread: self.path.cache_stats().evicted_before_use,
        }
    }

    /// How many requests all devices were sent.
    pub(crate) fn requests(&self) -> u64 {
        self.disks
            .iter()
            .map(|disk| disk.meter.requests(Op::Read) + disk.meter.requests(Op::Write))
            .sum()
    }
}

fn put<T: Copy>(places: &mut Vec<Option<T>>, index: u32, value: T) {
    let index = index as usize;
    places.resize(places.len().max(index + 1), None);
    assert!(places[index].is_none(), "each has one");
    places[index] = Some(value);
}

/// More events than one call of the path can cause: a read of all frames in requests of a page.
const EVENTS_AT_ONCE: usize = 1 << 20;
