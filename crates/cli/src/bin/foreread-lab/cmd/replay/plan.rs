//! Plan of `foreread-lab replay`: its options, checked and resolved.

use std::path::PathBuf;

use clap::ValueEnum;
use foreread_core::prefetch::Policy;
use foreread_core::units::ByteCount;
use foreread_sim::cache_policy::CachePolicyKind;
use foreread_sim::replay::{CacheUnit, ReplayGroup, ReplayPace};
use foreread_trace::{TraceFormat, TraceLevel, TraceSummary};

use super::real::opened_target::RunMethod;
use crate::args::device_model::ChosenDevice;
use crate::series_plan::SeriesPlan;

/// What is replayed, and where the figures go.
#[derive(Debug)]
pub(super) struct ReplayPlan {
    /// Traces, each replayed separately.
    pub(super) traces: Vec<PathBuf>,
    /// None: detected.
    pub(super) format: Option<TraceFormat>,
    /// Returns the offline optima, too.
    pub(super) has_bounds: bool,
    pub(super) json: bool,
    pub(super) html: Option<PathBuf>,
    pub(super) mode: ReplayMode,
}

/// What replays the reads.
#[derive(Debug)]
pub(super) enum ReplayMode {
    /// The library's path on a model of a device.
    Simulated(Box<SimulatedPlan>),
    /// Eviction policies alone, whose misses are counted.
    CacheMisses(CacheMissPlan),
    /// Threads that read a file, device or directory.
    Real(RealPlan),
}

/// A replay in virtual time: each combination of policy, memory size, eviction policy and seed.
#[derive(Debug)]
pub(super) struct SimulatedPlan {
    pub(super) device: ChosenDevice,
    /// File that the model was read from.
    pub(super) device_file: Option<PathBuf>,
    /// Each policy with each of its largest windows; None: learnt.
    pub(super) windows: Vec<(Policy, Option<ByteCount>)>,
    pub(super) evictions: Vec<CachePolicyKind>,
    pub(super) memories: Vec<ByteCount>,
    pub(super) timing: ReplayTiming,
    pub(super) is_warmed: bool,
    pub(super) seeds: Vec<u64>,
    pub(super) group: ReplayGroup,
    pub(super) csv: Option<PathBuf>,
    pub(super) series: SeriesPlan,
}

impl SimulatedPlan {
    /// Returns the number of replays per trace.
    pub(super) fn count(&self) -> usize {
        self.windows.len() * self.evictions.len() * self.memories.len() * self.seeds.len()
    }
}

/// Counting of misses.
#[derive(Debug)]
pub(super) struct CacheMissPlan {
    pub(super) policies: Vec<CachePolicyKind>,
    /// Unit of the capacities.
    pub(super) unit: CacheUnit,
    pub(super) capacities: Vec<usize>,
}

/// A replay in real time.
#[derive(Debug)]
pub(super) struct RealPlan {
    pub(super) target: PathBuf,
    /// Methods, with a separate run for each.
    pub(super) methods: Vec<RunMethod>,
    pub(super) timing: ReplayTiming,
    pub(super) is_warmed: bool,
    /// Reads past the end of the target wrap around to its start.
    pub(super) wraps: bool,
    /// None: the threads of the trace.
    pub(super) workers: Option<u32>,
}

/// Times at which reads are issued.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplayTiming {
    /// None: open for block traces, closed for others.
    pub(super) kind: Option<LoopKind>,
    /// Factor of the times of an open loop, or of the think times of a closed one.
    pub(super) scale: f64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(super) enum LoopKind {
    /// At the times of the trace, independent of earlier reads
    Open,
    /// When the previous read of the thread has returned and its think time has passed
    Closed,
}

impl ReplayTiming {
    /// Returns the pace of this trace.
    pub(super) fn pace(self, summary: &TraceSummary) -> ReplayPace {
        let of_level = match summary.level() {
            TraceLevel::Block => LoopKind::Open,
            TraceLevel::File => LoopKind::Closed,
        };
        match self.kind.unwrap_or(of_level) {
            LoopKind::Open => ReplayPace::Open { scale: self.scale },
            LoopKind::Closed => ReplayPace::Closed { think: self.scale },
        }
    }
}
