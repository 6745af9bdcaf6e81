//! A run of a scenario, and its figures from a start time on.

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

/// A scenario that was run and measured from a start time on.
#[derive(Debug)]
pub struct MeasuredRun {
    /// Totals at the start of the measurement.
    pub from: RunTotals,
    /// Totals at the end.
    pub to: RunTotals,
    /// Outcome of the run.
    pub ran: RunOutcome,
    /// Logged reads, if requested.
    pub reads: Vec<LoggedRead>,
    /// Time series, if requested: from the start of the run.
    pub series: Option<TimeSeries>,
    /// Latencies before the measurement, in ns; None if everything is measured.
    latency_before: Option<Histogram<u64>>,
}

/// Data to keep of a run, in addition to its figures.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunKeeps {
    /// Keep the reads, for [`MeasuredRun::lower_bounds`].
    pub reads: bool,
    /// Time series to keep, if any.
    pub series: Option<SeriesSpec>,
}

/// Runs a scenario, and measures it from `count_from_s` on. `look` is called at intervals.
///
/// # Panics
///
/// If it cannot be built.
pub fn measure(scenario: &Scenario, look: &mut dyn FnMut(&SimRun)) -> MeasuredRun {
    measure_keeping(scenario, RunKeeps::default(), look)
}

/// Like [`measure`], and keeps more data of the run.
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
    // Operations that start at time 0 count as well, and running up to 0 would already start them.
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
    /// Returns the length of the measurement, in seconds.
    #[must_use]
    pub fn elapsed_s(&self) -> f64 {
        (self.to.at.0 - self.from.at.0) as f64 / 1e9
    }

    /// Returns the number of requests in the measurement.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.to.requests - self.from.requests
    }

    /// Returns the totals of each process, in start order.
    #[must_use]
    pub fn processes(&self) -> Vec<ProcessTotals> {
        let from = self.from.processes.iter().chain(std::iter::repeat(&NOTHING));
        self.to.processes.iter().zip(from).map(|(to, from)| to.since(*from)).collect()
    }

    /// Returns the totals of the processes with this name prefix.
    #[must_use]
    pub fn of(&self, prefix: &str) -> Vec<ProcessTotals> {
        let is_of = |meter: &ProcessMeter| meter.name.starts_with(prefix);
        let all = self.ran.processes.iter().zip(self.processes());
        all.filter(|(meter, _)| is_of(meter)).map(|(_, done)| done).collect()
    }

    /// Returns the throughput, in MB/s.
    #[must_use]
    pub fn mb_per_s(&self) -> f64 {
        self.read_bytes() as f64 / self.elapsed_s().max(1e-9) / 1e6
    }

    fn read_bytes(&self) -> u64 {
        self.processes().iter().map(|done| done.bytes).sum()
    }

    /// Returns the bytes requested from the devices per byte read.
    #[must_use]
    pub fn amplification(&self) -> f64 {
        let wanted = self.read_bytes();
        (self.to.device_bytes - self.from.device_bytes) as f64 / wanted.max(1) as f64
    }

    /// Returns the latency of the measured operations, in ns. Hits, which take no time, are
    /// excluded: a million of them would hide the waits of the others.
    ///
    /// # Panics
    ///
    /// If the figures were modified.
    #[must_use]
    pub fn wait_latency(&self) -> Histogram<u64> {
        let mut waits = ProcessMeter::latency_of_all(&self.ran.processes);
        if let Some(before) = &self.latency_before {
            waits.subtract(before).expect("the run has the operations of its first part");
        }
        without_hits(waits)
    }

    /// Returns the fewest requests that windows can reach.
    #[must_use]
    pub fn optimum_requests(&self, scenario: &Scenario) -> Option<f64> {
        optimum::of_scenario(scenario, self.ran.frames, self.from.at, self.to.at)
    }

    /// Returns the lower bounds for any policy, on the measured reads; None if the reads were not
    /// kept, or are too many.
    #[must_use]
    pub fn lower_bounds(&self, scenario: &Scenario) -> Option<LowerBounds> {
        let largest = scenario.device.values();
        let largest = largest.map(|spec| spec.model.get_ref().model.geometry().max_io).max()?;
        let from = self.reads.partition_point(|read| read.at < self.from.at);
        let counted = self.reads.get(from..).filter(|reads| !reads.is_empty())?;
        // Numbering takes at least 25 bytes per page, so it is skipped if it cannot succeed.
        let pages: u64 = counted.iter().map(|read| read.pages.end - read.pages.start).sum();
        if pages > FutureUses::MAX_USES as u64 {
            return None;
        }
        let frames = Pages(self.ran.frames.into());
        let cached = if self.from.at > Nanos(0) { frames } else { Pages::ZERO };
        let reads = counted.iter().map(|read| (read.device, read.pages.clone()));
        LowerBounds::of(reads, frames, largest, cached)
    }

    /// Returns for each client of the scenario's streaming servers whether it reached its rate, to
    /// 1 % and two reads.
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

/// Totals of a process that had not begun.
const NOTHING: ProcessTotals =
    ProcessTotals { bytes: 0, windows: 0, window_pages: 0, waited_ns: 0 };

/// Steps between two checks for Ctrl-C: some hundredths of a second.
const STEPS_BETWEEN_LOOKS: u64 = 50_000;
