//! The arguments of `foreread-lab sim`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use foreread_core::prefetch::Policy;
use foreread_core::sizes::{self, Exact};
use foreread_core::units::ByteCount;
use foreread_sim::comparison::Combination;
use foreread_sim::scenario::Scenario;
use foreread_sim::size::Size;

use super::plan::{RecordPlan, SimPlan};
use super::report::window_words;
use super::{grid, layout, rivals, wrong};
use crate::args::policy::simulated_policies;
use crate::args::seeds::{SeedRange, seed_range};
use crate::args::series::SeriesArgs;
use foreread_cli::args::help::CODES_AND_UNITS;
use foreread_cli::args::max_window::{MaxWindow, window_of_pages, windows_of};
use foreread_cli::output::Failure;

/// Simulate a scenario in virtual time
///
/// A scenario is a TOML file with device models, files, processes, a cache and its policy
/// (docs/lab/simulator.md has every key). The simulation runs the code of the library, driven by an
/// event queue instead of an I/O ring. It is deterministic: a seed gives the same hash on every
/// machine, and equal hashes mean equal runs. For each process it prints operations, MiB, seconds,
/// MB/s and mean operation time; waits, the percentage of operations that took time (cache hits
/// take none); their p99 and p99.9 in ms; and the longest.
///
/// With several policies, windows, memory sizes or seeds, every combination is run, on all
/// processors. Columns: MB/s of all processes; waited s, total wait of reads through the cache;
/// requests of the devices; x bytes, device bytes over bytes read; unread, prefetched pages evicted
/// unused; p50, p99 and p99.9 in ms of the operations that took time; x MB/s and x waited, relative
/// to the first policy with the same memory, window and seed. With several seeds, each figure is a
/// mean; +- is half of its 95 % confidence interval over the seeds, and a ratio has its interval in
/// parentheses. Figures count from count_from_s on.
///
/// Three columns compare with offline optima, which know all reads in advance: x best, requests
/// over the minimum for the true rates of the clients (if all readers are streaming clients); x
/// req, requests over a lower bound of any read-ahead (- if one request may fill the memory); x
/// MIN, device bytes over the misses of Belady's MIN for the memory. docs/lab/simulator.md lists
/// what these bounds leave out.
#[derive(Debug, Args)]
#[command(
    after_long_help = [EXAMPLES, CODES_AND_UNITS].concat(),
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
)]
pub(crate) struct SimArgs {
    /// Scenario file; prefix ./ if it has the name of a subcommand
    #[arg(required = true)]
    scenario: Option<PathBuf>,

    #[command(subcommand)]
    pub(super) verb: Option<SimCommand>,

    /// Read-ahead policies, overriding the scenario's; the others are compared with the first
    #[arg(long, value_name = "POLICY", num_args = 1.., value_parser = simulated_policies())]
    policy: Vec<Policy>,

    /// Largest windows, each run with every policy [default: the scenario's; else auto for
    /// adaptive, the bytes transferred during a seek for competitive, 128K for the others]
    #[arg(long, value_name = "SIZE", num_args = 1.., value_parser = window_of_pages)]
    max_window: Vec<MaxWindow>,

    /// Memory sizes, overriding the scenario's
    #[arg(long, value_name = "SIZE", num_args = 1.., value_parser = sizes::parse)]
    memory: Vec<ByteCount>,

    /// Run with N consecutive seeds of all random numbers, from FIRST or the scenario's on
    #[arg(long, value_name = "[FIRST+]N", default_value = "1", value_parser = seed_range)]
    seeds: SeedRange,

    /// With combinations: omit the offline bounds x req and x MIN, and keep no reads in memory
    #[arg(long)]
    no_bounds: bool,

    /// Write all events of the run to FILE, one per line
    ///
    /// FILE must be absent, empty, or an earlier trace; `-` is stdout. The scenario, any other
    /// file, symbolic links, FIFOs and devices are refused (docs/guide/files.md).
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    /// Compare the run with a file of --trace; exit code 1, and the first different event, if they
    /// differ
    #[arg(long, value_name = "FILE", conflicts_with = "trace")]
    compare: Option<PathBuf>,

    /// Also write an HTML report with charts to FILE; the page is self-contained
    ///
    /// FILE must be absent, empty, or an earlier report.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Also write the table of combinations to FILE as CSV, with units in the heading
    ///
    /// The first column is the version of this format: 1 (docs/guide/json.md). FILE must be absent,
    /// empty, or an earlier table.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["trace", "compare"])]
    csv: Option<PathBuf>,

    #[command(flatten)]
    series: SeriesArgs,

    /// Print JSON with one data object, or one per combination
    ///
    /// Keys of one run: name, seed, policy, max_window (bytes; null: learnt), seconds (virtual),
    /// events, hash, unfinished (processes that still wait), waits (operations of all processes
    /// that took time: all but hits) and wait_ms (of these: mean, p50, p99, p999, max); processes:
    /// name, ops, bytes, seconds, mb_per_s (10^6 bytes), latency_ms (of all ops: mean, p50, p99,
    /// p999, max), waits and wait_ms (for this process), other (further figures of its workload:
    /// docs/lab/simulator.md); devices: name, reads and writes (requests), read_bytes, write_bytes,
    /// busy_seconds, and of a store also store (requests, hedged, throttled, cost); cache, in
    /// pages: pages_wanted (of reads that missed), pages_missed, pages_joined (on their way
    /// already), pages_ahead, evicted, evicted_before_use.
    ///
    /// Keys of a combination (command `sim comparison`): scenario, policy, max_window and memory
    /// (bytes), seeds (their number); mb_per_s, waited_s, requests, requests_over_optimum and
    /// requests_over_fewest (x best and x req), amplification, bytes_over_fewest (x MIN),
    /// evicted_unread (pages), wait_p50_ms, wait_p99_ms, wait_p999_ms, each with mean, half_width
    /// (of the 95 % interval; null with one seed) and over_first (ratio, low, high; null for the
    /// first policy, and where a figure is 0); runs, each with seed, hash, events, elapsed_s,
    /// unfinished, waits (operations that took time), device_bytes, optimum_requests (null if
    /// unknown), fewest_requests (null where one request may fill the memory), fewest_bytes, and
    /// the other figures. Lower bounds and their ratios are null with --no-bounds, and beyond 2^24
    /// reads or 2^27 pages.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum SimCommand {
    Rivals(rivals::RivalsArgs),
    Grid(grid::GridArgs),
    Layout(layout::LayoutArgs),
}

const EXAMPLES: &str = "\
Examples:
  foreread-lab sim scenarios/000-sweep.toml
  foreread-lab sim scenarios/000-sweep.toml --policy linux-6 --json
  foreread-lab sim mine.toml --trace before.txt
  foreread-lab sim mine.toml --compare before.txt
  foreread-lab sim mine.toml --policy linux-6 adaptive --memory 32M 64M --seeds 10
  foreread-lab sim mine.toml --policy linux-6 adaptive --max-window 128K auto --seeds 10 --csv out.csv
  foreread-lab sim mine.toml --policy linux-6 adaptive --series series.csv
  foreread-lab sim rivals streaming-fast

";

impl SimArgs {
    /// Reads the scenario, and applies and checks the options.
    pub(super) fn resolve(&self) -> Result<SimPlan, Failure> {
        let path =
            self.scenario.as_ref().expect("clap requires a scenario where no subcommand is given");
        let text = fs::read_to_string(path).map_err(|error| wrong(path, &error))?;
        let mut scenario = Scenario::parse(&text).map_err(|error| wrong(path, &error))?;
        let seeds = self.seeds.seeds(scenario.seed).map_err(Failure::WrongUse)?;
        scenario.seed = seeds[0];
        let combinations = self.combinations(&scenario)?;
        self.check_memories(&scenario, path, &text)?;
        let record = match (&self.trace, &self.compare) {
            (Some(trace), _) => RecordPlan::Write(trace.clone()),
            (None, Some(compare)) => RecordPlan::Compare(compare.clone()),
            (None, None) => RecordPlan::Hash,
        };
        let plan = SimPlan {
            path: path.clone(),
            scenario,
            combinations,
            seeds,
            has_bounds: !self.no_bounds,
            record,
            html: self.html.clone(),
            csv: self.csv.clone(),
            series: self.series.resolve(),
            json: self.json,
        };
        let option = match &plan.record {
            RecordPlan::Hash => return Ok(plan),
            RecordPlan::Write(_) => "--trace",
            RecordPlan::Compare(_) => "--compare",
        };
        match plan.runs() {
            1 => Ok(plan),
            runs => Err(Failure::WrongUse(format!(
                "{option}: cannot record {runs} runs; give one policy, window, memory and seed"
            ))),
        }
    }

    /// Returns the combinations: each memory size with each policy and each of its windows.
    fn combinations(&self, scenario: &Scenario) -> Result<Vec<Combination>, Failure> {
        once("--policy", self.policy.iter().map(|policy| policy.name().to_owned()))?;
        let window = |window: &MaxWindow| match window {
            MaxWindow::Auto => window_words(None),
            MaxWindow::Size(size) => window_words(Some(*size)),
        };
        once("--max-window", self.max_window.iter().map(window))?;
        once("--memory", self.memory.iter().map(|memory| Exact(*memory).to_string()))?;
        let (policy, memory) = ([scenario.cache.policy.0], [scenario.cache.memory.0]);
        let policies = if self.policy.is_empty() { &policy[..] } else { &self.policy };
        let memories = if self.memory.is_empty() { &memory[..] } else { &self.memory };
        let of_policy = |policy| scenario.max_window_of(policy);
        Ok(Combination::all(&windows_of(policies, &self.max_window, of_policy), memories))
    }

    /// Checks the scenario with each memory size, as a workload may not fit a small cache.
    fn check_memories(&self, scenario: &Scenario, path: &Path, text: &str) -> Result<(), Failure> {
        for memory in &self.memory {
            let mut scenario = scenario.clone();
            scenario.cache.memory = Size(*memory);
            let with = |error| wrong(path, &format!("with --memory {}: {error}", Exact(*memory)));
            scenario.check(text).map_err(with)?;
        }
        Ok(())
    }
}

/// Checks that no value of an option is given twice.
fn once(option: &str, values: impl IntoIterator<Item = String>) -> Result<(), Failure> {
    let mut seen = BTreeSet::new();
    match values.into_iter().find(|value| !seen.insert(value.clone())) {
        Some(value) => Err(Failure::WrongUse(format!("{option}: {value} is given twice"))),
        None => Ok(()),
    }
}
