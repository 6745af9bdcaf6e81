//! Every policy in the same scenarios.
//!
//! In:    which scenarios, which policies, which parts of `adaptive` are left out.
//! Out:   a row of figures for each, beside the fewest requests that there could be.
//! Never: a verdict that the figures do not give.
//!
//! The scenarios are in `scenarios/rivals/`: what each one shows stands there.

mod list;
mod losses;

use std::sync::atomic::{AtomicUsize, Ordering};

use foreread_core::prefetch::Policy;
use foreread_core::units::{ByteCount, Nanos};
use serde::Serialize;

pub use list::{Rival, all, find};
pub use losses::{Loss, losses};

use crate::meter::{ProcessMeter, ProcessTotals, RunTotals};
use crate::optimum;
use crate::record::RecordMode;
use crate::run::{RunOutcome, SimRun};
use crate::scenario::{PartName, PolicyName, Scenario};
use crate::workload::Workload;

/// What a policy came to in a scenario.
#[derive(Clone, Debug, Serialize)]
pub struct RivalRow {
    /// Which scenario.
    pub scenario: &'static str,
    /// Which policy.
    pub policy: &'static str,
    /// The largest window that it may have, in bytes; None: learnt.
    pub max_window: Option<u64>,
    /// Which parts of it are left out.
    pub without: Vec<&'static str>,
    /// How long what was counted took, in seconds.
    pub elapsed_s: f64,
    /// How many requests the devices were sent.
    pub requests: u64,
    /// How long the devices were at work, in seconds.
    pub device_s: f64,
    /// Bytes that the devices were asked for, a byte that was read.
    pub amplification: f64,
    /// Pages that were read ahead and evicted unused, from the start of the run on.
    pub evicted_unread: u64,
    /// How long all readers waited for reads, in seconds.
    pub waited_s: f64,
    /// The fewest requests that windows could come to; None where no formula says so.
    pub optimum_requests: Option<f64>,
    /// Bytes that were read a second, in MB.
    pub mb_per_s: f64,
    /// Clients with a rate.
    pub streams: usize,
    /// How many of them got it.
    pub at_rate: usize,
}

/// How a scenario is run.
#[derive(Clone, Debug)]
pub struct PolicySetup {
    /// The read-ahead policy.
    pub policy: Policy,
    /// The largest window; None: learnt.
    pub max_window: Option<ByteCount>,
    /// Parts that are left out.
    pub without: Vec<PartName>,
}

/// Runs a scenario. `look` is called now and then.
///
/// # Panics
///
/// If a scenario that is part of the program cannot be built.
#[must_use]
pub fn run(rival: &Rival, how: &PolicySetup, look: &mut dyn FnMut(&SimRun)) -> RivalRow {
    let mut scenario = rival.scenario();
    how.set(&mut scenario);
    let measured = measure(&scenario, look);
    let at_rate = measured.at_rate(&scenario);
    let optimum = measured.optimum_requests(&scenario);
    RivalRow {
        scenario: rival.name,
        policy: how.policy.name(),
        max_window: how.max_window.map(|window| window.0),
        without: how.without.iter().map(|part| part.name()).collect(),
        elapsed_s: measured.elapsed_s(),
        requests: measured.requests(),
        device_s: measured.to.device_s - measured.from.device_s,
        amplification: measured.amplification(),
        evicted_unread: measured.to.evicted_unread,
        waited_s: measured.to.waited_s - measured.from.waited_s,
        optimum_requests: optimum.filter(|_| rival.is_streaming()),
        mb_per_s: measured.mb_per_s(),
        streams: at_rate.len(),
        at_rate: at_rate.iter().filter(|is_so| **is_so).count(),
    }
}

/// A scenario and a way to run it.
#[derive(Clone, Debug)]
pub struct RivalJob {
    /// Which.
    pub rival: &'static Rival,
    /// How.
    pub how: PolicySetup,
}

/// Runs all of them, on so many threads; the rows come in the order of the jobs. `progress` is told
/// how many have begun, and which was the last.
///
/// # Panics
///
/// If one of them does.
pub fn run_all(
    jobs: &[RivalJob],
    threads: usize,
    progress: &(dyn Fn(usize, &RivalJob) + Sync),
) -> Vec<RivalRow> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut rows = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(index) else { return rows };
            progress(index + 1, job);
            rows.push((index, run(job.rival, &job.how, &mut |_| {})));
        }
    };
    let mut rows: Vec<(usize, RivalRow)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a run")).collect()
    });
    rows.sort_by_key(|(index, _)| *index);
    rows.into_iter().map(|(_, row)| row).collect()
}

impl PolicySetup {
    /// Sets it in a scenario.
    pub fn set(&self, scenario: &mut Scenario) {
        scenario.cache.policy = PolicyName(self.policy);
        scenario.cache.max_window = self.max_window.into();
        scenario.cache.without.clone_from(&self.without);
    }
}

/// A scenario that was run, from the time on from which it counts.
#[derive(Debug)]
pub struct MeasuredRun {
    /// When that was, and what had happened.
    pub from: RunTotals,
    /// The end.
    pub to: RunTotals,
    /// What came of it.
    pub ran: RunOutcome,
}

/// Runs a scenario, and takes its figures from `count_from_s` on. `look` is called now and then.
///
/// # Panics
///
/// If it cannot be built.
pub fn measure(scenario: &Scenario, look: &mut dyn FnMut(&SimRun)) -> MeasuredRun {
    let mut building = scenario.build(RecordMode::Hash).expect("it was checked when it was read");
    // What begins at once counts, too: a run that went to time 0 has begun it.
    let all = (scenario.count_from() == Nanos(0)).then(|| building.run.totals());
    let mut go = |until: Nanos| {
        while building.run.go_some(STEPS_BETWEEN_LOOKS, until) {
            look(&building.run);
        }
        building.run.totals()
    };
    let from = all.unwrap_or_else(|| go(scenario.count_from()));
    let to = go(scenario.until());
    MeasuredRun { from, to, ran: building.run.end() }
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

    /// The fewest requests that windows could come to.
    #[must_use]
    pub fn optimum_requests(&self, scenario: &Scenario) -> Option<f64> {
        optimum::of_scenario(scenario, self.ran.frames, self.from.at, self.to.at)
    }

    /// For each client of the scenario's streaming servers: whether it got its rate, to a hundredth
    /// and two reads.
    #[must_use]
    pub fn at_rate(&self, scenario: &Scenario) -> Vec<bool> {
        let mut at_rate = Vec::new();
        let processes = self.processes();
        for (spec, name, start) in scenario.processes() {
            let Workload::Streaming(server) = spec.run.get_ref() else { continue };
            for client in server.clients(&name, start) {
                let is_it = |meter: &ProcessMeter| meter.name == client.name;
                let index = self.ran.processes.iter().position(is_it).expect("it was begun");
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
