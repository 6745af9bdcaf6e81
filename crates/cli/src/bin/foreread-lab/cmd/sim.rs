//! `foreread-lab sim`: a scenario in virtual time.
//!
//! Reads only the scenario, its layout and traces; all time is virtual.
//!
//! The keys of a scenario: docs/lab/simulator.md.

mod args;
mod charts;
mod comparison;
mod grid;
mod html;
mod layout;
mod plan;
mod report;
mod rivals;
mod series;

pub(crate) use args::SimArgs;

use std::fs;
use std::io::Write as _;
use std::path::Path;

use foreread_core::units::Nanos;
use foreread_files::CommandInput;
use foreread_sim::json_rows::RunRow;
use foreread_sim::record::RecordMode;
use foreread_sim::run::{RunOutcome, SimRun};
use foreread_sim::scenario::Scenario;
use foreread_sim::time_series::{SeriesSpec, TimeSeries};

use crate::series_file::SeriesFile;
use foreread_cli::html_file::HtmlFile;
use foreread_cli::output::{Failure, Printer};
use foreread_cli::output_file::{CommandOutputs, OutputFile};
use foreread_cli::progress::spinner;

use args::SimCommand;
use plan::{RecordPlan, SimPlan};

pub(crate) fn run(args: &SimArgs, out: &mut Printer) -> Result<(), Failure> {
    match &args.verb {
        Some(SimCommand::Rivals(args)) => return rivals::run(args, out),
        Some(SimCommand::Grid(args)) => return grid::run(args, out),
        Some(SimCommand::Layout(args)) => return layout::run(args, out),
        None => {}
    }
    let mut plan = args.resolve()?;
    if plan.is_comparison() {
        return comparison::run(&plan, out);
    }
    plan.combinations[0].set(&mut plan.scenario);
    run_once(&plan, out)
}

fn run_once(plan: &SimPlan, out: &mut Printer) -> Result<(), Failure> {
    let scenario = &plan.scenario;
    // Before the run: a wrong path is known before an hour has passed.
    let inputs = [CommandInput { name: "the scenario", path: &plan.path }];
    let mut outputs = CommandOutputs::beside(&inputs);
    let trace = match &plan.record {
        RecordPlan::Write(trace) => Some(outputs.prepare("--trace", trace, is_trace)?),
        RecordPlan::Hash | RecordPlan::Compare(_) => None,
    };
    let page = HtmlFile::prepare(plan.html.as_deref(), plan.json, &mut outputs)?;
    let file = SeriesFile::prepare(&plan.series, plan.json, &mut outputs)?;
    let (ran, series) = go(scenario, record_mode(&plan.record)?, plan.series.spec(1)?)?;
    let written = trace.map_or(Ok(()), |trace| write_lines(trace, &ran.lines));
    if plan.json {
        let policy = scenario.cache.policy.0.name();
        out.json("sim", [RunRow::new(scenario, policy, &ran)])?;
    } else if !plan.series.is_stdout() {
        report::print(out, scenario, &ran)?;
    }
    out.flush()?;
    let shown = page.map_or(Ok(()), |page| page.write(html::page(scenario, &ran)));
    let series = file.map_or(Ok(()), |file| series::write_run(file, scenario, series.as_ref()));
    written.and(shown).and(series).and(check(plan, &ran))
}

fn record_mode(record: &RecordPlan) -> Result<RecordMode, Failure> {
    match record {
        RecordPlan::Hash => Ok(RecordMode::Hash),
        RecordPlan::Write(_) => Ok(RecordMode::Lines),
        RecordPlan::Compare(path) => {
            let text = fs::read_to_string(path).map_err(|error| wrong(path, &error))?;
            Ok(RecordMode::Compare(text.lines().map(str::to_owned).collect()))
        }
    }
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

fn check(plan: &SimPlan, ran: &RunOutcome) -> Result<(), Failure> {
    if let (RecordPlan::Compare(path), Some(difference)) = (&plan.record, &ran.difference) {
        let path = path.display();
        return Err(Failure::Check(format!("not the run of {path}: {difference}")));
    }
    if ran.unfinished > 0 && plan.scenario.until_s.is_none() {
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
