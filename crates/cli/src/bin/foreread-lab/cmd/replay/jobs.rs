//! The replays of one trace: each policy with each window and each memory size, each seed.

use std::num::NonZero;
use std::path::Path;

use foreread_core::units::ByteCount;
use foreread_sim::cache_policy::CachePolicyKind;
use foreread_sim::json_rows::ReplayRow;
use foreread_sim::parallel::run_in_order;
use foreread_sim::replay::{
    Replay, ReplayBounds, ReplayError, ReplayFigures, ReplayPace, TraceFuture, replay,
};
use foreread_sim::scenario::{CacheSpec, EvictionName, PolicyName};
use foreread_sim::size::Size;
use foreread_sim::time_series::{SeriesSpec, TimeSeries};
use foreread_trace::{TraceReader, TraceSummary};

use super::plan::{ReplayPlan, SimulatedPlan};
use super::report;

/// One replay.
#[derive(Clone, Debug)]
pub(super) struct ReplayJob {
    pub(super) how: Replay,
}

/// Result of one replay.
pub(super) struct Replayed {
    pub(super) row: ReplayRow,
    pub(super) series: Option<TimeSeries>,
    pub(super) notes: Vec<String>,
    /// All figures, for the report only: their distributions have up to 400 KB.
    pub(super) figures: Option<ReplayFigures>,
}

/// Returns the requested replays; those that differ only in the seed are adjacent.
///
/// With the smallest memory each has a picture if `has_pictures`: those of others are alike.
pub(super) fn of(
    plan: &SimulatedPlan,
    pace: ReplayPace,
    series: Option<SeriesSpec>,
    has_pictures: bool,
) -> Vec<ReplayJob> {
    let mut jobs = Vec::new();
    let smallest = plan.memories.iter().copied().min();
    for memory in &plan.memories {
        let over = plan.windows.iter().flat_map(|window| {
            let with = move |eviction: &CachePolicyKind| (*window, *eviction);
            plan.evictions.iter().map(with)
        });
        for ((policy, max_window), eviction) in over {
            let cache = CacheSpec {
                memory: Size(*memory),
                policy: PolicyName(policy),
                eviction: EvictionName(eviction),
                max_window: Some(max_window.into()),
                ..CacheSpec::default()
            };
            let with = |seed: &u64| ReplayJob {
                how: Replay {
                    cache: cache.clone(),
                    device: plan.device.model.clone(),
                    pace,
                    is_warmed: plan.is_warmed,
                    group: plan.group,
                    has_picture: has_pictures && Some(*memory) == smallest,
                    series,
                    seed: *seed,
                },
            };
            jobs.extend(plan.seeds.iter().map(with));
        }
    }
    jobs
}

/// Runs all replays on all processors, on the named device. Results are in the order of the jobs.
pub(super) fn run_all(
    plan: &ReplayPlan,
    (trace, summary): (&Path, &TraceSummary),
    device: &str,
    jobs: &[ReplayJob],
    begun: &(dyn Fn(usize) + Sync),
) -> Result<Vec<Replayed>, ReplayError> {
    let bounds = bounds(plan, trace, summary, jobs)?;
    let jobs: Vec<_> = jobs.iter().zip(bounds).collect();
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let run = |(job, bounds): &(&ReplayJob, Option<ReplayBounds>)| {
        let mut figures = replay(&job.how, summary, &|| TraceReader::open(trace, plan.format))?;
        let name = trace.display().to_string();
        let row = ReplayRow::new(name, device, summary, &job.how, &figures, *bounds);
        Ok(Replayed {
            notes: report::notes(&row),
            row,
            series: figures.series.take(),
            figures: plan.html.is_some().then_some(figures),
        })
    };
    run_in_order(&jobs, threads, &|count, _| begun(count), &run).into_iter().collect()
}

/// Computes the bounds of each job, which depend only on its memory.
fn bounds(
    plan: &ReplayPlan,
    trace: &Path,
    summary: &TraceSummary,
    jobs: &[ReplayJob],
) -> Result<Vec<Option<ReplayBounds>>, ReplayError> {
    if !plan.has_bounds {
        return Ok(vec![None; jobs.len()]);
    }
    let open = || TraceReader::open(trace, plan.format);
    let future = TraceFuture::of(summary, &open)?;
    let mut known: Vec<(ByteCount, Option<ReplayBounds>)> = Vec::new();
    let of = |job: &ReplayJob| {
        let memory = job.how.cache.memory.0;
        if let Some((_, bounds)) = known.iter().find(|(of, _)| *of == memory) {
            return Ok(*bounds);
        }
        let bounds = future.as_ref().map(|future| future.bounds(&job.how, &open)).transpose()?;
        known.push((memory, bounds));
        Ok(bounds)
    };
    jobs.iter().map(of).collect()
}
