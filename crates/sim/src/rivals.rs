//! Every policy in the same scenarios.
//!
//! In:    which scenarios, which policies, which parts of `adaptive` are left out.
//! Out:   a row of figures for each, beside the fewest requests that there could be.
//! Never: a verdict that the figures do not give.
//!
//! The scenarios are in `scenarios/rivals/`: what each one shows stands there.

mod list;

use foreread_core::readahead::Policy;
use foreread_core::units::{Bytes, Instant};
use serde::Serialize;

pub use list::{Rival, all, find};

use crate::meter::Totals;
use crate::optimum;
use crate::record::Keep;
use crate::run::{Ran, Run};
use crate::scenario::{PartName, PolicyName, Scenario};
use crate::workload::Workload;

/// What a policy came to in a scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
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
    /// Pages that were read ahead and left the cache before anybody used them: from the start of
    /// the run on.
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
pub struct How {
    /// Who decides.
    pub policy: Policy,
    /// The largest window; None: learnt.
    pub max_window: Option<Bytes>,
    /// Parts that are left out.
    pub without: Vec<PartName>,
}

/// Runs a scenario. `look` is called now and then.
///
/// # Panics
///
/// If a scenario that is part of the program cannot be built.
#[must_use]
pub fn run(rival: &Rival, how: &How, look: &mut dyn FnMut(&Run)) -> Row {
    let mut scenario = rival.scenario();
    how.set(&mut scenario);
    let measured = measure(&scenario, look);
    let (name, policy) = (rival.name, how.policy.name());
    let without = how.without.iter().map(|part| part.name()).collect();
    measured.row(&scenario, name, policy, how.max_window.map(|window| window.0), without)
}

impl How {
    /// Sets it in a scenario.
    pub fn set(&self, scenario: &mut Scenario) {
        scenario.cache.policy = PolicyName(self.policy);
        scenario.cache.max_window = self.max_window.into();
        scenario.cache.without.clone_from(&self.without);
    }
}

/// A scenario that was run, from the time on from which it counts.
#[derive(Debug)]
pub struct Measured {
    /// When that was, and what had happened.
    pub from: Totals,
    /// The end.
    pub to: Totals,
    /// What came of it.
    pub ran: Ran,
}

/// Runs a scenario, and takes its figures from `count_from_s` on. `look` is called now and then.
///
/// # Panics
///
/// If it cannot be built.
pub fn measure(scenario: &Scenario, look: &mut dyn FnMut(&Run)) -> Measured {
    let mut building = scenario.build(Keep::Hash).expect("it was checked when it was read");
    let mut go = |until: Instant| {
        while building.run.go_some(STEPS_BETWEEN_LOOKS, until) {
            look(&building.run);
        }
        building.run.totals()
    };
    let from = go(scenario.count_from());
    let to = go(scenario.until());
    Measured { from, to, ran: building.run.end() }
}

#[expect(clippy::cast_precision_loss, reason = "ratios")]
impl Measured {
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

    /// How many bytes each process read, in the order in which they began.
    #[must_use]
    pub fn read_bytes(&self) -> Vec<u64> {
        let from = self.from.read_bytes.iter().chain(std::iter::repeat(&0));
        self.to.read_bytes.iter().zip(from).map(|(to, from)| to - from).collect()
    }

    /// Bytes that the devices were asked for, a byte that was read.
    #[must_use]
    pub fn amplification(&self) -> f64 {
        let wanted: u64 = self.read_bytes().iter().sum();
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
        let read_bytes = self.read_bytes();
        for (spec, name, start) in scenario.processes() {
            let Workload::Streaming(server) = spec.run.get_ref() else { continue };
            for client in server.clients(&name, start) {
                let is_it = |meter: &crate::meter::Meter| meter.name == client.name;
                let index = self.ran.processes.iter().position(is_it).expect("it was begun");
                let due = server.due_between(&client, self.from.at, self.to.at);
                let short = due * 0.99 - read_bytes[index] as f64;
                at_rate.push(short <= 2.0 * server.read.0.0 as f64);
            }
        }
        at_rate
    }

    fn row(
        &self,
        scenario: &Scenario,
        name: &'static str,
        policy: &'static str,
        max_window: Option<u64>,
        without: Vec<&'static str>,
    ) -> Row {
        let at_rate = self.at_rate(scenario);
        let wanted: u64 = self.read_bytes().iter().sum();
        Row {
            scenario: name,
            policy,
            max_window,
            without,
            elapsed_s: self.elapsed_s(),
            requests: self.requests(),
            device_s: self.to.device_s - self.from.device_s,
            amplification: self.amplification(),
            evicted_unread: self.to.evicted_unread,
            waited_s: self.to.waited_s - self.from.waited_s,
            optimum_requests: self.optimum_requests(scenario),
            mb_per_s: wanted as f64 / self.elapsed_s().max(1e-9) / 1e6,
            streams: at_rate.len(),
            at_rate: at_rate.iter().filter(|is_so| **is_so).count(),
        }
    }
}

/// Some hundredths of a second.
const STEPS_BETWEEN_LOOKS: u64 = 50_000;
