//! Simulated device for sweeps in virtual time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use foreread_core::path::{Config, Fault};
use foreread_core::prefetch::{Advice, Policy, Rules};
use foreread_core::sched::SchedulerKind;
use foreread_core::units::{ByteCount, Nanos, PAGE_SIZE, Sector};
use foreread_sim::device::{DeviceParams, known};
use foreread_sim::process::Process;
use foreread_sim::record::RecordMode;
use foreread_sim::rng::Rng;
use foreread_sim::run::{SimFile, SimRun};
use foreread_tune::parallel_reads::{AtOnceSample, ParallelProbe, ReadsAtOnce};
use foreread_tune::probe::{Probe, ProbeSample, RandomReads, SampleSlice, SequentialRead, Stopped};

/// Device model, with its busy time.
#[derive(Debug)]
pub(crate) struct SimulatedDevice {
    model: DeviceParams,
    now: Nanos,
    /// Offset of the next stream.
    next: ByteCount,
    /// Everything below this offset has been read.
    read_upto: ByteCount,
    rng: Rng,
    stop: Arc<AtomicBool>,
}

impl SimulatedDevice {
    /// Returns the known device of this name, unused; None if unknown. It stops once `stop` is set.
    pub(crate) fn find(name: &str, stop: Arc<AtomicBool>) -> Option<Self> {
        Some(Self::new(known::find(name)?.model, stop))
    }

    /// Creates an unused device with these parameters.
    pub(crate) fn new(model: DeviceParams, stop: Arc<AtomicBool>) -> Self {
        let (now, next, read_upto) = (Nanos(0), ByteCount(0), ByteCount(0));
        Self { model, now, next, read_upto, rng: Rng::new(1), stop }
    }

    /// Returns the model parameters.
    pub(crate) fn model(&self) -> &DeviceParams {
        &self.model
    }

    /// Returns the names of all known devices.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        known::all().iter().map(|(name, _)| name.as_str())
    }

    /// Returns the capacity in whole pages.
    pub(crate) fn size(&self) -> ByteCount {
        let capacity = self.model.geometry().capacity;
        ByteCount(capacity.0 / PAGE_SIZE * PAGE_SIZE)
    }

    /// Creates a simulated machine with this device, one file that fills it, and a cold cache.
    fn machine(&self, window: ByteCount) -> Result<(SimRun, SimFile), Stopped> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Stopped::Interrupted);
        }
        let failed = |why: String| Stopped::Failed(format!("the simulated machine: {why}"));
        let config = Config {
            // A smaller memory would also limit the window.
            memory: ByteCount(MEMORY_MIN.0.max(window.0 * 32)),
            policy: Policy::Linux6,
            max_window: window.pages_up(),
            rules: Rules::default(),
        };
        let mut run = SimRun::new(config, 1, RecordMode::Hash).map_err(failed)?;
        let device = run.device("disk", &self.model, &SchedulerKind::Noop).map_err(failed)?;
        let file = run.file(device, Sector(0), self.size());
        Ok((run, file))
    }

    /// Returns the offset of a stream of at most `most` bytes: after the previous one, or back at
    /// the start.
    fn place(&self, most: ByteCount) -> ByteCount {
        let fits = self.next.0.saturating_add(most.0) <= self.size().0;
        if fits { self.next } else { ByteCount(0) }
    }
}

impl Probe for SimulatedDevice {
    fn now(&self) -> Nanos {
        self.now
    }

    fn sequential(&mut self, ask: &SequentialRead) -> Result<ProbeSample, Stopped> {
        let (mut run, file) = self.machine(ask.window)?;
        // Two windows later, the stream has full windows and prefetches.
        let ramp = ByteCount(ask.window.0 * RAMP);
        let from = self.place(ByteCount(ask.at_least.0 + ramp.0));
        let stream = DdReader { ask: *ask, from, ramp, size: self.size() };
        let steps = Rc::new(RefCell::new(Vec::new()));
        let fault = Rc::new(RefCell::new(None));
        let (noted, failed) = (Rc::clone(&steps), Rc::clone(&fault));
        run.spawn("reader", async move |process| {
            *failed.borrow_mut() = stream.read(&process, file, &noted).await.err();
        });
        while run.go_some(STEPS, Nanos(u64::MAX)) {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Stopped::Interrupted);
            }
        }
        let began = self.now;
        self.now = Nanos(began.0 + run.now().0);
        if let Some(fault) = fault.take() {
            return Err(Stopped::Failed(format!("the simulated device: {fault:?}")));
        }
        let steps = steps.take();
        let Some(end) = steps.last().map(|step: &StreamStep| step.pos) else {
            return Ok(ProbeSample::default());
        };
        let again = end.0.min(self.read_upto.0).saturating_sub(from.0 + ramp.0);
        self.next = ByteCount(end.pages_up().0 * PAGE_SIZE);
        self.read_upto = ByteCount(self.read_upto.0.max(end.0));
        Ok(ProbeSample { slices: slices(&steps, began), read_before: ByteCount(again) })
    }

    fn random(&mut self, ask: &RandomReads) -> Result<Vec<u64>, Stopped> {
        let (mut run, file) = self.machine(ask.size)?;
        let places = (self.size().0 / ask.size.0).max(1);
        let at: Vec<u64> = (0..ask.count).map(|_| self.rng.below(places) * ask.size.0).collect();
        let taken = Rc::new(RefCell::new(Vec::new()));
        let (noted, ask) = (Rc::clone(&taken), *ask);
        run.spawn("reader", async move |process: Process| {
            let reader = process.open(file);
            reader.advise(Advice::Random);
            for pos in at {
                let began = process.now();
                reader.forget(ByteCount(pos), ask.size);
                if reader.read(ByteCount(pos), ask.size).await.is_err() {
                    return;
                }
                noted.borrow_mut().push(process.now().0 - began.0);
                if u128::from(process.now().0) >= ask.at_most.as_nanos() {
                    return;
                }
            }
        });
        run.go(Nanos(u64::MAX));
        self.now = Nanos(self.now.0 + run.now().0);
        Ok(taken.take())
    }
}

impl ParallelProbe for SimulatedDevice {
    fn at_once(&mut self, ask: &ReadsAtOnce) -> Result<AtOnceSample, Stopped> {
        let (mut run, file) = self.machine(ask.size)?;
        let places = (self.size().0 / ask.size.0).max(1);
        let reads = Rc::new(Cell::new(0_u64));
        for _ in 0..ask.at_once {
            let (mut rng, counted, ask) =
                (Rng::new(self.rng.below(u64::MAX)), Rc::clone(&reads), *ask);
            run.spawn("reader", async move |process: Process| {
                let reader = process.open(file);
                reader.advise(Advice::Random);
                let mut is_first = true;
                while is_first || u128::from(process.now().0) < ask.time.as_nanos() {
                    is_first = false;
                    let pos = ByteCount(rng.below(places) * ask.size.0);
                    reader.forget(pos, ask.size);
                    if reader.read(pos, ask.size).await.is_err() {
                        return;
                    }
                    counted.set(counted.get() + 1);
                }
            });
        }
        run.go(Nanos(u64::MAX));
        self.now = Nanos(self.now.0 + run.now().0);
        Ok(AtOnceSample { reads: reads.get(), ns: run.now().0 })
    }
}

/// Completion of a window of a stream.
#[derive(Clone, Copy, Debug)]
struct StreamStep {
    at: Nanos,
    pos: ByteCount,
}

/// Reader like `dd bs=4k`.
#[derive(Clone, Copy, Debug)]
struct DdReader {
    ask: SequentialRead,
    from: ByteCount,
    ramp: ByteCount,
    size: ByteCount,
}

impl DdReader {
    /// Records the end of the ramp, and of each window after it.
    async fn read(
        self,
        process: &Process,
        file: SimFile,
        steps: &RefCell<Vec<StreamStep>>,
    ) -> Result<(), Fault> {
        let reader = process.open(file);
        let (window, start) = (self.ask.window.0, self.from.0 + self.ramp.0);
        let mut pos = self.from;
        let mut began = None;
        while pos.0 + PAGE_SIZE <= self.size.0 {
            pos += reader.read(pos, ByteCount(PAGE_SIZE)).await?;
            let at = process.now();
            if pos.0 >= start && (pos.0 - start).is_multiple_of(window) {
                steps.borrow_mut().push(StreamStep { at, pos });
                let began = *began.get_or_insert(at);
                let is_enough = pos.0 - start >= self.ask.at_least.0
                    && u128::from(at.0 - began.0) >= self.ask.time.as_nanos();
                if is_enough && pos.0 > start {
                    break;
                }
            }
            if u128::from(at.0) >= self.ask.at_most.as_nanos() {
                break;
            }
        }
        Ok(())
    }
}

/// Merges windows into a few slices.
fn slices(steps: &[StreamStep], began: Nanos) -> Vec<SampleSlice> {
    let each = steps.len().div_ceil(SLICES).max(1);
    let mut edges: Vec<StreamStep> = steps.iter().step_by(each).copied().collect();
    let rest = steps.last().filter(|last| edges.last().is_some_and(|edge| last.pos > edge.pos));
    edges.extend(rest);
    let slice = |pair: &[StreamStep]| SampleSlice {
        at: Nanos(began.0 + pair[1].at.0),
        bytes: ByteCount(pair[1].pos.0 - pair[0].pos.0),
        ns: pair[1].at.0 - pair[0].at.0,
    };
    edges.windows(2).map(slice).collect()
}

/// Memory of the simulated machine, as in the published sweeps.
const MEMORY_MIN: ByteCount = ByteCount(64 << 20);

/// Windows until a stream is in steady state.
const RAMP: u64 = 2;

/// Approximate maximum of slices per stream.
const SLICES: usize = 32;

/// Events between two checks for an interrupt.
const STEPS: u64 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;
    use foreread_tune::sweep::{Sweep, SweepOutcome, SweepSettings};

    /// The published name of each device, and the name of its model.
    const DEVICES: [(&str, &str); 8] = [
        ("Intel X25-M 80G SSD", "intel-x25m-80g"),
        ("Marvell SD88SA02 22G SSD", "marvell-22g"),
        ("SanDisk SATA 5000 30G SSD", "sandisk-sata5000-30g"),
        ("Teclast CoolFlash 32G USB", "teclast-32g-usb"),
        ("SanDisk Cruzer 4G USB", "sandisk-cruzer-4g-usb"),
        ("Unbranded 0204:6025 2G USB", "usb-stick-2g"),
        ("M-Systems DiskOnKey 64MB USB1.1", "msystems-64m-usb1"),
        ("SD card (unnamed, Yakui)", "sd-card"),
    ];

    fn simulated(model: &str) -> SimulatedDevice {
        SimulatedDevice::find(model, Arc::default()).expect("a known device")
    }

    fn sweep(model: &str, settings: impl Fn(ByteCount) -> SweepSettings) -> SweepOutcome {
        let mut probe = simulated(model);
        let settings = settings(probe.size());
        let budget_ns = settings.budget.as_nanos();
        let outcome = Sweep::new(settings).run(&mut probe, &mut |_| ());
        assert!(u128::from(probe.now.0) <= budget_ns, "{model}: {}", probe.now);
        assert_eq!(outcome.stopped, None, "{model}");
        outcome
    }

    /// The published rows of a device: window in KiB, mean MB/s, whether it is marked.
    fn published(title: &str) -> Vec<(u64, f64, bool)> {
        let table =
            include_str!("../../../../../../sim/data/seed-tables/000_readahead_throughput.csv");
        let mut rows: Vec<(u64, Vec<f64>, bool)> = Vec::new();
        for line in table.lines().filter(|line| line.contains(title)) {
            // A name may have a comma in it: the columns behind it are counted from the end.
            let fields: Vec<&str> = line.rsplit(',').collect();
            let kib = fields[5].parse().expect("a window");
            let mb_per_s = fields[3].parse().expect("a throughput");
            match rows.last_mut() {
                Some(row) if row.0 == kib => row.1.push(mb_per_s),
                _ => rows.push((kib, vec![mb_per_s], fields[2] == "1")),
            }
        }
        let mean = |runs: &[f64]| runs.iter().sum::<f64>() / runs.len() as f64;
        rows.into_iter().map(|(kib, runs, is_marked)| (kib, mean(&runs), is_marked)).collect()
    }

    #[test]
    fn the_plateau_of_the_eight_published_devices_is_the_marked_row_or_costs_at_most_2_percent() {
        for (title, model) in DEVICES {
            let outcome = sweep(model, SweepSettings::full);
            let found = outcome.plateau.expect("a plateau").window.0 >> 10;
            let rows = published(title);
            let marked = rows.iter().find(|row| row.2).expect("one is marked");
            let ours = rows.iter().rfind(|row| row.0 <= found).expect("a row");
            let costs = 1.0 - ours.1 / marked.1;
            println!(
                "{model}: marked {}K, found {found}K of {}K, costs {:.1} %, {:.0} s",
                marked.0,
                outcome.rows.last().expect("rows").window_kib,
                costs * 100.0,
                outcome.seconds
            );
            assert!(costs <= 0.02, "{model}: marked {}K, found {found}K: {outcome:?}", marked.0);
            assert!(found <= 4 * marked.0, "{model}: marked {}K, found {found}K", marked.0);
        }
    }

    #[test]
    fn a_quick_sweep_of_them_loses_little() {
        for (title, model) in DEVICES {
            let outcome = sweep(model, SweepSettings::quick);
            let found = outcome.plateau.expect("a plateau").window.0 >> 10;
            let rows = published(title);
            let marked = rows.iter().find(|row| row.2).expect("one is marked");
            let ours = rows.iter().rfind(|row| row.0 <= found).expect("a row");
            let costs = 1.0 - ours.1 / marked.1;
            assert!(costs <= 0.08, "{model}: marked {}K, found {found}K: {outcome:?}", marked.0);
        }
    }

    #[test]
    fn a_disk_needs_longer_for_larger_reads() {
        let mut probe = simulated("sata-500g");
        let mut mean_ns = |kib: u64| {
            let at_most = std::time::Duration::from_secs(60);
            let ask = RandomReads { size: ByteCount(kib << 10), count: 200, at_most };
            let taken = probe.random(&ask).expect("it reads");
            assert_eq!(taken.len(), 200);
            taken.iter().sum::<u64>() / 200
        };
        let (small, large) = (mean_ns(4), mean_ns(1024));
        assert!(large > small + 5_000_000, "{small} {large}");
    }

    #[test]
    fn an_interrupt_ends_it() {
        let stop: Arc<AtomicBool> = Arc::default();
        let mut probe =
            SimulatedDevice::find("sd-card", Arc::clone(&stop)).expect("a known device");
        let mut calls = 0;
        let outcome = Sweep::new(SweepSettings::quick(probe.size())).run(&mut probe, &mut |_| {
            calls += 1;
            stop.store(calls > 3, Ordering::Relaxed);
        });
        assert_eq!(outcome.stopped, Some(Stopped::Interrupted));
        assert!(SimulatedDevice::names().any(|name| name == "sd-card"));
        assert!(SimulatedDevice::find("sd", stop).is_none());
    }
}
