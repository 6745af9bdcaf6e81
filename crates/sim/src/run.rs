//! A run: processes that take turns in virtual time.
//!
//! In:    devices, files and processes; when to stop.
//! Out:   the figures of each process and device, and the hash of all events.
//! Never: a thread, a clock of the machine, an order of events that the seed does not fix.
//!
//! A process is an `async` block: it calls `reader.read(pos, len).await`, and virtual time passes
//! until the read is done. Processes that are runnable at the same time continue in the order in
//! which they became runnable.

mod kept;

use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use foreread_core::cache::CacheStats;
use foreread_core::path::{Config, DeviceId, TooManyWeights};
use foreread_core::prefetch::LearntDevice;
use foreread_core::replay::{LogStep, Mismatch, replay};
use foreread_core::sched::{InvalidSetting, SchedulerKind, Submitter};
use foreread_core::stats::Stats;
use foreread_core::units::{ByteCount, Nanos, Sector};
use hdrhistogram::Histogram;

use crate::cache_policy::CachePolicyKind;
use crate::device::DeviceParams;
use crate::external_cache::ExternalCache;
use crate::meter::{DeviceMeter, ProcessMeter, RunTotals};
use crate::process::Process;
use crate::record::{RecordMode, TraceDifference};
use crate::run_state::RunState;
pub use crate::run_state::SimFile;
use crate::task::{SimTask, TaskId};
use crate::world::SimWorld;

/// A run in progress. Processes, files and devices may be added at any time.
#[derive(Debug)]
pub struct SimRun {
    shared: Rc<RunState>,
    tasks: Vec<SimTask>,
    /// The number of tasks that have not ended.
    alive: usize,
}

/// The outcome of a run.
#[derive(Debug)]
pub struct RunOutcome {
    /// The virtual time at its end.
    pub end: Nanos,
    /// The hash of all events: runs with the same hash had the same events.
    pub hash: u64,
    /// The number of events.
    pub events: u64,
    /// The events, with [`RecordMode::Lines`].
    pub lines: Vec<String>,
    /// The first difference from the run that it was compared with.
    pub difference: Option<TraceDifference>,
    /// The figures of each process, in the order in which they began.
    pub processes: Vec<ProcessMeter>,
    /// The figures of each device.
    pub devices: Vec<DeviceMeter>,
    /// The path's counters.
    pub stats: Stats,
    /// The cache's counters.
    pub cache: CacheStats,
    /// With an eviction policy other than the library's own: how many pages that evicted. `cache`
    /// has those that the path had to evict itself.
    pub external_evictions: Option<u64>,
    /// The number of processes that had not ended.
    pub unfinished: usize,
    /// The number of frames of the cache.
    pub frames: u32,
    /// The number of frames that were neither being filled nor held.
    pub idle_frames: u64,
    /// The calls and the outputs of the path, with [`RecordMode::Log`].
    pub log: Vec<LogStep>,
    config: Config,
}

impl SimRun {
    /// Returns a run without devices and processes, at time 0.
    ///
    /// # Errors
    ///
    /// If the memory is less than a path needs, or more than 64 GiB.
    pub fn new(config: Config, seed: u64, mode: RecordMode) -> Result<Self, String> {
        let least = foreread_core::cache::PageCache::MIN_BOUND;
        if config.memory < least {
            return Err(format!("memory: wants at least {least} bytes"));
        }
        if config.memory > MAX_MEMORY {
            return Err("memory: wants at most 64G: a ninth of it is what finds the pages".into());
        }
        let shared = Rc::new(RunState::new(SimWorld::new(config, mode), seed));
        Ok(Self { shared, tasks: Vec::new(), alive: 0 })
    }

    /// Adds a device, with a scheduler in front of it.
    ///
    /// # Errors
    ///
    /// The parameter of the model that is out of range.
    pub fn device(
        &mut self,
        name: &str,
        model: &DeviceParams,
        scheduler: &SchedulerKind,
    ) -> Result<DeviceId, String> {
        let seed = self.shared.seed;
        self.shared.world.borrow_mut().add_device(name, model, scheduler, seed)
    }

    /// Begins with what is expected of a device.
    pub(crate) fn expect_of_device(&mut self, device: DeviceId, learnt: LearntDevice) {
        self.shared.world.borrow_mut().path.restore_device(device, learnt);
    }

    /// Changes the parameters of a device from `at` on. Calls come in the order of `at`.
    ///
    /// # Errors
    ///
    /// If the device cannot take these parameters.
    pub fn change_device(
        &mut self,
        device: DeviceId,
        at: Nanos,
        to: &DeviceParams,
    ) -> Result<(), String> {
        self.shared.world.borrow_mut().change_device(device, at, to)
    }

    /// Adds a file in one extent.
    ///
    /// # Panics
    ///
    /// If the path has no room for another file: see [`Self::try_file`].
    pub fn file(&mut self, device: DeviceId, start: Sector, len: ByteCount) -> SimFile {
        self.try_file(device, start, len).expect("the caller opens few files")
    }

    /// Adds a file in one extent, where the number of files is not known to be small.
    ///
    /// # Errors
    ///
    /// If the path has no room for another file.
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
    /// If too many submitters have a weight.
    pub fn set_weight(&mut self, submitter: Submitter, weight: u32) -> Result<(), TooManyWeights> {
        self.shared.world.borrow_mut().path.set_weight(submitter, weight)
    }

    /// Changes a setting of a device's scheduler, at the current virtual time.
    ///
    /// # Errors
    ///
    /// If there is no such setting, or the value is out of its range.
    pub fn set_scheduler(
        &mut self,
        device: DeviceId,
        name: &str,
        value: &str,
    ) -> Result<(), InvalidSetting> {
        self.shared.world.borrow_mut().set_scheduler(device, name, value)
    }

    /// Adds a process. It begins when the run continues.
    pub fn spawn<F: Future<Output = ()> + 'static>(
        &mut self,
        name: &str,
        what: impl FnOnce(Process) -> F,
    ) {
        Process::begin(&self.shared, name, what);
        self.take_in();
    }

    /// Continues until all processes have ended, no event is left, or the time is `until`. The run
    /// may then be added to and continued.
    pub fn go(&mut self, until: Nanos) {
        while self.go_some(u64::MAX, until) {}
    }

    /// Continues as [`Self::go`] does, for at most `steps` events. Returns whether more is to do.
    /// For callers that show progress.
    pub fn go_some(&mut self, steps: u64, until: Nanos) -> bool {
        for _ in 0..steps {
            self.poll_all();
            // Later events stay on the clock: the run may continue.
            if !self.is_any_left() {
                return false;
            }
            let mut world = self.shared.world.borrow_mut();
            match world.clock.next(until) {
                Some(event) => world.handle(event),
                None => {
                    if !world.clock.is_empty() {
                        world.clock.advance_to(until);
                    }
                    return false;
                }
            }
        }
        true
    }

    /// The current virtual time.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.shared.world.borrow().now()
    }

    /// The number of requests that the devices got so far: for a progress line.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.shared.world.borrow().requests()
    }

    /// The seed of all random numbers of the run.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.shared.seed
    }

    /// The number of processes that have not ended.
    #[must_use]
    pub fn left(&self) -> usize {
        self.alive + self.shared.born()
    }

    /// The sums of all figures so far.
    #[must_use]
    pub fn totals(&self) -> RunTotals {
        self.shared.world.borrow().totals()
    }

    /// How long the operations of all processes took so far, in ns.
    #[must_use]
    pub fn latency(&self) -> Histogram<u64> {
        ProcessMeter::latency_of_all(&self.shared.world.borrow().meters)
    }

    /// The figures of each device so far.
    #[must_use]
    pub fn devices(&self) -> Vec<DeviceMeter> {
        self.shared.world.borrow().device_meters().cloned().collect()
    }

    /// Lets an eviction policy decide which pages leave, in place of the library's own. Called
    /// before files are added.
    ///
    /// The path's frames should be an eighth more than the policy is to have pages.
    pub fn evict_by(&mut self, kind: CachePolicyKind) {
        let mut world = self.shared.world.borrow_mut();
        world.external = ExternalCache::new(kind, world.path.frame_count());
    }

    /// Whether a process has not ended.
    #[must_use]
    pub fn is_any_left(&self) -> bool {
        self.left() > 0
    }

    /// Ends the run and returns its outcome.
    ///
    /// # Panics
    ///
    /// If the caller still holds a [`Process`] of the run.
    #[must_use]
    pub fn end(self) -> RunOutcome {
        let unfinished = self.left();
        drop((self.tasks, self.shared.take_born()));
        let shared = Rc::try_unwrap(self.shared)
            .expect("processes, which were dropped, hold the other references");
        let mut world = shared.world.into_inner();
        let (config, log) = (world.path.config(), world.path.take_log());
        let (frames, idle_frames) = (world.path.frame_count(), world.path.idle_frames());
        let devices = world.device_meters().cloned().collect();
        let (end, stats, cache) = (world.now(), world.path.stats(), world.path.cache_stats());
        let external_evictions = world.external.as_ref().map(ExternalCache::evicted);
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
            external_evictions,
            unfinished,
            frames,
            idle_frames,
            log,
            config,
        }
    }

    /// Takes over the processes that have begun. Processes hold the shared state: it must not hold
    /// them, or neither would be dropped.
    fn take_in(&mut self) {
        let born = self.shared.take_born();
        self.alive += born.len();
        self.tasks.extend(born);
        debug_assert!(self.alive <= self.tasks.len(), "more processes are alive than have begun");
    }

    /// Polls each runnable process, until none is runnable.
    fn poll_all(&mut self) {
        loop {
            self.take_in();
            let task = self.shared.world.borrow_mut().runnable.pop_front();
            let Some(TaskId(index)) = task else { return };
            let state = &mut self.tasks[index];
            let Some(task) = &mut state.0 else { continue };
            let mut context = Context::from_waker(Waker::noop());
            if task.as_mut().poll(&mut context) == Poll::Ready(()) {
                assert!(self.alive > 0, "a process ends once");
                state.0 = None;
                self.alive -= 1;
            }
        }
    }
}

impl RunOutcome {
    /// The hash as reports show it.
    #[must_use]
    pub fn hash_text(&self) -> String {
        format!("{:016x}", self.hash)
    }

    /// Makes the calls of the run on a fresh path, and compares its outputs: they must follow from
    /// the calls alone. Without [`RecordMode::Log`] there is nothing to compare.
    ///
    /// # Errors
    ///
    /// The first output that differs.
    pub fn replay(&self) -> Result<(), Box<Mismatch>> {
        replay(self.config, &self.log)
    }
}

/// The pages of a simulated cache have no bytes, but the page table has: 7 GiB for this bound.
const MAX_MEMORY: ByteCount = ByteCount(64 << 30);
