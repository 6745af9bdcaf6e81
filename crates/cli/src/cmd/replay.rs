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

pub(crate) use args::ReplayArgs;

use std::path::Path;

use foreread_files::CommandInput;
use foreread_sim::json_rows::ReplayRow;
use foreread_sim::replay::{ReplayError, ReplayPace};
use foreread_trace::{TraceLevel, TraceReader, TraceSummary};

use jobs::JobFigures;

use crate::args::device_model::DeviceModelArg;
use crate::html_file::HtmlFile;
use crate::output::{Failure, Printer};
use crate::output_file::CommandOutputs;
use crate::progress::spinner;

pub(crate) fn run(args: &ReplayArgs, out: &mut Printer) -> Result<(), Failure> {
    args.check()?;
    if !args.cache.is_empty() {
        return caches::run(args, out);
    }
    if args.real.is_given() {
        return real::run(args, out);
    }
    let device = args.device.load()?;
    let file = html_file(args)?;
    let bar = spinner();
    let mut all = Vec::new();
    let mut sections = Vec::new();
    let mut notes = Vec::new();
    for trace in &args.trace {
        bar.set_message(format!("{}: first pass", trace.display()));
        let summary = summary_of(args, trace)?;
        let pace = args.pace(&summary);
        notes.extend(notes_of(trace, &summary, pace));
        let jobs = jobs::of(args, &device.model, pace)?;
        let begun = |count: usize| {
            bar.set_message(format!("{}: {count} of {}", trace.display(), jobs.len()));
        };
        let figures = jobs::run_all(args, trace, &summary, &jobs, &begun).map_err(failure)?;
        let (first, name) = (all.len(), trace.display().to_string());
        for (job, figures) in jobs.iter().zip(&figures) {
            notes.extend(report::notes(job, &figures.figures));
            let JobFigures { figures, bounds } = figures;
            let (name, device) = (name.clone(), &device.name);
            all.push(ReplayRow::new(name, device, &summary, &job.how, figures, *bounds));
        }
        if file.is_some() {
            let of_trace = html::TraceReplays {
                summary: &summary,
                rows: &all[first..],
                jobs: &jobs,
                figures: &figures,
                device: &device.name,
                is_only: args.trace.len() == 1,
            };
            sections.push(html::section(&of_trace));
        }
    }
    bar.finish_and_clear();
    notes.sort();
    notes.dedup();
    let page = file.map(|file| (file, html::page(&all, &notes, sections)));
    if args.json {
        out.json("replay", &all)?;
    } else {
        report::print(out, &all)?;
        out.notes(&notes)?;
    }
    page.map_or(Ok(()), |(file, page)| file.write(page))
}

/// The file of `--html`.
fn html_file(args: &ReplayArgs) -> Result<Option<HtmlFile>, Failure> {
    let traces = args.trace.iter().map(|path| CommandInput { name: "the trace", path });
    let device = match &args.device {
        DeviceModelArg::File(path) => Some(CommandInput { name: "the device model", path }),
        DeviceModelArg::Known(_) => None,
    };
    let inputs: Vec<_> = traces.chain(device).collect();
    HtmlFile::prepare(args.html.as_deref(), args.json, &mut CommandOutputs::beside(&inputs))
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
