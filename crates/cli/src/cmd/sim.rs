//! `foreread sim`: a scenario in virtual time.
//!
//! In:    a scenario file, and what to change of it.
//! Out:   what each process and each device did; one number for all that happened.
//! Never: a real file but the scenario, its layout and the traces, or a real second of waiting.
//!
//! The keys of a scenario: docs/simulator.md.

mod grid;
mod html;
mod layout;
mod report;
mod rivals;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use foreread_core::prefetch::Policy;
use foreread_core::units::Nanos;
use foreread_files::{CommandInput, ResultFile};
use foreread_sim::json_rows::RunRow;
use foreread_sim::record::RecordMode;
use foreread_sim::run::{RunOutcome, SimRun};
use foreread_sim::scenario::{PolicyName, Scenario};

use crate::args::help::CODES_AND_UNITS;
use crate::args::policy::simulated_policies;
use crate::html_file::HtmlFile;
use crate::output::{Failure, Printer};
use crate::progress::spinner;

/// Run a scenario in virtual time
///
/// A scenario is a TOML file: devices as models, files, processes, a cache and its policy
/// (docs/simulator.md has every key). The run uses the same path as the library, driven by a queue
/// of events instead of a ring. One seed gives one run: its hash is the same on every machine, and
/// two runs with the same hash did the same.
#[derive(Debug, Args)]
#[command(
    after_long_help = [EXAMPLES, CODES_AND_UNITS].concat(),
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
)]
pub(crate) struct SimArgs {
    /// The scenario; give a file with the name of a subcommand as ./rivals
    #[arg(required = true)]
    scenario: Option<PathBuf>,

    #[command(subcommand)]
    verb: Option<SimCommand>,

    /// The read-ahead policy, in place of the scenario's
    #[arg(long, value_name = "POLICY", value_parser = simulated_policies())]
    policy: Option<Policy>,

    /// The seed of all random numbers, in place of the scenario's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Write each event of the run into FILE, one a line, when the run has ended
    ///
    /// FILE must not exist, be empty, or be an earlier trace; `-` is stdout. The scenario, any
    /// other file, a symbolic link, a FIFO and a device are refused (docs/files.md).
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    /// Compare the run with one that was written with --trace: the first event that differs is
    /// named, and the exit code is 1
    #[arg(long, value_name = "FILE", conflicts_with = "trace")]
    compare: Option<PathBuf>,

    /// Also write a report into FILE: one page of HTML with charts that needs nothing else
    ///
    /// FILE must not exist, be empty, or be such a page.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Print JSON with one object of data
    ///
    /// Keys: name, seed, policy, seconds (virtual), events, hash, unfinished (processes that still
    /// wait); processes: name, ops, bytes, seconds, mb_per_s (10^6 bytes), latency_ms (of ops:
    /// mean, p50, p99, p999, max), other (what its workload measures besides: docs/simulator.md);
    /// devices: name, reads and writes (requests), read_bytes, write_bytes, busy_seconds, and of a
    /// store also store (requests, hedged, throttled, cost); cache, in pages: pages_wanted (of
    /// reads that missed), pages_missed, pages_joined (on their way already), pages_ahead, evicted,
    /// evicted_before_use.
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
  foreread sim scenarios/000-sweep.toml
  foreread sim scenarios/000-sweep.toml --policy linux-6 --json
  foreread sim mine.toml --trace before.txt
  foreread sim mine.toml --compare before.txt
  foreread sim rivals --scenario streaming-fast

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
    let scenario = read(args, path)?;
    // Before the run: a wrong path is known before an hour has passed.
    let trace = args.trace.as_deref().map(|trace| created(trace, path)).transpose()?;
    let inputs = [CommandInput { name: "the scenario", path }];
    let page = HtmlFile::prepare(args.html.as_deref(), args.json, &inputs)?;
    let ran = go(&scenario, keep(args)?)?;
    let written = trace.map_or(Ok(()), |trace| write_lines(trace, &ran.lines));
    if args.json {
        let policy = scenario.cache.policy.0.name();
        out.json("sim", [RunRow::new(&scenario, policy, &ran)])?;
    } else {
        report::print(out, &scenario, &ran)?;
    }
    out.flush()?;
    let shown = page.map_or(Ok(()), |page| page.write(html::page(&scenario, &ran)));
    written.and(shown).and(check(args, &scenario, &ran))
}

fn read(args: &SimArgs, path: &Path) -> Result<Scenario, Failure> {
    let text = fs::read_to_string(path).map_err(|error| wrong(path, &error))?;
    let mut scenario = Scenario::parse(&text).map_err(|error| wrong(path, &error))?;
    if let Some(policy) = args.policy {
        scenario.cache.policy = PolicyName(policy);
    }
    scenario.seed = args.seed.unwrap_or(scenario.seed);
    Ok(scenario)
}

fn keep(args: &SimArgs) -> Result<RecordMode, Failure> {
    if let Some(path) = &args.compare {
        let text = fs::read_to_string(path).map_err(|error| wrong(path, &error))?;
        return Ok(RecordMode::Compare(text.lines().map(str::to_owned).collect()));
    }
    Ok(if args.trace.is_some() { RecordMode::Lines } else { RecordMode::Hash })
}

fn go(scenario: &Scenario, keep: RecordMode) -> Result<RunOutcome, Failure> {
    let mut building = scenario.build(keep).map_err(Failure::WrongUse)?;
    let bar = spinner();
    while building.run.go_some(STEPS_BETWEEN_LOOKS, scenario.until()) {
        bar.set_message(state(&building.run));
        bar.tick();
    }
    bar.finish_and_clear();
    Ok(building.run.end())
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

fn created(trace: &Path, scenario: &Path) -> Result<ResultFile, Failure> {
    let inputs = [CommandInput { name: "the scenario", path: scenario }];
    ResultFile::create(trace, &inputs, is_trace)
        .map_err(|error| Failure::WrongUse(format!("--trace {error}")))
}

fn write_lines(trace: ResultFile, lines: &[String]) -> Result<(), Failure> {
    let written =
        trace.write_whole(|file| lines.iter().try_for_each(|line| writeln!(file, "{line}")));
    written.map_err(|error| Failure::WrongUse(format!("--trace {error}")))
}

/// Whether each whole line begins as those of a trace: seconds with nine decimals.
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
