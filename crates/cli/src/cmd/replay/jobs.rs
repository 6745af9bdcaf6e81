//! The replays of one trace: each policy with each window and each memory size.

use std::num::NonZero;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use foreread_core::cache::PageCache;
use foreread_core::prefetch::Policy;
use foreread_core::sizes::Exact;
use foreread_core::units::ByteCount;
use foreread_sim::replay::{Replay, ReplayError, ReplayFigures, ReplayPace, replay};
use foreread_sim::scenario::{CacheSpec, PolicyName};
use foreread_sim::size::Size;
use foreread_trace::{TraceReader, TraceSummary};

use super::args::ReplayArgs;
use crate::output::Failure;

/// One replay.
#[derive(Clone, Debug)]
pub(super) struct ReplayJob {
    pub(super) policy: Policy,
    /// None: learnt.
    pub(super) max_window: Option<ByteCount>,
    pub(super) memory: ByteCount,
    how: Replay,
}

impl ReplayJob {
    pub(super) fn group(&self) -> foreread_sim::replay::ReplayGroup {
        self.how.group
    }

    /// The policy, and the largest window that it was given.
    pub(super) fn label(&self) -> String {
        match self.max_window.filter(|_| self.policy != Policy::None) {
            Some(window) => format!("{} {}", self.policy.name(), Exact(window)),
            None => self.policy.name().to_owned(),
        }
    }
}

/// The replays that are asked for.
pub(super) fn of(args: &ReplayArgs, pace: ReplayPace) -> Result<Vec<ReplayJob>, Failure> {
    let mut jobs = Vec::new();
    // One of each policy: pictures of others are alike.
    let sizes = args.memory();
    let smallest = sizes.iter().copied().min();
    for memory in sizes {
        if memory < PageCache::MIN_BOUND || memory > MAX_MEMORY {
            let (least, most) = (Exact(PageCache::MIN_BOUND), Exact(MAX_MEMORY));
            return Err(Failure::WrongUse(format!("--memory: wants {least} to {most}")));
        }
        for (policy, max_window) in args.windows() {
            let cache = CacheSpec {
                memory: Size(memory),
                policy: PolicyName(policy),
                max_window: max_window.into(),
                ..CacheSpec::default()
            };
            let how = Replay {
                cache,
                device: args.device.model.clone(),
                pace,
                is_warmed: args.warm,
                group: args.group(),
                has_picture: args.html.is_some() && Some(memory) == smallest,
            };
            jobs.push(ReplayJob { policy, max_window, memory, how });
        }
    }
    Ok(jobs)
}

/// Runs all of them, on all processors; the figures come in the order of the jobs.
pub(super) fn run_all(
    args: &ReplayArgs,
    trace: &Path,
    summary: &TraceSummary,
    jobs: &[ReplayJob],
    begun: &(dyn Fn(usize) + Sync),
) -> Result<Vec<ReplayFigures>, ReplayError> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let work = || {
        let open = || TraceReader::open(trace, args.format);
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(index) else { return };
            begun(index + 1);
            let figures = replay(&job.how, summary, &open);
            done.lock().expect("no holder of the lock panics").push((index, figures));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(jobs.len());
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let mut done = done.into_inner().expect("no holder of the lock panics");
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, figures)| figures).collect()
}

/// As of a simulated run.
const MAX_MEMORY: ByteCount = ByteCount(64 << 30);
