//! A run: processes that take turns in virtual time.
//!
//! In:    processes, as futures; when to stop.
//! Out:   what they did, and what the devices did.
//! Never: a thread, a clock, an order that the seed does not fix.
//!
//! A process is an `async` block: it says `reader.read(pos, len).await`, and the time between is
//! virtual. Those that can go on at the same time go on in the order in which they became able to.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use foreread_core::cache::CacheStats;
use foreread_core::path::{Config, DeviceId, FileId, TooManyWeights};
use foreread_core::replay::{LogStep, Mismatch, replay};
use foreread_core::sched::{BadSetting, Choice, Submitter};
use foreread_core::stats::Stats;
use foreread_core::units::{ByteCount, Nanos, Sector};

use crate::device::DeviceParams;
use crate::meter::{DeviceMeter, ProcessMeter, RunTotals};
use crate::process::Process;
use crate::record::{RecordMode, TraceDifference};
use crate::world::{SimWorld, TaskId};

/// A process.
pub(crate) type TaskFuture = Pin<Box<dyn Future<Output = ()>>>;

/// A run that can still be added to.
#[derive(Debug)]
pub struct SimRun {
    shared: Rc<RunState>,
    tasks: Vec<SimTask>,
    /// How many of them have not ended.
    alive: usize,
}

/// What the run and its processes share.
#[derive(Debug)]
pub(crate) struct RunState {
    pub(crate) world: RefCell<SimWorld>,
    /// Processes that others began, and that the run has not taken in.
    pub(crate) born: RefCell<Vec<SimTask>>,
    pub(crate) count: RefCell<usize>,
    pub(crate) seed: u64,
}

pub(crate) struct SimTask(pub(crate) Option<TaskFuture>);

impl std::fmt::Debug for SimTask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Running" } else { "Ended" })
    }
}

/// Names a file of a run.
#[derive(Clone, Copy, Debug)]
pub struct SimFile {
    pub(crate) id: FileId,
    pub(crate) device: DeviceId,
    pub(crate) start: Sector,
    pub(crate) len: ByteCount,
}

/// What a run came to.
#[derive(Debug)]
pub struct RunOutcome {
    /// When it ended.
    pub end: Nanos,
    /// One number for all that happened.
    pub hash: u64,
    /// How many events that is.
    pub events: u64,
    /// The events, if they were kept.
    pub lines: Vec<String>,
    /// Where it parts from the run that it was compared with.
    pub difference: Option<TraceDifference>,
    /// What each process did, in the order in which they began.
    pub processes: Vec<ProcessMeter>,
    /// What each device did.
    pub devices: Vec<DeviceMeter>,
    /// The path's counters.
    pub stats: Stats,
    /// The cache's.
    pub cache: CacheStats,
    /// How many processes had not ended.
    pub unfinished: usize,
    /// How many frames the cache has.
    pub frames: u32,
    /// How many of them were neither being filled nor held.
    pub idle_frames: u64,
    /// What was done to the path and what it said, if it was kept.
    pub log: Vec<LogStep>,
    config: Config,
}

impl SimRun {
    /// A run with nothing in it, at time 0.
    ///
    /// # Errors
    ///
    /// If the memory is less than a path needs, or more than is kept track of here.
    pub fn new(config: Config, seed: u64, keep: RecordMode) -> Result<Self, String> {
        let least = foreread_core::cache::PageCache::MIN_BOUND;
        if config.memory < least {
            return Err(format!("memory: wants at least {least} bytes"));
        }
        if config.memory > MOST_MEMORY {
            return Err("memory: wants at most 64G: a ninth of it is what finds the pages".into());
        }
        let world = RefCell::new(SimWorld::new(config, keep));
        let (born, count) = (RefCell::default(), RefCell::default());
        let shared = Rc::new(RunState { world, born, count, seed });
        Ok(Self { shared, tasks: Vec::new(), alive: 0 })
    }

    /// Adds a device, with a scheduler in front of it.
    ///
    /// # Errors
    ///
    /// Which parameter of the model is impossible.
    pub fn device(
        &mut self,
        name: &str,
        model: &DeviceParams,
        scheduler: &Choice,
    ) -> Result<DeviceId, String> {
        self.shared.world.borrow_mut().add_device(name, model, scheduler)
    }

    /// From a time on, a device is another one. Said in the order of time.
    ///
    /// # Errors
    ///
    /// If it cannot become that.
    pub fn change_device(
        &mut self,
        device: DeviceId,
        at: Nanos,
        to: &DeviceParams,
    ) -> Result<(), String> {
        self.shared.world.borrow_mut().change_device(device, at, to)
    }

    /// Adds a file that lies in one piece.
    ///
    /// # Panics
    ///
    /// If there are too many: see [`Self::try_file`].
    pub fn file(&mut self, device: DeviceId, start: Sector, len: ByteCount) -> SimFile {
        self.try_file(device, start, len).expect("few files")
    }

    /// The same, where the number of files is not known to be small.
    ///
    /// # Errors
    ///
    /// If there are more than a path knows.
    pub fn try_file(
        &mut self,
        device: DeviceId,
        start: Sector,
        len: ByteCount,
    ) -> Result<SimFile, String> {
        let id = self.shared.world.borrow_mut().open(device, start, len);
        let id = id.ok_or("file: there are too many, with those of all processes")?;
        Ok(SimFile { id, device, start, len })
    }

    /// Gives the readers of a submitter a weight: see [`IoPath::set_weight`].
    ///
    /// [`IoPath::set_weight`]: foreread_core::path::IoPath::set_weight
    ///
    /// # Errors
    ///
    /// If too many others have one.
    pub fn set_weight(&mut self, submitter: Submitter, weight: u32) -> Result<(), TooManyWeights> {
        self.shared.world.borrow_mut().path.set_weight(submitter, weight)
    }

    /// Changes a setting of a device's scheduler, at the time at which the run is.
    ///
    /// # Errors
    ///
    /// If there is no such setting, or the value makes no sense for it.
    pub fn set_scheduler(
        &mut self,
        device: DeviceId,
        name: &str,
        value: &str,
    ) -> Result<(), BadSetting> {
        self.shared.world.borrow_mut().set_scheduler(device, name, value)
    }

    /// Adds a process. It begins when the run goes on.
    pub fn spawn<F: Future<Output = ()> + 'static>(
        &mut self,
        name: &str,
        what: impl FnOnce(Process) -> F,
    ) {
        Process::begin(&self.shared, name, what);
        self.take_in();
    }

    /// Goes on until all processes have ended, nothing will ever happen, or the time is `until`.
    /// Then more may be added, and it may go on again.
    pub fn go(&mut self, until: Nanos) {
        while self.go_some(u64::MAX, until) {}
    }

    /// Goes on as [`Self::go`] does, but for no more than so many steps; says whether there is more
    /// to do. For callers that show progress.
    pub fn go_some(&mut self, steps: u64, until: Nanos) -> bool {
        for _ in 0..steps {
            self.poll_all();
            // What comes later stays on the clock: the run may go on again.
            if !self.is_any_left() {
                return false;
            }
            let mut world = self.shared.world.borrow_mut();
            match world.clock.next(until) {
                Some(coming) => world.arrive(coming),
                None => {
                    if !world.clock.is_over() {
                        world.clock.stop_at(until);
                    }
                    return false;
                }
            }
        }
        true
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.shared.world.borrow().now()
    }

    /// How many requests the devices got so far: for a progress line.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.shared.world.borrow().requests()
    }

    /// The seed from which all that is random follows.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.shared.seed
    }

    /// How many processes have not ended.
    #[must_use]
    pub fn left(&self) -> usize {
        self.alive + self.shared.born.borrow().len()
    }

    /// What happened so far, in sums.
    #[must_use]
    pub fn totals(&self) -> RunTotals {
        self.shared.world.borrow().totals()
    }

    /// What each device did so far.
    #[must_use]
    pub fn devices(&self) -> Vec<DeviceMeter> {
        self.shared.world.borrow().device_meters().cloned().collect()
    }

    /// Whether a process has not ended.
    #[must_use]
    pub fn is_any_left(&self) -> bool {
        self.left() > 0
    }

    /// What it came to.
    ///
    /// # Panics
    ///
    /// If the caller keeps a process of it.
    #[must_use]
    pub fn end(self) -> RunOutcome {
        let unfinished = self.left();
        drop((self.tasks, self.shared.born.take()));
        let shared = Rc::try_unwrap(self.shared).expect("processes end with their run");
        let mut world = shared.world.into_inner();
        let (config, log) = (world.path.config(), world.path.take_log());
        let (frames, idle_frames) = (world.path.frame_count(), world.path.idle_frames());
        let devices = world.device_meters().cloned().collect();
        let (end, stats, cache) = (world.now(), world.path.stats(), world.path.cache_stats());
        let (hash, events, lines, difference) = world.record.end();
        let processes = world.meters;
        RunOutcome {
            end,
            hash,
            events,
            lines,
            difference,
            processes,
            devices,
            stats,
            cache,
            unfinished,
            frames,
            idle_frames,
            log,
            config,
        }
    }

    /// Takes in the processes that were begun. They know the run: what the run shares must not keep
    /// them, or neither would end.
    fn take_in(&mut self) {
        let mut born = self.shared.born.borrow_mut();
        self.alive += born.len();
        self.tasks.append(&mut born);
    }

    /// Lets each process that can go on do so, until none can.
    fn poll_all(&mut self) {
        loop {
            self.take_in();
            let task = self.shared.world.borrow_mut().runnable.pop_front();
            let Some(TaskId(index)) = task else { return };
            let state = &mut self.tasks[index];
            let Some(task) = &mut state.0 else { continue };
            let mut context = Context::from_waker(Waker::noop());
            if task.as_mut().poll(&mut context) == Poll::Ready(()) {
                state.0 = None;
                self.alive -= 1;
            }
        }
    }
}

impl RunOutcome {
    /// Does to a path of its own what was done to the run's, and compares all that it says: what
    /// happened then follows from what was done, and from nothing else. Without [`RecordMode::Log`]
    /// there is nothing to do.
    ///
    /// # Errors
    ///
    /// The first step that goes otherwise.
    pub fn replay(&self) -> Result<(), Box<Mismatch>> {
        replay(self.config, &self.log)
    }
}

/// The pages of a simulated cache have no bytes, but what finds them has: 7 GiB for this.
const MOST_MEMORY: ByteCount = ByteCount(64 << 30);
