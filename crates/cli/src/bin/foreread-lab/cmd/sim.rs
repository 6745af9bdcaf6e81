//! `foreread-lab sim`: a scenario in virtual time.
//!
//! Reads only the scenario, its layout and traces; all time is virtual.
//!
//! The keys of a scenario: docs/lab/simulator.md.

mod comparison;
mod grid;
mod html;
mod layout;
mod report;
mod rivals;
mod series;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use foreread_core::prefetch::Policy;
use foreread_core::sizes::{self, Exact};
use foreread_core::units::{ByteCount, Nanos};
use foreread_files::CommandInput;
use foreread_sim::comparison::Combination;
use foreread_sim::json_rows::RunRow;
use foreread_sim::record::RecordMode;
use foreread_sim::run::{RunOutcome, SimRun};
use foreread_sim::scenario::Scenario;
use foreread_sim::size::Size;
use foreread_sim::time_series::{SeriesSpec, TimeSeries};

use crate::args::series::SeriesArgs;
use crate::intervals::MAX_SEEDS;
use crate::series_file::{SeriesFile, longest_interval};
use foreread_cli::args::help::CODES_AND_UNITS;
use foreread_cli::args::max_window::{MaxWindow, window_of_pages, windows_of};
use foreread_cli::args::policy::simulated_policies;
use foreread_cli::html_file::HtmlFile;
use foreread_cli::output::{Failure, Printer};
use foreread_cli::output_file::{CommandOutputs, OutputFile};
use foreread_cli::progress::spinner;

use report::window_words;

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
    verb: Option<SimCommand>,

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

    /// Seed of all random numbers, overriding the scenario's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Run with N consecutive seeds
    #[arg(
        long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=MAX_SEEDS),
    )]
    seeds: u64,

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
    /// p999, max), waits and wait_ms (of its own), other (further figures of its workload:
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
enum SimCommand {
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
  foreread-lab sim mine.toml --policy linux-6 adaptive --series series.csv --interval 100ms
  foreread-lab sim rivals --scenario streaming-fast

";

pub(crate) fn run(args: &SimArgs, out: &mut Printer) -> Result<(), Failure> {
    match &args.verb {
        Some(SimCommand::Rivals(args)) => return rivals::run(args, out),
        Some(SimCommand::Grid(args)) => return grid::run(args, out),
        Some(SimCommand::Layout(args)) => return layout::run(args, out),
        None => {}
    }
    let path =
        args.scenario.as_ref().expect("clap requires a scenario where no subcommand is given");
    let (mut scenario, text) = read(args, path)?;
    let combinations = combinations(args, &scenario)?;
    check_memories(args, &scenario, path, &text)?;
    if combinations.len() > 1 || args.seeds > 1 || args.csv.is_some() {
        return comparison::run(args, path, &scenario, &combinations, out);
    }
    combinations[0].set(&mut scenario);
    // Before the run: a wrong path is known before an hour has passed.
    let inputs = [CommandInput { name: "the scenario", path }];
    let mut outputs = CommandOutputs::beside(&inputs);
    let trace = args.trace.as_deref();
    let trace = trace.map(|trace| outputs.prepare("--trace", trace, is_trace)).transpose()?;
    let page = HtmlFile::prepare(args.html.as_deref(), args.json, &mut outputs)?;
    let file = SeriesFile::prepare(&args.series, args.json, &mut outputs)?;
    let (ran, series) = go(&scenario, keep(args)?, args.series.spec(1)?)?;
    let written = trace.map_or(Ok(()), |trace| write_lines(trace, &ran.lines));
    if args.json {
        let policy = scenario.cache.policy.0.name();
        out.json("sim", [RunRow::new(&scenario, policy, &ran)])?;
    } else if !args.series.is_stdout() {
        report::print(out, &scenario, &ran)?;
    }
    out.notes(args.series.note(longest_interval(&series)).as_slice())?;
    let shown = page.map_or(Ok(()), |page| page.write(html::page(&scenario, &ran)));
    let series = file.map_or(Ok(()), |file| series::write_run(file, &scenario, series.as_ref()));
    written.and(shown).and(series).and(check(args, &scenario, &ran))
}

/// The scenario with its seed, and its text.
fn read(args: &SimArgs, path: &Path) -> Result<(Scenario, String), Failure> {
    let text = fs::read_to_string(path).map_err(|error| wrong(path, &error))?;
    let mut scenario = Scenario::parse(&text).map_err(|error| wrong(path, &error))?;
    scenario.seed = args.seed.unwrap_or(scenario.seed);
    Ok((scenario, text))
}

/// Returns the combinations: each memory size with each policy and each of its windows.
fn combinations(args: &SimArgs, scenario: &Scenario) -> Result<Vec<Combination>, Failure> {
    once("--policy", args.policy.iter().map(|policy| policy.name().to_owned()))?;
    let window = |window: &MaxWindow| match window {
        MaxWindow::Auto => window_words(None),
        MaxWindow::Size(size) => window_words(Some(*size)),
    };
    once("--max-window", args.max_window.iter().map(window))?;
    once("--memory", args.memory.iter().map(|memory| Exact(*memory).to_string()))?;
    let (policy, memory) = ([scenario.cache.policy.0], [scenario.cache.memory.0]);
    let policies = if args.policy.is_empty() { &policy[..] } else { &args.policy };
    let memories = if args.memory.is_empty() { &memory[..] } else { &args.memory };
    let of_policy = |policy| scenario.max_window_of(policy);
    Ok(Combination::all(&windows_of(policies, &args.max_window, of_policy), memories))
}

/// Checks the scenario with each memory size, as a workload may not fit a small cache.
fn check_memories(
    args: &SimArgs,
    scenario: &Scenario,
    path: &Path,
    text: &str,
) -> Result<(), Failure> {
    for memory in &args.memory {
        let mut scenario = scenario.clone();
        scenario.cache.memory = Size(*memory);
        let with = |error| wrong(path, &format!("with --memory {}: {error}", Exact(*memory)));
        scenario.check(text).map_err(with)?;
    }
    Ok(())
}

/// Checks that no value of an option is given twice.
fn once(option: &str, values: impl IntoIterator<Item = String>) -> Result<(), Failure> {
    let mut seen = BTreeSet::new();
    match values.into_iter().find(|value| !seen.insert(value.clone())) {
        Some(value) => Err(Failure::WrongUse(format!("{option}: {value} is given twice"))),
        None => Ok(()),
    }
}

fn keep(args: &SimArgs) -> Result<RecordMode, Failure> {
    if let Some(path) = &args.compare {
        let text = fs::read_to_string(path).map_err(|error| wrong(path, &error))?;
        return Ok(RecordMode::Compare(text.lines().map(str::to_owned).collect()));
    }
    Ok(if args.trace.is_some() { RecordMode::Lines } else { RecordMode::Hash })
}

fn go(
    scenario: &Scenario,
    keep: RecordMode,
    series: Option<SeriesSpec>,
) -> Result<(RunOutcome, Option<TimeSeries>), Failure> {
    let mut building = scenario.build(keep).map_err(Failure::WrongUse)?;
    if let Some(series) = series {
        building.run.keep_series(series);
    }
    let bar = spinner();
    while building.run.go_some(STEPS_BETWEEN_LOOKS, scenario.until()) {
        bar.set_message(state(&building.run));
        bar.tick();
    }
    bar.finish_and_clear();
    let series = building.run.take_series();
    Ok((building.run.end(), series))
}

fn state(run: &SimRun) -> String {
    let Nanos(ns) = run.now();
    format!("{} s, {} requests", ns / 1_000_000_000, run.requests())
}

fn check(args: &SimArgs, scenario: &Scenario, ran: &RunOutcome) -> Result<(), Failure> {
    if let (Some(path), Some(difference)) = (&args.compare, &ran.difference) {
        let path = path.display();
        return Err(Failure::Check(format!("not the run of {path}: {difference}")));
    }
    if ran.unfinished > 0 && scenario.until_s.is_none() {
        let count = ran.unfinished;
        return Err(Failure::Check(format!("{count} processes wait for what never comes")));
    }
    Ok(())
}

fn write_lines(trace: OutputFile, lines: &[String]) -> Result<(), Failure> {
    trace.write(|file| lines.iter().try_for_each(|line| writeln!(file, "{line}")))
}

/// Returns true if all complete lines start like those of a trace: seconds with nine decimals.
fn is_trace(head: &[u8]) -> bool {
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let is_event = |line: &str| {
        let seconds = line.split(' ').next().and_then(|word| word.split_once('.'));
        seconds.is_some_and(|(whole, part)| {
            !whole.is_empty() && part.len() == 9 && is_digits(whole) && is_digits(part)
        })
    };
    let head = String::from_utf8_lossy(head);
    let whole = head.rsplit_once('\n').map(|(whole, _)| whole);
    whole.is_some_and(|whole| whole.lines().all(is_event))
}

fn wrong(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::WrongUse(format!("{}: {error}", path.display()))
}

/// Some hundredths of a second.
const STEPS_BETWEEN_LOOKS: u64 = 50_000;
