//! The replays of one trace: each policy with each window and each memory size, each seed.

use std::num::NonZero;
use std::path::Path;

use foreread_core::cache::PageCache;
use foreread_core::sizes::Exact;
use foreread_core::units::ByteCount;
use foreread_sim::cache_policy::CachePolicyKind;
use foreread_sim::device::DeviceParams;
use foreread_sim::json_rows::ReplayRow;
use foreread_sim::parallel::run_in_order;
use foreread_sim::replay::{
    Replay, ReplayBounds, ReplayError, ReplayFigures, ReplayPace, TraceFuture, replay,
};
use foreread_sim::scenario::{CacheSpec, EvictionName, PolicyName};
use foreread_sim::size::Size;
use foreread_sim::time_series::{SeriesSpec, TimeSeries};
use foreread_trace::{TraceReader, TraceSummary};

use super::args::ReplayArgs;
use super::report;
use foreread_cli::output::Failure;

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

/// Returns the number of replays per trace.
pub(super) fn count(args: &ReplayArgs, model: &DeviceParams, seeds: &[u64]) -> usize {
    let combinations = args.windows(Some(model)).len() * args.eviction.len();
    args.memory().len() * combinations * seeds.len()
}

/// Returns the requested replays; those that differ only in the seed are adjacent.
pub(super) fn of(
    args: &ReplayArgs,
    model: &DeviceParams,
    pace: ReplayPace,
    (seeds, series): (&[u64], Option<SeriesSpec>),
) -> Result<Vec<ReplayJob>, Failure> {
    let mut jobs = Vec::new();
    // One of each policy: pictures of others are alike.
    let sizes = args.memory();
    let smallest = sizes.iter().copied().min();
    for memory in sizes {
        if memory < PageCache::MIN_BOUND || memory > MAX_MEMORY {
            let (least, most) = (Exact(PageCache::MIN_BOUND), Exact(MAX_MEMORY));
            return Err(Failure::WrongUse(format!("--memory: must be {least} to {most}")));
        }
        let windows = args.windows(Some(model));
        let over = windows.iter().flat_map(|window| {
            let with = move |eviction: &CachePolicyKind| (*window, *eviction);
            args.eviction.iter().map(with)
        });
        for ((policy, max_window), eviction) in over {
            let cache = CacheSpec {
                memory: Size(memory),
                policy: PolicyName(policy),
                eviction: EvictionName(eviction),
                max_window: Some(max_window.into()),
                ..CacheSpec::default()
            };
            let how = Replay {
                cache,
                device: model.clone(),
                pace,
                is_warmed: args.warm,
                group: args.group(),
                has_picture: args.html.is_some() && Some(memory) == smallest,
                series,
                seed: args.seed,
            };
            let with = |seed: &u64| ReplayJob { how: Replay { seed: *seed, ..how.clone() } };
            jobs.extend(seeds.iter().map(with));
        }
    }
    Ok(jobs)
}

/// Runs all replays on all processors, on the named device. Results are in the order of the jobs.
pub(super) fn run_all(
    args: &ReplayArgs,
    (trace, summary): (&Path, &TraceSummary),
    device: &str,
    jobs: &[ReplayJob],
    begun: &(dyn Fn(usize) + Sync),
) -> Result<Vec<Replayed>, ReplayError> {
    let bounds = bounds(args, trace, summary, jobs)?;
    let jobs: Vec<_> = jobs.iter().zip(bounds).collect();
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let run = |(job, bounds): &(&ReplayJob, Option<ReplayBounds>)| {
        let mut figures = replay(&job.how, summary, &|| TraceReader::open(trace, args.format))?;
        let name = trace.display().to_string();
        let row = ReplayRow::new(name, device, summary, &job.how, &figures, *bounds);
        Ok(Replayed {
            notes: report::notes(&row),
            row,
            series: figures.series.take(),
            figures: args.html.is_some().then_some(figures),
        })
    };
    run_in_order(&jobs, threads, &|count, _| begun(count), &run).into_iter().collect()
}

/// The bounds of each job: they follow from its memory alone.
fn bounds(
    args: &ReplayArgs,
    trace: &Path,
    summary: &TraceSummary,
    jobs: &[ReplayJob],
) -> Result<Vec<Option<ReplayBounds>>, ReplayError> {
    if args.no_bounds {
        return Ok(vec![None; jobs.len()]);
    }
    let open = || TraceReader::open(trace, args.format);
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

/// As of a simulated run.
const MAX_MEMORY: ByteCount = ByteCount(64 << 30);
