//! A process of a workload: an `async` block in virtual time, with at most one request at a time.
//! Concurrent requests take several processes.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use foreread_core::path::{DeviceId, Fault};
use foreread_core::sched::{Class, Op, Origin, Submitter};
use foreread_core::units::{Nanos, Sector, Sectors};

use crate::meter::ProcessMeter;
use crate::rng::Rng;
use crate::run_state::RunState;
use crate::slots::SlotsId;
use crate::task::TaskId;
use crate::world::{DirectReceiver, SimEvent, SimWorld, TaskCompletion};

/// Handle of a process, for its code.
#[derive(Clone, Debug)]
pub struct Process {
    state: Rc<RunState>,
    task: TaskId,
    /// Index of its meter.
    meter: usize,
    class: Cell<Class>,
    /// None: the process is its own submitter.
    submitter: Cell<Option<Submitter>>,
}

impl Process {
    pub(crate) fn begin<F: Future<Output = ()> + 'static>(
        state: &Rc<RunState>,
        name: &str,
        body: impl FnOnce(Self) -> F,
    ) {
        let task = state.next_task();
        let meter = {
            let mut world = state.world.borrow_mut();
            let now = world.now();
            world.meters.push(ProcessMeter::new(name.to_owned(), now));
            world.wake(task);
            world.meters.len() - 1
        };
        let (class, submitter) = (Cell::default(), Cell::default());
        let process = Self { state: Rc::clone(state), task, meter, class, submitter };
        let own = process.clone();
        let body = body(process);
        state.begin(Box::pin(async move {
            body.await;
            own.note_end();
        }));
    }

    /// Spawns a concurrent process with the same submitter.
    pub fn spawn<F: Future<Output = ()> + 'static>(
        &self,
        name: &str,
        body: impl FnOnce(Self) -> F,
    ) {
        let submitter = self.submitter.get();
        Self::begin(&self.state, name, |process| {
            process.set_submitter(submitter);
            body(process)
        });
    }

    /// Returns the current virtual time.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.world(|world| world.now())
    }

    /// Returns a random number generator seeded by the run's seed and this name.
    #[must_use]
    pub fn rng(&self, name: &str) -> Rng {
        Rng::named(self.state.seed, name)
    }

    /// Sets the priority class of later direct requests.
    pub fn set_class(&self, class: Class) {
        self.class.set(class);
    }

    /// Blocks until a time.
    pub async fn until(&self, at: Nanos) {
        if at <= self.now() {
            return;
        }
        self.world(|world| world.clock.schedule(at, SimEvent::Wake(self.task)));
        poll_fn(|_| if self.now() >= at { Poll::Ready(()) } else { Poll::Pending }).await;
        debug_assert!(self.now() >= at, "a wait ends at its time");
    }

    /// Blocks for a duration: sleeps, or computes on a dedicated processor.
    pub async fn pass_ns(&self, ns: u64) {
        self.until(Nanos(self.now().0.saturating_add(ns))).await;
    }

    /// Sends a request to a device, bypassing the cache, and blocks until it ends. The meter counts
    /// it.
    ///
    /// # Errors
    ///
    /// The device's fault.
    pub async fn direct(
        &self,
        device: DeviceId,
        op: Op,
        start: Sector,
        sectors: Sectors,
    ) -> Result<(), Fault> {
        let began = self.now();
        let receiver = DirectReceiver::Process(self.task);
        self.world(|world| world.direct(device, start, sectors, self.origin(op), receiver));
        let TaskCompletion::Direct(done) = self.completion().await else {
            unreachable!("the process waits for one request, which is direct")
        };
        self.meter(|meter, now| meter.op(began, now, sectors.bytes()));
        done.fault.map_or(Ok(()), Err)
    }

    /// Sends a request to a device, bypassing the cache, without waiting for its end. The request
    /// occupies one of `slots` until it ends; the process blocks until one is free.
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
        let receiver = DirectReceiver::Slots(slots);
        self.world(|world| world.direct(device, start, sectors, self.origin(op), receiver));
        self.meter(|meter, now| meter.op(began, now, sectors.bytes()));
    }

    /// Creates a pool of `count` slots, for [`Self::post`].
    #[must_use]
    pub fn slots(&self, count: u32) -> SlotsId {
        self.world(|world| world.slots.add(count))
    }

    /// Blocks until a slot is free, and takes it.
    pub async fn take_slot(&self, slots: SlotsId) {
        let take = || self.world(|world| world.slots.take(slots, self.task));
        poll_fn(|_| if take() { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    /// Frees a slot taken by [`Self::take_slot`].
    ///
    /// # Panics
    ///
    /// If no slot of the pool is taken.
    pub fn free_slot(&self, slots: SlotsId) {
        self.world(|world| world.free_slot(slots));
    }

    /// Adds an event of the process to the trace of the run.
    pub fn say(&self, what: &str, number: u64) {
        self.world(|world| {
            let (now, name) = (world.now(), world.meters[self.meter].name.clone());
            world.record.process(now, &name, what, number);
        });
    }

    /// Updates the process's meter.
    pub fn meter<R>(&self, change: impl FnOnce(&mut ProcessMeter, Nanos) -> R) -> R {
        self.world(|world| {
            let now = world.now();
            let meter = &mut world.meters[self.meter];
            let Some(series) = &mut world.series else { return change(meter, now) };
            let before = meter.progress();
            let result = change(meter, now);
            series.add_progress(before, meter.progress());
            result
        })
    }

    /// Returns the submitter of its requests, for schedulers and policies.
    ///
    /// # Panics
    ///
    /// If the run has 2^32 processes.
    #[must_use]
    pub fn submitter(&self) -> Submitter {
        let own = || Submitter(u32::try_from(self.task.0).expect("fewer than 2^32 processes"));
        self.submitter.get().unwrap_or_else(own)
    }

    /// Sets the submitter of files opened from now on; None: the process itself.
    pub fn set_submitter(&self, submitter: Option<Submitter>) {
        self.submitter.set(submitter);
    }

    pub(crate) fn world<R>(&self, with: impl FnOnce(&mut SimWorld) -> R) -> R {
        with(&mut self.state.world.borrow_mut())
    }

    /// Returns the state of the run, for objects that outlive the process.
    pub(crate) fn state(&self) -> &Rc<RunState> {
        &self.state
    }

    pub(crate) fn task(&self) -> TaskId {
        self.task
    }

    pub(crate) fn meter_index(&self) -> usize {
        self.meter
    }

    /// Blocks until its request completes.
    pub(crate) async fn completion(&self) -> TaskCompletion {
        let take = || self.world(|world| world.take_completion(self.task));
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
