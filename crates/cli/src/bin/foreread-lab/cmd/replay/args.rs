//! The arguments of `foreread-lab replay`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use foreread_core::cache::PageCache;
use foreread_core::prefetch::Policy;
use foreread_core::sizes::{self, Exact};
use foreread_core::units::{ByteCount, PAGE_SIZE};
use foreread_sim::cache_policy::CachePolicyKind;
use foreread_sim::device::DeviceParams;
use foreread_sim::replay::{CacheUnit, ReplayGroup};
use foreread_sim::rng::DEFAULT_SEED;
use foreread_sim::scenario::MaxWindowSpec;
use foreread_trace::TraceFormat;

use super::plan::{
    CacheMissPlan, LoopKind, RealPlan, ReplayMode, ReplayPlan, ReplayTiming, SimulatedPlan,
};
use super::real::args::{RealArgs, check_policy};
use super::real::opened_target::RunMethod;
use crate::args::device_model::{DeviceModelArg, device_models};
use crate::args::policy::{eviction_policies, simulated_policies};
use crate::args::seeds::{SeedRange, seed_range};
use crate::args::series::SeriesArgs;
use crate::args::trace_format::trace_formats;
use foreread_cli::args::help::CODES_AND_UNITS;
use foreread_cli::args::max_window::{MaxWindow, window_of_pages, windows_of};
use foreread_cli::measure::method::AccessMethod;
use foreread_cli::output::Failure;

/// Replay the reads of a trace in virtual time and report how long they wait
///
/// Runs the reads through the code of the library on a simulated device, once per policy and memory
/// size. `foreread-lab trace` summarises a trace; docs/lab/traces.md has the formats,
/// docs/lab/replay.md explains the figures.
///
/// Columns: waits, percentage of reads that waited; waited s, their total wait; p50, p99 and p99.9
/// of their waits in ms; requests of the device; device s, its busy time; x bytes, device bytes
/// over bytes read; unread, prefetched pages evicted unused; elapsed, virtual seconds.
///
/// Three columns compare with offline optima, which know the whole trace: least s, the least total
/// wait of a read-ahead that reads in trace order; x req, requests over the minimum (- if one
/// request may fill the memory); x MIN, device bytes over those of Belady's MIN.
///
/// With --real TARGET, a file, device or directory is read in real time, with one row per method.
/// Columns: device MB, bytes read from the device; late, reads issued late because the previous
/// read of their thread had not returned; issue p99, delay of the others; length, how much longer
/// the run took than the trace (open loop).
#[derive(Debug, Args)]
#[command(after_long_help = [EXAMPLES, CODES_AND_UNITS].concat())]
pub(crate) struct ReplayArgs {
    /// Trace files, each replayed separately
    #[arg(required = true, value_name = "TRACE")]
    trace: Vec<PathBuf>,

    /// Trace format, if it cannot be detected
    #[arg(long, value_name = "FORMAT", value_parser = trace_formats())]
    format: Option<TraceFormat>,

    /// Device model, enlarged to hold the files: a known one, or a FILE (with a / or ending in
    /// .toml) that `foreread tune --device-model` has written
    #[arg(long, value_name = "NAME|FILE", default_value = "cloud-gp3")]
    #[arg(value_parser = device_models())]
    device: DeviceModelArg,

    /// Read-ahead policies [default: none linux-6 adaptive]
    #[arg(long, value_name = "POLICY", num_args = 1.., value_parser = simulated_policies())]
    policy: Vec<Policy>,

    /// Eviction policies, each run with every policy; two-lists is the library's, the others are
    /// simulated only
    #[arg(
        long, value_name = "POLICY", num_args = 1.., value_parser = eviction_policies(),
        default_values = [CachePolicyKind::TwoLists.name()],
    )]
    eviction: Vec<CachePolicyKind>,

    /// Memory sizes [default: 64M 256M 1G; with --real 256M]
    #[arg(long, value_name = "SIZE", num_args = 1.., value_parser = sizes::parse)]
    memory: Vec<ByteCount>,

    /// Largest windows, each run with every policy [default: auto for adaptive, the bytes
    /// transferred during a seek for competitive, 128K for the others]
    #[arg(long, value_name = "SIZE", num_args = 1.., value_parser = window_of_pages)]
    max_window: Vec<MaxWindow>,

    /// Issue times of reads [default: open for block traces, closed for others]
    #[arg(long = "loop", value_name = "KIND")]
    pace: Option<LoopKind>,

    /// Multiply the times of an open loop, or the think times of a closed one
    ///
    /// 0 in a closed loop: each thread reads as fast as it can.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    scale: f64,

    /// Warm the cache by one uncounted replay
    #[arg(long)]
    warm: bool,

    /// Replay with N consecutive seeds, from FIRST or 1 on, of the random latencies of a device: a
    /// store, or flash with jitter
    ///
    /// Each figure is a mean over the seeds; +- is half of its 95 % confidence interval. x waited
    /// is relative to the first policy with the same eviction policy, memory and seed, and the
    /// window at the same position of --max-window.
    #[arg(long, value_name = "[FIRST+]N", default_value = "1", value_parser = seed_range)]
    seeds: SeedRange,

    /// Omit the offline optima least s, x req and x MIN; saves one pass over the trace, and the
    /// memory for its reads
    #[arg(long)]
    no_bounds: bool,

    /// Add figures per file or per thread to the JSON
    #[arg(long, value_name = "WHAT", requires = "json")]
    per: Option<GroupBy>,

    /// Only count cache misses of these eviction policies, without device or read-ahead
    ///
    /// Reads and writes both access pages; a size of --memory holds one page per 4 KiB.
    #[arg(
        long, value_name = "POLICY", num_args = 1.., value_parser = eviction_policies(),
        conflicts_with_all =
            ["device", "policy", "eviction", "max_window", "pace", "scale", "warm", "per", "series",
             "seeds"],
    )]
    cache: Vec<CachePolicyKind>,

    /// With --cache: capacities in objects; each request accesses one object
    #[arg(long, value_name = "N", num_args = 1.., requires = "cache", conflicts_with = "memory")]
    objects: Vec<usize>,

    #[command(flatten)]
    real: RealArgs,

    /// Also write an HTML report with charts to FILE; the page is self-contained
    ///
    /// Shows the waits for each policy and memory size, by length, place and time, and the windows
    /// and memory of the largest streams. FILE must be absent, empty, or an earlier report.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Also write the table to FILE as CSV, with units in the heading: one row per trace, policy,
    /// window, eviction policy and memory
    ///
    /// The first column is the version of this format: 1 (docs/guide/json.md). Each figure has a
    /// mean over the seeds and a ratio to the first policy, also with one seed. FILE must be
    /// absent, empty, or an earlier table.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cache", "target"])]
    csv: Option<PathBuf>,

    #[command(flatten)]
    series: SeriesArgs,

    /// Print JSON, one data object per row
    ///
    /// Keys: trace, level (block or file), device (its name, with that of its file), policy,
    /// eviction, max_window (bytes; null: learnt), memory (bytes), loop, scale, warm, seed, reads,
    /// bytes, waits, waited_s and least_waited_s (seconds), wait_ms (p50, p99, p999, max: of reads
    /// that waited), requests, fewest_requests, device_bytes, fewest_bytes, device_s, amplification
    /// (device_bytes over bytes), evicted_unread (pages), elapsed_s, late, failed, writes, groups
    /// (name, reads, bytes, waits, waited_s; with --per). Optima are null with
    /// --no-bounds, and where the trace has more than 2^27 pages; fewest_requests also where one
    /// request may fill the memory.
    ///
    /// With --seeds of two and more (command `replay comparison`): trace to bytes as above without
    /// seed, seeds (their number), least_waited_s, fewest_requests, fewest_bytes; waits, waited_s,
    /// wait_p50_ms, wait_p99_ms, wait_p999_ms, requests, requests_over_fewest, device_bytes,
    /// bytes_over_fewest, device_s, amplification, evicted_unread and elapsed_s, each with mean,
    /// half_width (of the 95 % interval) and over_first (ratio, low, high; null for the first
    /// policy, and where a figure is 0); runs, each as without --seeds.
    ///
    /// With --cache: trace, policy, capacity (of unit: page or object), uses, misses, miss_ratio,
    /// fewest_misses.
    ///
    /// With --real (command `replay real`): trace, level, mapping, method, policy, max_window and
    /// memory (bytes; of foreread), loop, scale, threads, reads, bytes, waits, waited_s, wait_ms
    /// (p50, p95, p99, p999, max), mb_per_s (10^6 bytes), device_bytes, elapsed_s, trace_s,
    /// length_error (a share; null in a closed loop), issue_delay_ms (p50, p99, max: of reads that
    /// were not late), late, starved, wrapped, writes, interrupted.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  foreread-lab replay program.frt --device nvme-990pro-2t --memory 256M 1G
  foreread tune /dev/sdb --device-model sdb.toml; foreread-lab replay program.frt --device sdb.toml
  foreread-lab replay hm_1.csv.gz --policy linux-6 adaptive --max-window 128K 1M
  foreread-lab replay program.frt --html replay.html
  foreread-lab replay program.frt --memory 64M --series series.csv
  foreread-lab replay program.frt --device store.toml --seeds 10
  foreread-lab replay program.frt --memory 64M 256M 1G --csv table.csv
  foreread-lab replay program.frt --real /mnt/copy --memory 64M 256M
  foreread-lab replay disk.vscsi --real /dev/sdb --loop open --scale 0.5 --wrap
  foreread-lab replay program.frt --policy linux-6 adaptive --eviction two-lists s3-fifo sieve
  foreread-lab replay disk.vscsi --cache fifo lru s3-fifo --memory 16M 64M 256M --json

";

/// Issue times of reads.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum GroupBy {
    /// Each file
    File,
    /// Each thread
    Thread,
}

impl ReplayArgs {
    /// Checks the options, and reads the model of the device.
    pub(super) fn resolve(&self) -> Result<ReplayPlan, Failure> {
        if !(0.0..=1e6).contains(&self.scale) {
            return Err(Failure::WrongUse("--scale: must be 0 to 1000000".to_owned()));
        }
        let seeds = self.seeds.seeds(DEFAULT_SEED).map_err(Failure::WrongUse)?;
        if seeds.len() > 1 && self.html.is_some() {
            let seeds = seeds.len();
            return Err(Failure::WrongUse(format!(
                "--html: cannot show {seeds} seeds; give one, or --json for all"
            )));
        }
        let mode = if !self.cache.is_empty() {
            ReplayMode::CacheMisses(self.cache_misses()?)
        } else if let Some(target) = self.real.target() {
            ReplayMode::Real(self.real(target)?)
        } else {
            ReplayMode::Simulated(Box::new(self.simulated(seeds)?))
        };
        Ok(ReplayPlan {
            traces: self.trace.clone(),
            format: self.format,
            has_bounds: !self.no_bounds,
            json: self.json,
            html: self.html.clone(),
            mode,
        })
    }

    fn simulated(&self, seeds: Vec<u64>) -> Result<SimulatedPlan, Failure> {
        let device = self.device.load()?;
        let device_file = match &self.device {
            DeviceModelArg::File(path) => Some(path.clone()),
            DeviceModelArg::Known(_) => None,
        };
        let standard = [Policy::None, Policy::Linux6, Policy::Adaptive];
        Ok(SimulatedPlan {
            windows: self.windows(&standard, Some(&device.model)),
            device,
            device_file,
            evictions: self.eviction.clone(),
            memories: self.memories(&MEMORY, MAX_MEMORY)?,
            timing: self.timing(),
            is_warmed: self.warm,
            seeds,
            group: match self.per {
                None => ReplayGroup::Whole,
                Some(GroupBy::File) => ReplayGroup::File,
                Some(GroupBy::Thread) => ReplayGroup::Thread,
            },
            csv: self.csv.clone(),
            series: self.series.resolve(),
        })
    }

    fn cache_misses(&self) -> Result<CacheMissPlan, Failure> {
        let policies = self.cache.clone();
        if !self.objects.is_empty() {
            let capacities = self.objects.clone();
            return Ok(CacheMissPlan { policies, unit: CacheUnit::Object, capacities });
        }
        let pages = |memory: &ByteCount| {
            let too_much = |_| Failure::WrongUse("--memory: more than can be addressed".to_owned());
            usize::try_from(memory.0 / PAGE_SIZE).map_err(too_much)
        };
        let memories = if self.memory.is_empty() { &MEMORY[..] } else { &self.memory };
        let capacities = memories.iter().map(pages).collect::<Result<_, _>>()?;
        Ok(CacheMissPlan { policies, unit: CacheUnit::Page, capacities })
    }

    /// Plans a run for each method, and for foreread one for each memory size, policy and window.
    fn real(&self, target: &Path) -> Result<RealPlan, Failure> {
        let memories = self.memories(&REAL_MEMORY, PageCache::MAX_BOUND)?;
        let windows = self.windows(&[Policy::Adaptive], None);
        for (policy, _) in &windows {
            check_policy(*policy)?;
        }
        let mut all = Vec::new();
        for memory in memories {
            all.extend(windows.iter().map(|(policy, max_window)| (memory, *policy, *max_window)));
        }
        let of_method = |method| {
            let each = if method == AccessMethod::Foreread { &all[..] } else { &all[..1] };
            let run = move |(memory, policy, max_window): &(_, _, _)| RunMethod {
                method,
                policy: *policy,
                max_window: *max_window,
                memory: *memory,
            };
            each.iter().map(run)
        };
        Ok(RealPlan {
            target: target.to_owned(),
            methods: self.real.methods().into_iter().flat_map(of_method).collect(),
            timing: self.timing(),
            is_warmed: self.warm,
            wraps: self.real.wrap,
            workers: self.real.workers,
        })
    }

    fn timing(&self) -> ReplayTiming {
        ReplayTiming { kind: self.pace, scale: self.scale }
    }

    /// Returns the memory sizes of the engine's or the simulated cache.
    fn memories(&self, default: &[ByteCount], max: ByteCount) -> Result<Vec<ByteCount>, Failure> {
        let memories = if self.memory.is_empty() { default } else { &self.memory };
        let min = PageCache::MIN_BOUND;
        if memories.iter().any(|memory| *memory < min || *memory > max) {
            let (min, max) = (Exact(min), Exact(max));
            return Err(Failure::WrongUse(format!("--memory: must be {min} to {max}")));
        }
        Ok(memories.to_vec())
    }

    /// Returns each policy with each of its largest windows; None: learnt. The window of some
    /// policies follows from the model of the device, if there is one.
    fn windows(
        &self,
        default: &[Policy],
        model: Option<&DeviceParams>,
    ) -> Vec<(Policy, Option<ByteCount>)> {
        let policies = if self.policy.is_empty() { default } else { &self.policy };
        windows_of(policies, &self.max_window, |policy| MaxWindowSpec::default_of(policy, model))
    }
}

const MEMORY: [ByteCount; 3] = [ByteCount(64 << 20), ByteCount(256 << 20), ByteCount(1 << 30)];

/// Default memory sizes on a real target: only one, since each run takes as long as the trace.
const REAL_MEMORY: [ByteCount; 1] = [ByteCount(256 << 20)];

/// Largest memory, the same as in a simulated run.
const MAX_MEMORY: ByteCount = ByteCount(64 << 30);
