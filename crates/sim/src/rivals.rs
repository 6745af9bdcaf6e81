//! Every policy in the same scenarios.
//!
//! In:    the scenarios, the policies, the disabled parts of `adaptive`.
//! Out:   a row of figures for each, with the lower bound of requests.
//!
//! The scenarios are in `scenarios/rivals/`; each file describes its purpose.

mod list;
mod losses;
mod measured;
mod row;
mod setup;
mod summary;

pub use list::{Rival, all, find};
pub use losses::{Loss, losses};
pub use measured::{MeasuredRun, RunKeeps, measure, measure_keeping};
pub use row::RivalRow;
pub use setup::PolicySetup;
pub use summary::{RivalSummary, summaries};

use foreread_core::prefetch::AdaptivePart;
use foreread_core::units::PAGE_SIZE;

use crate::cache_policy::CachePolicyKind;
use crate::parallel::run_in_order;
use crate::run::SimRun;
use crate::scenario::{EvictionName, Scenario};

/// Runs a scenario. `look` is called at intervals.
///
/// # Panics
///
/// If a scenario that is part of the program cannot be built.
#[must_use]
pub fn run(rival: &Rival, how: &PolicySetup, look: &mut dyn FnMut(&SimRun)) -> RivalRow {
    let mut scenario = rival.scenario();
    how.set(&mut scenario);
    row(rival, how, &scenario, &measure(&scenario, look))
}

/// Like [`run`], with an eviction policy and the lower bounds for any policy.
fn run_bounded(rival: &Rival, how: &PolicySetup, eviction: CachePolicyKind) -> RivalRow {
    let mut scenario = rival.scenario();
    how.set(&mut scenario);
    scenario.cache.eviction = EvictionName(eviction);
    let keeps = RunKeeps { reads: true, series: None };
    let measured = measure_keeping(&scenario, keeps, &mut |_| {});
    let bounds = measured.lower_bounds(&scenario);
    RivalRow {
        fewest_requests: bounds.and_then(|bounds| bounds.fewest_requests),
        fewest_bytes: bounds.map(|bounds| bounds.fewest_pages * PAGE_SIZE),
        ..row(rival, how, &scenario, &measured)
    }
}

fn row(rival: &Rival, how: &PolicySetup, scenario: &Scenario, measured: &MeasuredRun) -> RivalRow {
    let at_rate = measured.at_rate(scenario);
    let optimum = measured.optimum_requests(scenario);
    RivalRow {
        scenario: rival.name,
        policy: how.policy.name(),
        eviction: scenario.cache.eviction.0.name(),
        max_window: how.max_window.map(|window| window.0),
        without: how.without.parts().map(AdaptivePart::name).collect(),
        elapsed_s: measured.elapsed_s(),
        requests: measured.requests(),
        device_s: measured.to.device_s - measured.from.device_s,
        amplification: measured.amplification(),
        evicted_unread: measured.to.evicted_unread,
        waited_s: measured.to.waited_s - measured.from.waited_s,
        optimum_requests: optimum.filter(|_| rival.is_streaming()),
        fewest_requests: None,
        fewest_bytes: None,
        device_bytes: measured.to.device_bytes - measured.from.device_bytes,
        mb_per_s: measured.mb_per_s(),
        streams: at_rate.len(),
        at_rate: at_rate.iter().filter(|is_so| **is_so).count(),
    }
}

/// A scenario and a policy to run it with.
#[derive(Clone, Debug)]
pub struct RivalJob {
    /// The scenario.
    pub rival: &'static Rival,
    /// The policy.
    pub how: PolicySetup,
}

/// Runs all jobs, on the given number of threads. Rows are in the order of the jobs. `progress`
/// receives the number of jobs that have begun, and the latest.
///
/// # Panics
///
/// If a job panics.
pub fn run_all(
    jobs: &[RivalJob],
    threads: usize,
    progress: &(dyn Fn(usize, &RivalJob) + Sync),
) -> Vec<RivalRow> {
    run_all_over(jobs, &[CachePolicyKind::TwoLists], threads, progress)
}

/// Like [`run_all`], each job with each of these eviction policies.
///
/// # Panics
///
/// If a job panics.
pub fn run_all_over(
    jobs: &[RivalJob],
    evictions: &[CachePolicyKind],
    threads: usize,
    progress: &(dyn Fn(usize, &RivalJob) + Sync),
) -> Vec<RivalRow> {
    let with_each = |job| evictions.iter().map(move |eviction| (job, *eviction));
    let jobs: Vec<(&RivalJob, CachePolicyKind)> = jobs.iter().flat_map(with_each).collect();
    run_in_order(&jobs, threads, &|count, (job, _)| progress(count, job), &|(job, eviction)| {
        run_bounded(job.rival, &job.how, *eviction)
    })
}
