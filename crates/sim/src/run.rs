//! A run: processes that take turns in virtual time.
//!
//! In:    devices, files and processes; a stop time.
//! Out:   the figures of each process and device, and the hash of all events.
//! Never: a thread, a clock of the machine, an order of events that the seed does not determine.
//!
//! A process is an `async` block: it calls `reader.read(pos, len).await`, and virtual time passes
//! until the read is done. Processes that become runnable at the same time continue in that order.

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
    /// Number of tasks that have not ended.
    alive: usize,
}

/// Outcome of a run.
#[derive(Debug)]
pub struct RunOutcome {
    /// Virtual time at the end.
    pub end: Nanos,
    /// Hash of all events: runs with the same hash had the same events.
    pub hash: u64,
    /// Number of events.
    pub events: u64,
    /// Lines of the events, with [`RecordMode::Lines`].
    pub lines: Vec<String>,
    /// First difference from the compared run.
    pub difference: Option<TraceDifference>,
    /// Figures of each process, in start order.
    pub processes: Vec<ProcessMeter>,
    /// Figures of each device.
    pub devices: Vec<DeviceMeter>,
    /// Counters of the path.
    pub stats: Stats,
    /// Counters of the cache.
    pub cache: CacheStats,
    /// Evictions by an external eviction policy, if there is one. `cache` counts those that the
    /// path had to make itself.
    pub external_evictions: Option<u64>,
    /// Number of processes that had not ended.
    pub unfinished: usize,
    /// Number of frames of the cache.
    pub frames: u32,
    /// Number of frames that were neither being filled nor held.
    pub idle_frames: u64,
    /// Calls and outputs of the path, with [`RecordMode::Log`].
    pub log: Vec<LogStep>,
    config: Config,
}

impl SimRun {
    /// Creates a run without devices and processes, at time 0.
    ///
    /// # Errors
    ///
    /// If the memory is less than a path needs, or more than 64 GiB.
    pub fn new(config: Config, seed: u64, mode: RecordMode) -> Result<Self, String> {
        let least = foreread_core::cache::PageCache::MIN_BOUND;
        if config.memory < least {
            return Err(format!("memory: must be at least {least} bytes"));
        }
        if config.memory > MAX_MEMORY {
            return Err("memory: must be at most 64G: the page table takes a ninth of it".into());
        }
        let shared = Rc::new(RunState::new(SimWorld::new(config, mode), seed));
        Ok(Self { shared, tasks: Vec::new(), alive: 0 })
    }

    /// Adds a device and its scheduler.
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

    /// Sets the prior expectation of a device.
    pub(crate) fn expect_of_device(&mut self, device: DeviceId, learnt: LearntDevice) {
        self.shared.world.borrow_mut().path.restore_device(device, learnt);
    }

    /// Changes the parameters of a device from `at` on. Calls must be in order of `at`.
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

    /// Like [`Self::file`], for callers that may open many files.
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

    /// Sets the weight of a submitter's readers: see [`IoPath::set_weight`].
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

    /// Adds a process, which starts when the run continues.
    pub fn spawn<F: Future<Output = ()> + 'static>(
        &mut self,
        name: &str,
        what: impl FnOnce(Process) -> F,
    ) {
        Process::begin(&self.shared, name, what);
        self.take_in();
    }

    /// Continues until all processes have ended, no event is left, or the time is `until`. The run
    /// can then be extended and continued.
    pub fn go(&mut self, until: Nanos) {
        while self.go_some(u64::MAX, until) {}
    }

    /// Like [`Self::go`], for at most `steps` events, for callers that show progress. Returns false
    /// when there is nothing more to do.
    pub fn go_some(&mut self, steps: u64, until: Nanos) -> bool {
        for _ in 0..steps {
            self.poll_all();
            // Later events stay queued: the run may continue.
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

    /// Returns the current virtual time.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.shared.world.borrow().now()
    }

    /// Returns the number of requests sent to the devices so far, for a progress line.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.shared.world.borrow().requests()
    }

    /// Returns the seed of all random numbers of the run.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.shared.seed
    }

    /// Returns the number of processes that have not ended.
    #[must_use]
    pub fn left(&self) -> usize {
        self.alive + self.shared.born()
    }

    /// Returns the totals of all figures so far.
    #[must_use]
    pub fn totals(&self) -> RunTotals {
        self.shared.world.borrow().totals()
    }

    /// Returns the latency of all operations so far, in ns.
    #[must_use]
    pub fn latency(&self) -> Histogram<u64> {
        ProcessMeter::latency_of_all(&self.shared.world.borrow().meters)
    }

    /// Returns the figures of each device so far.
    #[must_use]
    pub fn devices(&self) -> Vec<DeviceMeter> {
        self.shared.world.borrow().device_meters().cloned().collect()
    }

    /// Replaces the library's eviction policy. Must be called before files are added.
    ///
    /// The path should have an eighth more frames than the policy has pages.
    pub fn evict_by(&mut self, kind: CachePolicyKind) {
        let mut world = self.shared.world.borrow_mut();
        world.external = ExternalCache::new(kind, world.path.frame_count());
    }

    /// Returns true while a process is running.
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

    /// Moves the processes that have begun into the run. Processes hold the shared state: it must
    /// not hold them, or neither would be dropped.
    fn take_in(&mut self) {
        let born = self.shared.take_born();
        self.alive += born.len();
        self.tasks.extend(born);
        debug_assert!(self.alive <= self.tasks.len(), "more processes are alive than have begun");
    }

    /// Polls runnable processes until there are none.
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
    /// Formats the hash for reports.
    #[must_use]
    pub fn hash_text(&self) -> String {
        format!("{:016x}", self.hash)
    }

    /// Repeats the calls of the run on a fresh path, and compares its outputs: they must follow
    /// from the calls alone. Without [`RecordMode::Log`] there is nothing to compare.
    ///
    /// # Errors
    ///
    /// The first output that differs.
    pub fn replay(&self) -> Result<(), Box<Mismatch>> {
        replay(self.config, &self.log)
    }
}

/// Pages of a simulated cache have no bytes, but the page table does: 7 GiB for this bound.
const MAX_MEMORY: ByteCount = ByteCount(64 << 30);
