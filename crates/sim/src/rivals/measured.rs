//! A run of a scenario, and its figures from a time on.

use foreread_core::units::{Nanos, Pages};
use hdrhistogram::Histogram;

use crate::cache_policy::FutureUses;
use crate::lower_bounds::LowerBounds;
use crate::meter::{ProcessMeter, ProcessTotals, RunTotals, without_hits};
use crate::optimum;
use crate::read_log::LoggedRead;
use crate::record::RecordMode;
use crate::run::{RunOutcome, SimRun};
use crate::scenario::Scenario;
use crate::time_series::{SeriesSpec, TimeSeries};
use crate::workload::Workload;

/// A scenario that was run, from the time on from which it counts.
#[derive(Debug)]
pub struct MeasuredRun {
    /// When that was, and what had happened.
    pub from: RunTotals,
    /// The end.
    pub to: RunTotals,
    /// What came of it.
    pub ran: RunOutcome,
    /// Its reads, where they were kept.
    pub reads: Vec<LoggedRead>,
    /// Its series, where one was kept: from the start of the run on.
    pub series: Option<TimeSeries>,
    /// How long the operations took that do not count, in ns; None where all count.
    latency_before: Option<Histogram<u64>>,
}

/// What is kept of a run beside its figures.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunKeeps {
    /// Whether its reads are, for [`MeasuredRun::lower_bounds`].
    pub reads: bool,
    /// How its series is; None: not at all.
    pub series: Option<SeriesSpec>,
}

/// Runs a scenario, and takes its figures from `count_from_s` on. `look` is called now and then.
///
/// # Panics
///
/// If it cannot be built.
pub fn measure(scenario: &Scenario, look: &mut dyn FnMut(&SimRun)) -> MeasuredRun {
    measure_keeping(scenario, RunKeeps::default(), look)
}

/// The same, and keeps more of the run.
///
/// # Panics
///
/// If it cannot be built.
pub fn measure_keeping(
    scenario: &Scenario,
    keeps: RunKeeps,
    look: &mut dyn FnMut(&SimRun),
) -> MeasuredRun {
    let built = scenario.build(RecordMode::Hash);
    let mut run = built.expect("the scenario was checked when it was parsed").run;
    if keeps.reads {
        run.keep_reads();
    }
    if let Some(series) = keeps.series {
        run.keep_series(series);
    }
    let mut go = |run: &mut SimRun, until: Nanos| {
        while run.go_some(STEPS_BETWEEN_LOOKS, until) {
            look(run);
        }
    };
    // What begins at once counts, too: a run that went to time 0 has begun it.
    let counts_all = scenario.count_from() == Nanos(0);
    if !counts_all {
        go(&mut run, scenario.count_from());
    }
    let (from, latency_before) = (run.totals(), (!counts_all).then(|| run.latency()));
    go(&mut run, scenario.until());
    let (to, reads, series) = (run.totals(), run.take_reads(), run.take_series());
    MeasuredRun { from, to, ran: run.end(), reads, series, latency_before }
}

#[expect(clippy::cast_precision_loss, reason = "ratios")]
impl MeasuredRun {
    /// Seconds that were counted.
    #[must_use]
    pub fn elapsed_s(&self) -> f64 {
        (self.to.at.0 - self.from.at.0) as f64 / 1e9
    }

    /// Requests that were counted.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.to.requests - self.from.requests
    }

    /// What each process did, in the order in which they began.
    #[must_use]
    pub fn processes(&self) -> Vec<ProcessTotals> {
        let from = self.from.processes.iter().chain(std::iter::repeat(&NOTHING));
        self.to.processes.iter().zip(from).map(|(to, from)| to.since(*from)).collect()
    }

    /// What those did whose names begin so.
    #[must_use]
    pub fn of(&self, prefix: &str) -> Vec<ProcessTotals> {
        let is_of = |meter: &ProcessMeter| meter.name.starts_with(prefix);
        let all = self.ran.processes.iter().zip(self.processes());
        all.filter(|(meter, _)| is_of(meter)).map(|(_, done)| done).collect()
    }

    /// Bytes that were read a second, in MB.
    #[must_use]
    pub fn mb_per_s(&self) -> f64 {
        self.read_bytes() as f64 / self.elapsed_s().max(1e-9) / 1e6
    }

    fn read_bytes(&self) -> u64 {
        self.processes().iter().map(|done| done.bytes).sum()
    }

    /// Bytes that the devices were asked for, a byte that was read.
    #[must_use]
    pub fn amplification(&self) -> f64 {
        let wanted = self.read_bytes();
        (self.to.device_bytes - self.from.device_bytes) as f64 / wanted.max(1) as f64
    }

    /// How long the operations that were counted took, in ns. Hits, which take no time, are left
    /// out: a million of them would hide what the others waited for.
    ///
    /// # Panics
    ///
    /// If the figures were changed.
    #[must_use]
    pub fn wait_latency(&self) -> Histogram<u64> {
        let mut waits = ProcessMeter::latency_of_all(&self.ran.processes);
        if let Some(before) = &self.latency_before {
            waits.subtract(before).expect("the run has the operations of its first part");
        }
        without_hits(waits)
    }

    /// The fewest requests that windows could come to.
    #[must_use]
    pub fn optimum_requests(&self, scenario: &Scenario) -> Option<f64> {
        optimum::of_scenario(scenario, self.ran.frames, self.from.at, self.to.at)
    }

    /// What no policy can do with less of, for the reads that were counted; None if none were kept,
    /// or too many.
    #[must_use]
    pub fn lower_bounds(&self, scenario: &Scenario) -> Option<LowerBounds> {
        let largest = scenario.device.values();
        let largest = largest.map(|spec| spec.model.get_ref().model.geometry().max_io).max()?;
        let from = self.reads.partition_point(|read| read.at < self.from.at);
        let counted = self.reads.get(from..).filter(|reads| !reads.is_empty())?;
        // Numbering pages takes 25 bytes and more for each, so it is not begun in vain.
        let pages: u64 = counted.iter().map(|read| read.pages.end - read.pages.start).sum();
        if pages > FutureUses::MAX_USES as u64 {
            return None;
        }
        let frames = Pages(self.ran.frames.into());
        let cached = if self.from.at > Nanos(0) { frames } else { Pages::ZERO };
        let reads = counted.iter().map(|read| (read.device, read.pages.clone()));
        LowerBounds::of(reads, frames, largest, cached)
    }

    /// Returns for each client of the scenario's streaming servers whether it got its rate, to 1 %
    /// and two reads.
    ///
    /// # Panics
    ///
    /// If the run was of another scenario.
    #[must_use]
    pub fn at_rate(&self, scenario: &Scenario) -> Vec<bool> {
        let mut at_rate = Vec::new();
        let processes = self.processes();
        for (spec, name, start) in scenario.processes() {
            let Workload::Streaming(server) = spec.run.get_ref() else { continue };
            for client in server.clients(&name, start) {
                let is_it = |meter: &ProcessMeter| meter.name == client.name;
                let index = self
                    .ran
                    .processes
                    .iter()
                    .position(is_it)
                    .expect("each client is a process of the run");
                let due = server.due_between(&client, self.from.at, self.to.at);
                let short = due * 0.99 - processes[index].bytes as f64;
                at_rate.push(short <= 2.0 * server.read.0.0 as f64);
            }
        }
        at_rate
    }
}

/// What a process did that had not begun.
const NOTHING: ProcessTotals =
    ProcessTotals { bytes: 0, windows: 0, window_pages: 0, waited_ns: 0 };

/// Some hundredths of a second.
const STEPS_BETWEEN_LOOKS: u64 = 50_000;
