//! `foreread replay`: what the reads of a trace would have waited for.
//!
//! In:    traces, a device model, policies and memory sizes.
//! Out:   a row for each policy and size, and a sentence that says what to do; or JSON.
//! Never: a trace in memory, or a real read of the files that it names.

mod args;
mod caches;
mod html;
mod jobs;
mod picture;
mod real;
mod report;
mod seeds;
mod series;

pub(crate) use args::ReplayArgs;

use std::path::Path;

use foreread_files::CommandInput;
use foreread_report::ReportSection;
use foreread_sim::comparison::ReplayComparisonRow;
use foreread_sim::json_rows::ReplayRow;
use foreread_sim::replay::{ReplayError, ReplayPace};
use foreread_sim::time_series::TimeSeries;
use foreread_trace::{TraceLevel, TraceReader, TraceSummary};

use jobs::JobFigures;

use crate::args::device_model::DeviceModelArg;
use crate::html_file::HtmlFile;
use crate::intervals::{SAME_WITH_EACH_SEED, seeds_from};
use crate::output::{Failure, Printer};
use crate::output_file::CommandOutputs;
use crate::progress::spinner;
use crate::series_file::{SeriesFile, longest_interval};

pub(crate) fn run(args: &ReplayArgs, out: &mut Printer) -> Result<(), Failure> {
    args.check()?;
    if !args.cache.is_empty() {
        return caches::run(args, out);
    }
    if args.real.is_given() {
        return real::run(args, out);
    }
    let device = args.device.load()?;
    let (page, file) = outputs(args)?;
    let seeds = seeds_from(args.seed, args.seeds).map_err(Failure::WrongUse)?;
    let runs = args.trace.len() * jobs::count(args, &device.model, &seeds);
    let kept = (&seeds[..], args.series.spec(runs)?);
    let bar = spinner();
    let mut all = Replayed::default();
    for trace in &args.trace {
        bar.set_message(format!("{}: first pass", trace.display()));
        let summary = summary_of(args, trace)?;
        let pace = args.pace(&summary);
        all.notes.extend(notes_of(trace, &summary, pace));
        let jobs = jobs::of(args, &device.model, pace, kept)?;
        let begun = |count: usize| {
            bar.set_message(format!("{}: {count} of {}", trace.display(), jobs.len()));
        };
        let mut figures = jobs::run_all(args, trace, &summary, &jobs, &begun).map_err(failure)?;
        let first = all.rows.len();
        for (job, of_job) in jobs.iter().zip(&mut figures) {
            all.notes.extend(report::notes(job, &of_job.figures));
            all.series.push(of_job.figures.series.take());
            let (name, JobFigures { figures, bounds }) = (trace.display().to_string(), of_job);
            let row = ReplayRow::new(name, &device.name, &summary, &job.how, figures, *bounds);
            all.rows.push(row);
        }
        if page.is_some() {
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
    all.say(args, seeds.len(), out)?;
    let Replayed { rows, series, sections, notes } = all;
    let page = page.map_or(Ok(()), |page| page.write(html::page(&rows, &notes, sections)));
    page.and(file.map_or(Ok(()), |file| series::write(file, &rows, &series)))
}

/// The replays of all traces.
#[derive(Default)]
struct Replayed {
    /// One for each trace, combination and seed, in this order.
    rows: Vec<ReplayRow>,
    /// The series of each row, if they were kept.
    series: Vec<Option<TimeSeries>>,
    /// Those of the report.
    sections: Vec<ReportSection>,
    notes: Vec<String>,
}

impl Replayed {
    /// Prints the rows, with several seeds of each means over them; then the notes.
    fn say(&mut self, args: &ReplayArgs, seeds: usize, out: &mut Printer) -> Result<(), Failure> {
        self.notes.extend(args.series.note(longest_interval(self.series.iter().flatten())));
        let of_trace = |rows: &[ReplayRow]| ReplayComparisonRow::all(rows, seeds);
        let traces = self.rows.chunks(self.rows.len() / args.trace.len());
        let means = (seeds > 1).then(|| traces.flat_map(of_trace).collect::<Vec<_>>());
        if let Some(means) = &means
            && means.iter().all(ReplayComparisonRow::is_same_with_each_seed)
        {
            self.notes.push(SAME_WITH_EACH_SEED.to_owned());
        }
        self.notes.sort();
        self.notes.dedup();
        let is_printed = !args.series.is_stdout();
        match &means {
            Some(means) if args.json => return out.json("replay comparison", means),
            None if args.json => return out.json("replay", &self.rows),
            Some(means) if is_printed => seeds::print(out, means)?,
            None if is_printed => report::print(out, &self.rows)?,
            Some(_) | None => {}
        }
        out.notes(&self.notes)
    }
}

/// The files of `--html` and `--series`.
fn outputs(args: &ReplayArgs) -> Result<(Option<HtmlFile>, Option<SeriesFile>), Failure> {
    let traces = args.trace.iter().map(|path| CommandInput { name: "the trace", path });
    let device = match &args.device {
        DeviceModelArg::File(path) => Some(CommandInput { name: "the device model", path }),
        DeviceModelArg::Known(_) => None,
    };
    let inputs: Vec<_> = traces.chain(device).collect();
    let mut outputs = CommandOutputs::beside(&inputs);
    let page = HtmlFile::prepare(args.html.as_deref(), args.json, &mut outputs)?;
    Ok((page, SeriesFile::prepare(&args.series, args.json, &mut outputs)?))
}

/// The file of `--html`, where there is no series.
fn html_file(args: &ReplayArgs) -> Result<Option<HtmlFile>, Failure> {
    outputs(args).map(|(page, _)| page)
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

/// Whether a trace can be read more than once; stdin and pipes cannot.
fn check_rereadable(trace: &Path, why: &str) -> Result<(), Failure> {
    let path = trace.display();
    let wrong = |what: String| Failure::WrongUse(format!("{path}: {what}"));
    match std::fs::metadata(trace) {
        Ok(found) if found.is_file() => Ok(()),
        Err(error) if trace != Path::new("-") => Err(wrong(error.to_string())),
        Ok(_) | Err(_) => Err(wrong(format!("is no regular file; {why}"))),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn failure(error: ReplayError) -> Failure {
    Failure::WrongUse(error.to_string())
}

/// What a trace cannot tell.
fn notes_of(trace: &Path, summary: &TraceSummary, pace: ReplayPace) -> Vec<String> {
    let name = trace.display();
    let mut notes = Vec::new();
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
