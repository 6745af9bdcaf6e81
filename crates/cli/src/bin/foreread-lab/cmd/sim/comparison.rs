//! `foreread-lab sim` with several policies, windows, memory sizes or seeds.
//!
//! The order of rows does not depend on which run ends first.

mod cells;
mod html;

use std::io::Write as _;
use std::num::NonZero;

use foreread_core::sizes::Exact;
use foreread_files::{CommandInput, is_stdout};
use foreread_sim::comparison::{Combination, ComparisonRow, run_all};
use foreread_sim::rivals::RunKeeps;
use foreread_sim::scenario::Scenario;

use self::cells::{HEADING, OF_ONE_POLICY, cells};
use super::plan::SimPlan;
use super::series;
use crate::csv::CsvFile;
use crate::intervals::{SAME_WITH_EACH_SEED, about_means};
use crate::series_file::SeriesFile;
use foreread_cli::html_file::HtmlFile;
use foreread_cli::output::{Failure, Printer};
use foreread_cli::output_file::CommandOutputs;
use foreread_cli::progress::spinner;
use foreread_cli::table;

pub(super) fn run(plan: &SimPlan, out: &mut Printer) -> Result<(), Failure> {
    let SimPlan { scenario, seeds, .. } = plan;
    // Before the runs: a wrong path is known before an hour has passed.
    let inputs = [CommandInput { name: "the scenario", path: &plan.path }];
    let mut outputs = CommandOutputs::beside(&inputs);
    let page = HtmlFile::prepare(plan.html.as_deref(), plan.json, &mut outputs)?;
    let table = CsvFile::prepare::<ComparisonRow>(plan.csv.as_deref(), plan.json, &mut outputs)?;
    let file = SeriesFile::prepare(&plan.series, plan.json, &mut outputs)?;
    let spec = plan.series.spec(plan.runs())?;
    let keeps = RunKeeps { reads: plan.has_bounds, series: spec };
    let rows = run_with_progress(plan, keeps);
    if plan.json {
        out.json("sim comparison", &rows)?;
    } else if !plan.csv.as_deref().is_some_and(is_stdout) && !plan.series.is_stdout() {
        print(out, &rows, seeds)?;
    }
    out.flush()?;
    let written = table.map_or(Ok(()), |table| table.write(&rows));
    let shown = page.map_or(Ok(()), |page| page.write(html::page(&rows, seeds)));
    let over_time = file.map_or(Ok(()), |file| series::write_rows(file, scenario, &rows));
    let mut notes = Vec::new();
    if seeds.len() > 1 && rows.iter().all(ComparisonRow::is_same_with_each_seed) {
        notes.push(SAME_WITH_EACH_SEED.to_owned());
    }
    out.notes(&notes)?;
    written.and(shown).and(over_time).and(check(scenario, &rows))
}

fn run_with_progress(plan: &SimPlan, keeps: RunKeeps) -> Vec<ComparisonRow> {
    let bar = spinner();
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let all = plan.runs();
    let begun = |count: usize, combination: &Combination, seed: u64| {
        let (policy, memory) = (combination.policy.name(), Exact(combination.memory));
        bar.set_message(format!("{count} of {all}: {policy}, {memory}, seed {seed}"));
    };
    let rows = run_all(&plan.scenario, &plan.combinations, &plan.seeds, keeps, threads, &begun);
    bar.finish_and_clear();
    rows
}

fn print(out: &mut Printer, rows: &[ComparisonRow], seeds: &[u64]) -> Result<(), Failure> {
    out.entry("", &format!("{}: {}", rows[0].scenario, size_of(rows, seeds)))?;
    writeln!(out)?;
    let first = &rows[0].policy;
    if rows.iter().all(|row| row.policy == *first) {
        let of_one = |cells: [String; HEADING.len()]| -> [String; OF_ONE_POLICY] {
            std::array::from_fn(|column| cells[column].clone())
        };
        let heading = std::array::from_fn(|column| HEADING[column]);
        table::print(out, heading, rows.iter().map(cells).map(of_one))?;
    } else {
        table::print(out, HEADING, rows.iter().map(cells))?;
    }
    if let Some(legend) = legend(rows, seeds) {
        writeln!(out)?;
        out.entry("", &legend)?;
    }
    Ok(())
}

/// Returns the extent: `4 combinations with seeds 1 to 10`.
fn size_of(rows: &[ComparisonRow], seeds: &[u64]) -> String {
    let combinations = match rows.len() {
        1 => "1 combination".to_owned(),
        count => format!("{count} combinations"),
    };
    match seeds {
        [first, .., last] => format!("{combinations} with each of the seeds {first} to {last}"),
        _ => format!("{combinations} with seed {}", seeds[0]),
    }
}

/// Explains intervals and ratios; None if there are none.
fn legend(rows: &[ComparisonRow], seeds: &[u64]) -> Option<String> {
    let (count, first) = (seeds.len(), rows[0].policy);
    let means = about_means(count);
    let ratios = format!("x MB/s and x waited are times those of {first}, paired by seed");
    match (count > 1, rows.iter().any(|row| row.policy != first)) {
        (true, true) => Some(format!("{means}; {ratios}, with their 95 % interval.")),
        (true, false) => Some(format!("{means}.")),
        (false, true) => Some(format!("{ratios}.")),
        (false, false) => None,
    }
}

/// Runs that end with processes that still wait, though nothing stops the scenario.
fn check(scenario: &Scenario, rows: &[ComparisonRow]) -> Result<(), Failure> {
    if scenario.until_s.is_some() {
        return Ok(());
    }
    let unfinished = rows.iter().find_map(|row| {
        let run = row.runs.iter().find(|run| run.unfinished > 0)?;
        let (policy, seed, count) = (row.policy, run.seed, run.unfinished);
        Some(format!("{policy}, seed {seed}: {count} processes wait for what never comes"))
    });
    unfinished.map_or(Ok(()), |line| Err(Failure::Check(line)))
}
