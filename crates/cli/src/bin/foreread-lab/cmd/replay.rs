//! `foreread-lab replay`: simulates, or performs, the reads of a trace and reports their waits.
//!
//! Traces are streamed, and the files they name are never read.

mod args;
mod caches;
mod html;
mod jobs;
mod picture;
mod plan;
mod real;
mod report;
mod seeds;
mod series;

pub(crate) use args::ReplayArgs;

use std::path::Path;

use foreread_files::{CommandInput, is_stdout};
use foreread_report::ReportSection;
use foreread_sim::comparison::ReplayComparisonRow;
use foreread_sim::json_rows::ReplayRow;
use foreread_sim::replay::{ReplayError, ReplayFigures, ReplayPace};
use foreread_sim::time_series::TimeSeries;
use foreread_trace::{TraceLevel, TraceReader, TraceSummary};

use jobs::Replayed;
use plan::{ReplayMode, ReplayPlan, SimulatedPlan};

use crate::csv::CsvFile;
use crate::intervals::SAME_WITH_EACH_SEED;
use crate::series_file::SeriesFile;
use foreread_cli::html_file::HtmlFile;
use foreread_cli::output::{Failure, Printer};
use foreread_cli::output_file::CommandOutputs;
use foreread_cli::progress::spinner;

pub(crate) fn run(args: &ReplayArgs, out: &mut Printer) -> Result<(), Failure> {
    let plan = args.resolve()?;
    match &plan.mode {
        ReplayMode::Simulated(simulated) => run_simulated(&plan, simulated, out),
        ReplayMode::CacheMisses(misses) => caches::run(&plan, misses, out),
        ReplayMode::Real(real) => real::run(&plan, real, out),
    }
}

fn run_simulated(
    plan: &ReplayPlan,
    simulated: &SimulatedPlan,
    out: &mut Printer,
) -> Result<(), Failure> {
    let files = outputs(plan, simulated)?;
    let series = simulated.series.spec(plan.traces.len() * simulated.count())?;
    let device = &simulated.device.name;
    let bar = spinner();
    let mut all = AllReplays::default();
    for trace in &plan.traces {
        bar.set_message(format!("{}: first pass", trace.display()));
        let summary = summary_of(plan, trace)?;
        let pace = simulated.timing.pace(&summary);
        all.notes.extend(notes_of(trace, &summary, pace));
        all.guesses.extend(guesses_in(trace, &summary));
        let jobs = jobs::of(simulated, pace, series, plan.html.is_some());
        let begun = |count: usize| {
            bar.set_message(format!("{}: {count} of {}", trace.display(), jobs.len()));
        };
        let replayed = jobs::run_all(plan, (trace, &summary), device, &jobs, &begun);
        let first = all.rows.len();
        let figures = all.add(replayed.map_err(failure)?);
        if files.page.is_some() {
            let of_trace = html::TraceReplays {
                summary: &summary,
                rows: &all.rows[first..],
                jobs: &jobs,
                figures: &figures,
                device,
                is_only: plan.traces.len() == 1,
            };
            all.sections.push(html::section(&of_trace));
        }
    }
    bar.finish_and_clear();
    let mut means = Vec::new();
    // They have a copy of each row, which one seed has no use for but in the table.
    let seeds = simulated.seeds.len();
    if seeds > 1 || files.table.is_some() {
        let traces = all.rows.chunks(all.rows.len() / plan.traces.len());
        means.extend(traces.flat_map(|rows| ReplayComparisonRow::all(rows, seeds)));
    }
    all.print(plan, simulated, &means, out)?;
    let AllReplays { rows, series, sections, notes, .. } = all;
    let page = files.page.map_or(Ok(()), |page| page.write(html::page(&rows, &notes, sections)));
    let table = files.table.map_or(Ok(()), |table| table.write(&means));
    page.and(table).and(files.series.map_or(Ok(()), |file| series::write(file, &rows, &series)))
}

/// The replays of all traces.
#[derive(Default)]
struct AllReplays {
    /// One for each trace, combination and seed, in this order.
    rows: Vec<ReplayRow>,
    /// The series of each row, if they were kept.
    series: Vec<Option<TimeSeries>>,
    /// Sections of the HTML report.
    sections: Vec<ReportSection>,
    notes: Vec<String>,
    /// Notes on columns, units and operations of traces that were guessed.
    guesses: Vec<String>,
}

impl AllReplays {
    /// Adds the replays of a trace and returns their figures, if kept for the report.
    fn add(&mut self, replayed: Vec<Replayed>) -> Vec<ReplayFigures> {
        let each = replayed.into_iter().filter_map(|Replayed { row, series, notes, figures }| {
            self.rows.push(row);
            self.series.push(series);
            self.notes.extend(notes);
            figures
        });
        each.collect()
    }

    /// Prints the rows, with several seeds of each the means over them; then the notes.
    fn print(
        &mut self,
        plan: &ReplayPlan,
        simulated: &SimulatedPlan,
        means: &[ReplayComparisonRow],
        out: &mut Printer,
    ) -> Result<(), Failure> {
        let seeds = simulated.seeds.len();
        let is_same = seeds > 1 && means.iter().all(ReplayComparisonRow::is_same_with_each_seed);
        let of_seeds = is_same.then(|| SAME_WITH_EACH_SEED.to_owned());
        self.notes.extend(of_seeds.clone());
        self.notes.sort();
        self.notes.dedup();
        let is_printed =
            !simulated.series.is_stdout() && !simulated.csv.as_deref().is_some_and(is_stdout);
        match (plan.json, seeds > 1) {
            (true, true) => out.json("replay comparison", means)?,
            (true, false) => out.json("replay", &self.rows)?,
            (false, true) if is_printed => seeds::print(out, means)?,
            (false, false) if is_printed => report::print(out, &self.rows)?,
            (false, _) => {}
        }
        // In JSON, keys express the limits of a trace.
        let of_json: Vec<_> = of_seeds.into_iter().chain(self.guesses.iter().cloned()).collect();
        out.notes(if plan.json { &of_json } else { &self.notes })
    }
}

/// The files of options.
struct OutputFiles {
    page: Option<HtmlFile>,
    table: Option<CsvFile>,
    series: Option<SeriesFile>,
}

/// Prepares the files of `--html`, `--csv` and `--series`.
fn outputs(plan: &ReplayPlan, simulated: &SimulatedPlan) -> Result<OutputFiles, Failure> {
    let device = simulated.device_file.as_deref();
    let device = device.map(|path| CommandInput { name: "the device model", path });
    let inputs: Vec<_> = traces_of(plan).chain(device).collect();
    let mut outputs = CommandOutputs::beside(&inputs);
    let page = HtmlFile::prepare(plan.html.as_deref(), plan.json, &mut outputs)?;
    let table =
        CsvFile::prepare::<ReplayComparisonRow>(simulated.csv.as_deref(), plan.json, &mut outputs)?;
    let series = SeriesFile::prepare(&simulated.series, plan.json, &mut outputs)?;
    Ok(OutputFiles { page, table, series })
}

/// Creates the file of `--html`.
fn html_file(plan: &ReplayPlan) -> Result<Option<HtmlFile>, Failure> {
    let inputs: Vec<_> = traces_of(plan).collect();
    let mut outputs = CommandOutputs::beside(&inputs);
    HtmlFile::prepare(plan.html.as_deref(), plan.json, &mut outputs)
}

fn traces_of(plan: &ReplayPlan) -> impl Iterator<Item = CommandInput<'_>> {
    plan.traces.iter().map(|path| CommandInput { name: "the trace", path })
}

/// Reads a trace once, for its files and threads.
fn summary_of(plan: &ReplayPlan, trace: &Path) -> Result<TraceSummary, Failure> {
    check_rereadable(trace, "a replay reads it several times; give a file")?;
    let reader = TraceReader::open(trace, plan.format);
    let summary = reader.and_then(TraceSummary::of);
    let summary = summary.map_err(|error| failure(error.into()))?;
    if summary.reads == 0 {
        return Err(Failure::WrongUse(format!("{}: has no reads", trace.display())));
    }
    Ok(summary)
}

/// Refuses a trace that cannot be read twice, such as stdin or a pipe.
fn check_rereadable(trace: &Path, why: &str) -> Result<(), Failure> {
    let path = trace.display();
    let wrong = |what: String| Failure::WrongUse(format!("{path}: {what}"));
    match std::fs::metadata(trace) {
        Ok(found) if found.is_file() => Ok(()),
        Err(error) if trace != Path::new("-") => Err(wrong(error.to_string())),
        Ok(_) | Err(_) => Err(wrong(format!("is not a regular file; {why}"))),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn failure(error: ReplayError) -> Failure {
    Failure::WrongUse(error.to_string())
}

/// Returns notes on unknown or guessed parts of a trace.
fn guesses_in(trace: &Path, summary: &TraceSummary) -> Vec<String> {
    summary.notes.iter().map(|note| format!("{}: {note}", trace.display())).collect()
}

/// Returns notes on the limits of a trace.
fn notes_of(trace: &Path, summary: &TraceSummary, pace: ReplayPace) -> Vec<String> {
    let name = trace.display();
    let mut notes = guesses_in(trace, summary);
    if summary.level() == TraceLevel::Block {
        notes.push(format!(
            "{name} was taken at a block device, below the page cache: reads that hit are missing, \
             and the read-ahead of its program is spent already. The figures are those of a cache \
             at the device; they do not say what the program would gain"
        ));
    }
    if !summary.format.has_threads() {
        notes.push(format!("{name} does not name threads: all reads of a file are one reader's"));
    }
    let is_open = matches!(pace, ReplayPace::Open { .. });
    if is_open && !summary.format.has_fine_times() {
        notes.push(format!("{name} has times in seconds: the reads of a second begin at once"));
    }
    if summary.mapped > 0 {
        let mapped = summary.mapped;
        notes.push(format!("{name}: {mapped} accesses to mapped memory are replayed as reads"));
    }
    if summary.writes > 0 {
        notes.push(format!("{name}: {} writes are left out", summary.writes));
    }
    if summary.is_cut_off {
        notes.push(format!(
            "{name} ends without its end mark: its writer was killed, or its disk was full"
        ));
    }
    notes
}
