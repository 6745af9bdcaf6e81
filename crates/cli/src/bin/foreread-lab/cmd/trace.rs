//! `foreread-lab trace`: summarises a trace, or converts it to another format.
//!
//! Traces are streamed.

mod args;

pub(crate) use args::TraceArgs;

use std::io::Write as _;
use std::path::PathBuf;

use foreread_files::{CommandInput, ResultFile};
use foreread_trace::{
    OutputFormat, TraceError, TraceFormat, TraceReader, TraceSummary, TraceWriter,
};
use serde::Serialize;

use foreread_cli::args::trace_output::is_trace;
use foreread_cli::output::{Failure, Printer, plain};
use foreread_cli::output_file;
use foreread_cli::table;

/// A trace to summarise or to convert.
struct TracePlan {
    trace: PathBuf,
    /// None: detected.
    format: Option<TraceFormat>,
    mode: TraceMode,
}

enum TraceMode {
    Summary,
    /// The summary as JSON.
    Json,
    Convert(ConversionPlan),
}

/// Output of a conversion.
struct ConversionPlan {
    format: OutputFormat,
    output: PathBuf,
    /// True if file names are replaced by hashes.
    hash_names: bool,
}

pub(crate) fn run(args: &TraceArgs, out: &mut Printer) -> Result<(), Failure> {
    let plan = args.resolve();
    let reader = TraceReader::open(&plan.trace, plan.format).map_err(bad_input)?;
    let summarise = |reader| TraceSummary::of(reader).map_err(bad_input);
    match &plan.mode {
        TraceMode::Convert(conversion) => convert(&plan, conversion, reader, out),
        TraceMode::Summary => print(out, &summarise(reader)?),
        TraceMode::Json => {
            let summary = summarise(reader)?;
            out.json("trace", [TraceReport::of(&summary)])?;
            // The rest is in the keys of JSON.
            out.notes(&summary.notes)
        }
    }
}

fn convert(
    plan: &TracePlan,
    conversion: &ConversionPlan,
    mut reader: TraceReader<'_>,
    out: &mut Printer,
) -> Result<(), Failure> {
    let ConversionPlan { format, output, hash_names } = conversion;
    let inputs = [CommandInput { name: "the trace", path: &plan.trace }];
    let file_error = |error| output_file::failed("--output", &error);
    let file = ResultFile::create(output, &inputs, is_trace).map_err(file_error)?;
    let mut bad = None;
    let written = file.write_whole(|out| {
        let mut writer = TraceWriter::new(out, *format, *hash_names);
        loop {
            match reader.next_record() {
                Ok(Some(record)) => writer.write(&record, reader.files())?,
                Ok(None) => return writer.finish().map(drop),
                Err(error) => {
                    let copy = std::io::Error::other(error.to_string());
                    bad = Some(error);
                    return Err(copy);
                }
            }
        }
    });
    if let Some(error) = bad {
        return Err(bad_input(error));
    }
    written.map_err(file_error)?;
    let mut all = notes(reader.is_cut_off(), reader.out_of_order());
    all.extend(reader.notes());
    out.notes(&all)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn bad_input(error: TraceError) -> Failure {
    Failure::WrongUse(error.to_string())
}

/// A trace, as `--json` prints it.
#[derive(Debug, Serialize)]
struct TraceReport<'s> {
    format: &'static str,
    level: &'static str,
    reads: u64,
    read_bytes: u64,
    writes: u64,
    write_bytes: u64,
    mapped: u64,
    seconds: f64,
    threads: usize,
    files: Vec<FileReport<'s>>,
    skipped: u64,
    out_of_order: u64,
    cut_off: bool,
}

#[derive(Debug, Serialize)]
struct FileReport<'s> {
    name: &'s str,
    bytes: u64,
    records: u64,
}

impl<'s> TraceReport<'s> {
    fn of(summary: &'s TraceSummary) -> Self {
        let file = |file: &'s foreread_trace::FileSummary| FileReport {
            name: &file.name,
            bytes: file.len,
            records: file.records,
        };
        Self {
            format: summary.format.name(),
            level: summary.level().name(),
            reads: summary.reads,
            read_bytes: summary.read_bytes,
            writes: summary.writes,
            write_bytes: summary.write_bytes,
            mapped: summary.mapped,
            seconds: seconds(summary),
            threads: summary.threads.len(),
            files: summary.files.iter().map(file).collect(),
            skipped: summary.skipped,
            out_of_order: summary.out_of_order,
            cut_off: summary.is_cut_off,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a few digits are shown")]
fn seconds(summary: &TraceSummary) -> f64 {
    summary.duration.0 as f64 / 1e9
}

#[expect(clippy::cast_precision_loss, reason = "a few digits are shown")]
fn mib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / (1 << 20) as f64)
}

fn print(out: &mut Printer, summary: &TraceSummary) -> Result<(), Failure> {
    let TraceSummary { reads, writes, mapped, skipped, .. } = summary;
    let (read, written) = (mib(summary.read_bytes), mib(summary.write_bytes));
    let (format, level) = (summary.format.name(), summary.level().name());
    writeln!(out, "format {format}, {level} level, {:.3} s", seconds(summary))?;
    let threads = summary.threads.len();
    let text = format!(
        "{reads} reads of {read} MiB, {writes} writes of {written} MiB, {mapped} of them mapped; \
         {threads} threads; {skipped} other events\n"
    );
    out.entry("", &text)?;
    writeln!(out)?;
    let mut files: Vec<_> = summary.files.iter().collect();
    files.sort_by_key(|file| std::cmp::Reverse(file.records));
    let rows = files
        .iter()
        .take(MOST_FILES)
        .map(|file| [plain(&file.name), file.records.to_string(), mib(file.len), mib(file.first)]);
    table::print(out, ["file", "records", "MiB", "from MiB"], rows)?;
    if files.len() > MOST_FILES {
        writeln!(out, "and {} more", files.len() - MOST_FILES)?;
    }
    let mut all = notes(summary.is_cut_off, summary.out_of_order);
    all.extend(summary.notes.iter().cloned());
    out.notes(&all)
}

/// Returns notes on damaged or unordered traces.
fn notes(is_cut_off: bool, out_of_order: u64) -> Vec<String> {
    let mut notes = Vec::new();
    if is_cut_off {
        notes.push(
            "it ends without its end mark: its writer was killed, or its disk was full".to_owned(),
        );
    }
    if out_of_order > 0 {
        notes.push(format!(
            "{out_of_order} records are earlier than the one before, and got its time"
        ));
    }
    notes
}

/// Files that are named; `--json` names all.
const MOST_FILES: usize = 20;
