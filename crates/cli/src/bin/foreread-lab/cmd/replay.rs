//! `foreread-lab replay`: simulates, or performs, the reads of a trace and reports their waits.
//!
//! Traces are streamed, and the files they name are never read.

mod args;
mod caches;
mod csv;
mod html;
mod jobs;
mod picture;
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

use crate::args::device_model::DeviceModelArg;
use crate::csv::CsvFile;
use crate::intervals::{SAME_WITH_EACH_SEED, seeds_from};
use crate::series_file::{SeriesFile, longest_interval};
use foreread_cli::html_file::HtmlFile;
use foreread_cli::output::{Failure, Printer};
use foreread_cli::output_file::CommandOutputs;
use foreread_cli::progress::spinner;

pub(crate) fn run(args: &ReplayArgs, out: &mut Printer) -> Result<(), Failure> {
    args.check()?;
    if !args.cache.is_empty() {
        return caches::run(args, out);
    }
    if args.real.is_given() {
        return real::run(args, out);
    }
    let device = args.device.load()?;
    let files = outputs(args)?;
    let seeds = seeds_from(args.seed, args.seeds).map_err(Failure::WrongUse)?;
    let runs = args.trace.len() * jobs::count(args, &device.model, &seeds);
    let kept = (&seeds[..], args.series.spec(runs)?);
    let bar = spinner();
    let mut all = AllReplays::default();
    for trace in &args.trace {
        bar.set_message(format!("{}: first pass", trace.display()));
        let summary = summary_of(args, trace)?;
        let pace = args.pace(&summary);
        all.notes.extend(notes_of(trace, &summary, pace));
        all.guesses.extend(guesses_in(trace, &summary));
        let jobs = jobs::of(args, &device.model, pace, kept)?;
        let begun = |count: usize| {
            bar.set_message(format!("{}: {count} of {}", trace.display(), jobs.len()));
        };
        let replayed = jobs::run_all(args, (trace, &summary), &device.name, &jobs, &begun);
        let first = all.rows.len();
        let figures = all.add(replayed.map_err(failure)?);
        if files.page.is_some() {
            let of_trace = html::TraceReplays {
                summary: &summary,
                rows: &all.rows[first..],
                jobs: &jobs,
                figures: &figures,
                device: &device.name,
                is_only: args.trace.len() == 1,
            };
            all.sections.push(html::section(&of_trace));
        }
    }
    bar.finish_and_clear();
    let mut means = Vec::new();
    // They have a copy of each row, which one seed has no use for but in the table.
    if args.seeds > 1 || files.table.is_some() {
        let traces = all.rows.chunks(all.rows.len() / args.trace.len());
        means.extend(traces.flat_map(|rows| ReplayComparisonRow::all(rows, seeds.len())));
    }
    all.print(args, &means, out)?;
    let AllReplays { rows, series, sections, notes, .. } = all;
    let page = files.page.map_or(Ok(()), |page| page.write(html::page(&rows, &notes, sections)));
    let table = files.table.map_or(Ok(()), |table| csv::write(table, &means));
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
        args: &ReplayArgs,
        means: &[ReplayComparisonRow],
        out: &mut Printer,
    ) -> Result<(), Failure> {
        let of_options = self.notes_of_options(args, means);
        self.notes.extend(of_options.iter().cloned());
        self.notes.sort();
        self.notes.dedup();
        let is_printed = !args.series.is_stdout() && !args.csv.as_deref().is_some_and(is_stdout);
        match (args.json, args.seeds > 1) {
            (true, true) => out.json("replay comparison", means)?,
            (true, false) => out.json("replay", &self.rows)?,
            (false, true) if is_printed => seeds::print(out, means)?,
            (false, false) if is_printed => report::print(out, &self.rows)?,
            (false, _) => {}
        }
        // In JSON, keys express the limits of a trace.
        let of_json = [&of_options[..], &self.guesses].concat();
        out.notes(if args.json { &of_json } else { &self.notes })
    }

    /// Notes on options that have another effect than one may expect.
    fn notes_of_options(&self, args: &ReplayArgs, means: &[ReplayComparisonRow]) -> Vec<String> {
        let longest = longest_interval(self.series.iter().flatten());
        let mut notes = Vec::from_iter(args.series.note(longest));
        if args.seeds > 1 && means.iter().all(ReplayComparisonRow::is_same_with_each_seed) {
            notes.push(SAME_WITH_EACH_SEED.to_owned());
        }
        notes
    }
}

/// The files of options.
struct OutputFiles {
    page: Option<HtmlFile>,
    table: Option<CsvFile>,
    series: Option<SeriesFile>,
}

/// Prepares the files of `--html`, `--csv` and `--series`.
fn outputs(args: &ReplayArgs) -> Result<OutputFiles, Failure> {
    let traces = args.trace.iter().map(|path| CommandInput { name: "the trace", path });
    let device = match &args.device {
        DeviceModelArg::File(path) => Some(CommandInput { name: "the device model", path }),
        DeviceModelArg::Known(_) => None,
    };
    let inputs: Vec<_> = traces.chain(device).collect();
    let mut outputs = CommandOutputs::beside(&inputs);
    let page = HtmlFile::prepare(args.html.as_deref(), args.json, &mut outputs)?;
    let table = csv::prepare(args.csv.as_deref(), args.json, &mut outputs)?;
    let series = SeriesFile::prepare(&args.series, args.json, &mut outputs)?;
    Ok(OutputFiles { page, table, series })
}

/// The file of `--html`, where there is no other.
fn html_file(args: &ReplayArgs) -> Result<Option<HtmlFile>, Failure> {
    outputs(args).map(|files| files.page)
}

/// Reads a trace once, for its files and threads.
fn summary_of(args: &ReplayArgs, trace: &Path) -> Result<TraceSummary, Failure> {
    check_rereadable(trace, "a replay reads it several times; give a file")?;
    let reader = TraceReader::open(trace, args.format);
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
