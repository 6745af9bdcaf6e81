//! A process of a workload, as an `async` block in virtual time.
//!
//! In:    reads, writes, waits, in the order of the block.
//! Out:   their results, and the time after them.
//! Never: two things at a time; that takes another process.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::Poll;

use foreread_core::path::{DeviceId, Fault};
use foreread_core::sched::{Class, Op, Origin, Submitter};
use foreread_core::units::{ByteCount, Nanos, Sector, Sectors};

use crate::meter::ProcessMeter;
use crate::reader::SimReader;
use crate::rng::Rng;
use crate::run::{RunState, SimFile, SimTask};
use crate::world::{DirectReceiver, SimEvent, SimWorld, SlotsId, TaskCompletion, TaskId};

/// A process, as it sees itself.
#[derive(Clone, Debug)]
pub struct Process {
    pub(crate) shared: Rc<RunState>,
    pub(crate) task: TaskId,
    pub(crate) meter: usize,
    class: Cell<Class>,
    /// None: it reads for a submitter of its own.
    submitter: Cell<Option<Submitter>>,
}

/// A line of things that one process puts in and others take out.
#[derive(Debug)]
pub struct Channel<T> {
    waiting: RefCell<VecDeque<TaskId>>,
    things: RefCell<VecDeque<T>>,
}

/// What moves bytes one after the other at a rate: a network link, a bus, a processor.
#[derive(Debug)]
pub struct BandwidthLink {
    mb_per_s: f64,
    free: Cell<Nanos>,
}

impl Process {
    pub(crate) fn begin<F: Future<Output = ()> + 'static>(
        shared: &Rc<RunState>,
        name: &str,
        what: impl FnOnce(Self) -> F,
    ) {
        let task = TaskId(shared.count.replace_with(|count| *count + 1));
        let meter = {
            let mut world = shared.world.borrow_mut();
            let now = world.now();
            world.meters.push(ProcessMeter::new(name.to_owned(), now));
            world.wake(task);
            world.meters.len() - 1
        };
        let (class, submitter) = (Cell::default(), Cell::default());
        let process = Self { shared: Rc::clone(shared), task, meter, class, submitter };
        let own = process.clone();
        let life = what(process);
        let task = async move {
            life.await;
            own.note_end();
        };
        shared.born.borrow_mut().push(SimTask(Some(Box::pin(task))));
    }

    /// Begins another process, which goes on beside this one, for whom this one does.
    pub fn spawn<F: Future<Output = ()> + 'static>(
        &self,
        name: &str,
        what: impl FnOnce(Self) -> F,
    ) {
        let submitter = self.submitter.get();
        Self::begin(&self.shared, name, |process| {
            process.set_submitter(submitter);
            what(process)
        });
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.world(|world| world.now())
    }

    /// Random numbers of its own: of the run's seed and this name.
    #[must_use]
    pub fn rng(&self, name: &str) -> Rng {
        Rng::named(self.shared.seed, name)
    }

    /// How urgent its direct requests are, from now on.
    pub fn set_class(&self, class: Class) {
        self.class.set(class);
    }

    /// Waits until a time.
    pub async fn until(&self, at: Nanos) {
        if at <= self.now() {
            return;
        }
        self.world(|world| world.clock.say(at, SimEvent::Wake(self.task)));
        poll_fn(|_| if self.now() >= at { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    /// Waits so long, or computes so long on a processor of its own.
    pub async fn pass_ns(&self, ns: u64) {
        self.until(Nanos(self.now().0.saturating_add(ns))).await;
    }

    /// Opens a file: a reader, with a stream of its own.
    #[must_use]
    pub fn open(&self, file: SimFile) -> SimReader {
        SimReader::new(self.clone(), file)
    }

    /// Asks a device past the cache, and waits for it. The process's meter counts it.
    ///
    /// # Errors
    ///
    /// What went wrong.
    pub async fn direct(
        &self,
        device: DeviceId,
        op: Op,
        start: Sector,
        sectors: Sectors,
    ) -> Result<(), Fault> {
        let began = self.now();
        let tell = DirectReceiver::Process(self.task);
        self.world(|world| world.direct(device, start, sectors, self.origin(op), tell));
        let TaskCompletion::Direct(done) = self.answer().await else {
            panic!("it asked for no read")
        };
        self.meter(|meter, now| meter.op(began, now, sectors.bytes()));
        done.fault.map_or(Ok(()), Err)
    }

    /// Asks a device past the cache and does not wait for it: it takes a place of `slots`, for
    /// which it may have to wait, until it has ended.
    pub async fn post(
        &self,
        slots: SlotsId,
        device: DeviceId,
        op: Op,
        start: Sector,
        sectors: Sectors,
    ) {
        let began = self.now();
        self.take_slot(slots).await;
        let tell = DirectReceiver::Slots(slots);
        self.world(|world| world.direct(device, start, sectors, self.origin(op), tell));
        self.meter(|meter, now| meter.op(began, now, sectors.bytes()));
    }

    /// So many places, for [`Self::post`].
    #[must_use]
    pub fn slots(&self, count: u32) -> SlotsId {
        self.world(|world| world.new_slots(count))
    }

    /// Waits for a place, and takes it.
    pub async fn take_slot(&self, slots: SlotsId) {
        let take = || self.world(|world| world.take_slot(slots, self.task));
        poll_fn(|_| if take() { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    /// Gives a place back.
    pub fn free_slot(&self, slots: SlotsId) {
        self.world(|world| world.free_slot(slots));
    }

    /// Sends so many bytes over a link, after those that came first, and waits until they are
    /// through.
    pub async fn send(&self, link: &BandwidthLink, bytes: ByteCount) {
        let from = link.free.get().max(self.now());
        let end = crate::device::after_transfer(from, bytes, link.mb_per_s);
        link.free.set(end);
        self.until(end).await;
    }

    /// Says something that belongs to the trace of the run.
    pub fn say(&self, what: &str, number: u64) {
        self.world(|world| {
            let (now, name) = (world.now(), world.meters[self.meter].name.clone());
            world.record.process(now, &name, what, number);
        });
    }

    /// Changes its meter.
    pub fn meter<R>(&self, change: impl FnOnce(&mut ProcessMeter, Nanos) -> R) -> R {
        self.world(|world| {
            let now = world.now();
            change(&mut world.meters[self.meter], now)
        })
    }

    /// By which name schedulers and policies know it.
    #[must_use]
    pub fn submitter(&self) -> Submitter {
        let own = || Submitter(u32::try_from(self.task.0).expect("few processes"));
        self.submitter.get().unwrap_or_else(own)
    }

    /// Says for whom it opens files and reads from now on; None: for itself alone.
    pub fn set_submitter(&self, submitter: Option<Submitter>) {
        self.submitter.set(submitter);
    }

    pub(crate) fn world<R>(&self, with: impl FnOnce(&mut SimWorld) -> R) -> R {
        with(&mut self.shared.world.borrow_mut())
    }

    pub(crate) async fn answer(&self) -> TaskCompletion {
        let take = || self.world(|world| world.take_answer(self.task));
        poll_fn(|_| take().map_or(Poll::Pending, Poll::Ready)).await
    }

    fn origin(&self, op: Op) -> Origin {
        Origin { op, class: self.class.get(), submitter: self.submitter() }
    }

    fn note_end(&self) {
        self.meter(|meter, now| meter.ended = Some(now));
        self.say("ended", 0);
    }
}

impl<T> Channel<T> {
    /// An empty one.
    #[must_use]
    pub fn new() -> Rc<Self> {
        Rc::new(Self { waiting: RefCell::default(), things: RefCell::default() })
    }

    /// Puts a thing at its end, and wakes the process that has waited longest.
    pub fn put(&self, by: &Process, thing: T) {
        self.things.borrow_mut().push_back(thing);
        if let Some(task) = self.waiting.borrow_mut().pop_front() {
            by.world(|world| world.wake(task));
        }
    }

    /// Takes the first thing; waits until there is one.
    pub async fn take(&self, by: &Process) -> T {
        poll_fn(|_| {
            if let Some(thing) = self.things.borrow_mut().pop_front() {
                return Poll::Ready(thing);
            }
            self.waiting.borrow_mut().push_back(by.task);
            Poll::Pending
        })
        .await
    }
}

impl BandwidthLink {
    /// One with this rate.
    #[must_use]
    pub fn new(mb_per_s: f64) -> Rc<Self> {
        Rc::new(Self { mb_per_s, free: Cell::new(Nanos(0)) })
    }
}
