//! The arguments of `foreread replay`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use foreread_core::prefetch::Policy;
use foreread_core::sizes;
use foreread_core::units::ByteCount;
use foreread_sim::cache_policy::CachePolicyKind;
use foreread_sim::device::DeviceParams;
use foreread_sim::replay::{ReplayGroup, ReplayPace};
use foreread_sim::rng::DEFAULT_SEED;
use foreread_sim::scenario::MaxWindowSpec;
use foreread_trace::{TraceFormat, TraceLevel, TraceSummary};

use super::real::RealArgs;
use crate::args::device_model::{DeviceModelArg, device_models};
use crate::args::help::CODES_AND_UNITS;
use crate::args::max_window::{MaxWindow, window_of_pages, windows_of};
use crate::args::policy::{eviction_policies, simulated_policies};
use crate::args::series::SeriesArgs;
use crate::args::trace_format::trace_formats;
use crate::intervals::MAX_SEEDS;
use crate::output::Failure;

/// Replay the reads of a trace in virtual time: what would they have waited for?
///
/// The reads run through the same path as the library's, on a model of a device, once for each
/// policy and memory size. `foreread trace` says what a trace holds; docs/traces.md has the
/// formats, docs/replay.md how to read the figures.
///
/// Columns: waits, reads that waited, in percent; waited s, the sum of all waits; p50, p99 and
/// p99.9 of the reads that waited, in ms; requests of the device; device s, how long it was at
/// work; x bytes, bytes that the device was asked for over bytes read; unread, pages that were read
/// ahead and evicted unused; elapsed, virtual seconds.
///
/// Three columns say how far that is from what knows the whole trace: least s, the least sum of
/// waits of read-ahead that reads in the order of the trace; x req, requests over the fewest (-
/// where one request may fill the memory); and x MIN, bytes of the device over those of Belady's
/// MIN, which evicts what is used last.
///
/// With --real TARGET the reads are made: a row for each method on a file, device or directory, in
/// real time. Columns: device MB, what the device was asked for; late, reads that were issued late
/// because the read before of their thread had not returned; issue p99, how late the others were;
/// length, how much longer the run was than the trace (open loop).
#[derive(Debug, Args)]
#[command(after_long_help = [EXAMPLES, CODES_AND_UNITS].concat())]
pub(crate) struct ReplayArgs {
    /// The traces, each replayed by itself
    #[arg(required = true, value_name = "TRACE")]
    pub(super) trace: Vec<PathBuf>,

    /// The format, where the content does not tell it
    #[arg(long, value_name = "FORMAT", value_parser = trace_formats())]
    pub(super) format: Option<TraceFormat>,

    /// The device: a known model, or a FILE with one, as `foreread tune --device-model` writes it
    /// (FILE has a / or ends in .toml); it is made large enough for the files
    #[arg(long, value_name = "NAME|FILE", default_value = "cloud-gp3")]
    #[arg(value_parser = device_models())]
    pub(super) device: DeviceModelArg,

    /// The read-ahead policies [default: none linux-6 adaptive]
    #[arg(long, value_name = "POLICY", num_args = 1.., value_parser = simulated_policies())]
    pub(super) policy: Vec<Policy>,

    /// The eviction policies below each of them; all but two-lists, which is the library's own, are
    /// of the literature, in the simulator only
    #[arg(
        long, value_name = "POLICY", num_args = 1.., value_parser = eviction_policies(),
        default_values = [CachePolicyKind::TwoLists.name()],
    )]
    pub(super) eviction: Vec<CachePolicyKind>,

    /// The memory sizes [default: 64M 256M 1G; with --real 256M]
    #[arg(long, value_name = "SIZE", num_args = 1.., value_parser = sizes::parse)]
    pub(super) memory: Vec<ByteCount>,

    /// The largest windows, each for every policy [default: auto for adaptive, of competitive what
    /// the device transfers while it seeks, 128K for the others]
    #[arg(long, value_name = "SIZE", num_args = 1.., value_parser = window_of_pages)]
    pub(super) max_window: Vec<MaxWindow>,

    /// When reads begin [default: open for block traces, closed for others]
    #[arg(long = "loop", value_name = "KIND")]
    pub(super) pace: Option<LoopKind>,

    /// Times of an open loop, or think times of a closed one, are multiplied by this
    ///
    /// 0 in a closed loop: each thread reads as fast as it can.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub(super) scale: f64,

    /// Play the trace once before it counts: the cache is warm
    #[arg(long)]
    pub(super) warm: bool,

    /// Seed of the random latencies of a device: a store, flash with jitter
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEED)]
    pub(super) seed: u64,

    /// Replay with so many seeds: that one, and those after it
    ///
    /// Each figure is the mean over the seeds; behind +- is half the width of its 95 % confidence
    /// interval. x waited is times that of the first policy with the same eviction policy, memory
    /// and seed, and with the window at the same place of --max-window.
    #[arg(
        long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=MAX_SEEDS),
    )]
    pub(super) seeds: u64,

    /// Leave out what knows the whole trace: least s, x req and x MIN. The trace is read once less,
    /// and none of it is kept
    #[arg(long)]
    pub(super) no_bounds: bool,

    /// Add figures of each file or each thread to the JSON
    #[arg(long, value_name = "WHAT", requires = "json")]
    pub(super) per: Option<GroupBy>,

    /// Count misses of these eviction policies instead: no device, no read-ahead
    ///
    /// Reads and writes alike use pages; each size of --memory holds a page for every 4 KiB.
    #[arg(
        long, value_name = "POLICY", num_args = 1.., value_parser = eviction_policies(),
        conflicts_with_all =
            ["device", "policy", "eviction", "max_window", "pace", "scale", "warm", "per", "series",
             "seed", "seeds"],
    )]
    pub(super) cache: Vec<CachePolicyKind>,

    /// With --cache: capacities in objects, and each request is one use of one object
    #[arg(long, value_name = "N", num_args = 1.., requires = "cache", conflicts_with = "memory")]
    pub(super) objects: Vec<usize>,

    #[command(flatten)]
    pub(super) real: RealArgs,

    /// Also write a report into FILE: one page of HTML with charts that needs nothing else
    ///
    /// What readers wait with each policy and memory, how long, where and when, and the windows and
    /// memory of the largest streams. FILE must not exist, be empty, or be such a page.
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,

    /// Also write the table into FILE as CSV, with units in its heading: a row for each trace,
    /// policy, window, eviction policy and memory
    ///
    /// The first column is the version of this format: 1 (docs/json.md). Figures have the columns
    /// of a mean over the seeds, and of a ratio to the first policy, also with one seed. FILE must
    /// not exist, be empty, or be such a table.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cache", "target"])]
    pub(super) csv: Option<PathBuf>,

    #[command(flatten)]
    pub(super) series: SeriesArgs,

    /// Print JSON, one object of data a row
    ///
    /// Keys: trace, level (block or file), device (its name, with that of its file), policy,
    /// eviction, max_window (bytes; null: learnt), memory (bytes), loop, scale, warm, seed, reads,
    /// bytes, waits, waited_s and least_waited_s (seconds), wait_ms (p50, p99, p999, max: of reads
    /// that waited), requests, fewest_requests, device_bytes, fewest_bytes, device_s, amplification
    /// (device_bytes over bytes), evicted_unread (pages), elapsed_s, late, failed, writes, groups
    /// (name, reads, bytes, waits, waited_s; with --per). What is least or fewest is null with
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
    pub(super) json: bool,
}

const EXAMPLES: &str = "\
Examples:
  foreread replay program.frt --device nvme-990pro-2t --memory 256M 1G
  foreread tune /dev/sdb --device-model sdb.toml; foreread replay program.frt --device sdb.toml
  foreread replay hm_1.csv.gz --policy linux-6 adaptive --max-window 128K 1M
  foreread replay program.frt --html replay.html
  foreread replay program.frt --memory 64M --series series.csv --interval 100ms
  foreread replay program.frt --device store.toml --seeds 10
  foreread replay program.frt --memory 64M 256M 1G --csv table.csv
  foreread replay program.frt --real /mnt/copy --memory 64M 256M
  foreread replay disk.vscsi --real /dev/sdb --loop open --scale 0.5 --wrap
  foreread replay program.frt --policy linux-6 adaptive --eviction two-lists s3-fifo sieve
  foreread replay disk.vscsi --cache fifo lru s3-fifo --memory 16M 64M 256M --json

";

/// When reads begin.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum LoopKind {
    /// When the trace says, whatever the reads before take
    Open,
    /// When the thread's read before has ended and its think time has passed
    Closed,
}

/// What figures are also kept for.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum GroupBy {
    /// Each file
    File,
    /// Each thread
    Thread,
}

impl ReplayArgs {
    pub(super) fn check(&self) -> Result<(), Failure> {
        if !(0.0..=1e6).contains(&self.scale) {
            return Err(Failure::WrongUse("--scale: wants 0 to 1000000".to_owned()));
        }
        if self.seeds > 1 && self.html.is_some() {
            let (wants, seeds) = ("--html: wants one seed", self.seeds);
            return Err(Failure::WrongUse(format!(
                "{wants}, and these are {seeds}; --json has all"
            )));
        }
        Ok(())
    }

    /// When the reads of this trace begin.
    pub(super) fn pace(&self, summary: &TraceSummary) -> ReplayPace {
        let of_level = match summary.level() {
            TraceLevel::Block => LoopKind::Open,
            TraceLevel::File => LoopKind::Closed,
        };
        match self.pace.unwrap_or(of_level) {
            LoopKind::Open => ReplayPace::Open { scale: self.scale },
            LoopKind::Closed => ReplayPace::Closed { think: self.scale },
        }
    }

    pub(super) fn group(&self) -> ReplayGroup {
        match self.per {
            None => ReplayGroup::Whole,
            Some(GroupBy::File) => ReplayGroup::File,
            Some(GroupBy::Thread) => ReplayGroup::Thread,
        }
    }

    /// The memory sizes of the engine's or the simulated cache.
    pub(super) fn memory(&self) -> Vec<ByteCount> {
        let default = if self.real.is_given() { &REAL_MEMORY[..] } else { &MEMORY };
        if self.memory.is_empty() { default.to_vec() } else { self.memory.clone() }
    }

    /// Each policy with each of its largest windows; None: learnt. The window of some policies
    /// follows from the model of the device, if there is one.
    pub(super) fn windows(&self, model: Option<&DeviceParams>) -> Vec<(Policy, Option<ByteCount>)> {
        let standard = [Policy::None, Policy::Linux6, Policy::Adaptive];
        let standard = if self.real.is_given() { &standard[2..] } else { &standard };
        let policies = if self.policy.is_empty() { standard } else { &self.policy };
        windows_of(policies, &self.max_window, |policy| MaxWindowSpec::default_of(policy, model))
    }
}

/// The default memory sizes.
const MEMORY: [ByteCount; 3] = [ByteCount(64 << 20), ByteCount(256 << 20), ByteCount(1 << 30)];

/// The same on a real target, where each takes as long as the trace.
const REAL_MEMORY: [ByteCount; 1] = [ByteCount(256 << 20)];
