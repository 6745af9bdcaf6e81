//! `foreread-lab trace`: summarises a trace, or converts it to another format.
//!
//! Traces are streamed.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use foreread_files::{CommandInput, ResultFile};
use foreread_trace::{
    OutputFormat, TraceError, TraceFormat, TraceReader, TraceSummary, TraceWriter,
};
use serde::Serialize;

use crate::args::trace_format::trace_formats;
use foreread_cli::args::help::CODES_AND_UNITS;
use foreread_cli::args::trace_output::{is_trace, output_formats};
use foreread_cli::output::{Failure, Printer, plain};
use foreread_cli::output_file;
use foreread_cli::table;

/// Summarise or convert an I/O trace
///
/// Reads the text of blkparse, fio's iolog (versions 2 and 3), the CSV of the MSR Cambridge, SYSTOR
/// '17, Tencent and Alibaba traces, SPC (the UMass traces), VSCSI (both versions), oracleGeneral of
/// libCacheSim, MQSim, CSV with a heading, and foreread's own format. The format is detected from
/// the content, also in gzip, xz or zstd. Unknown columns and guessed units are named on stderr.
/// docs/lab/traces.md describes the formats.
#[derive(Debug, Args)]
#[command(after_long_help = [EXAMPLES, CODES_AND_UNITS].concat())]
pub(crate) struct TraceArgs {
    /// Trace file; `-` is stdin
    trace: PathBuf,

    /// Trace format, if it cannot be detected
    #[arg(long, value_name = "FORMAT", value_parser = trace_formats())]
    format: Option<TraceFormat>,

    /// Convert to this format and write to --output
    ///
    /// fio-3 has no threads and no mapped accesses, has times in microseconds, and refuses names
    /// with white space or of more than 255 bytes. The other formats are lossless.
    #[arg(long, value_name = "FORMAT", value_parser = output_formats(), requires = "output")]
    to: Option<OutputFormat>,

    /// Output file of --to; `-` is stdout
    ///
    /// FILE must be absent, empty, or a trace of one of these formats (docs/guide/files.md).
    #[arg(short, long, value_name = "FILE", requires = "to")]
    output: Option<PathBuf>,

    /// Replace file names by hashes
    ///
    /// Equal names have equal hashes in every trace. Hashes of names that can be guessed can be
    /// confirmed.
    #[arg(long, requires = "to")]
    hash_names: bool,

    /// Print JSON with one data object
    ///
    /// Keys: format, level (block or file), reads, read_bytes, writes, write_bytes, mapped,
    /// seconds, threads, files (name, bytes, records), skipped, out_of_order, cut_off.
    #[arg(long, conflicts_with = "to")]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  foreread-lab trace hm_1.csv.gz
  foreread-lab trace program.frt --to csv --output - | head
  foreread-lab trace program.frt --to fio-3 --output iolog --hash-names

";

pub(crate) fn run(args: &TraceArgs, out: &mut Printer) -> Result<(), Failure> {
    let reader = TraceReader::open(&args.trace, args.format).map_err(bad_input)?;
    if let Some((format, output)) = args.to.zip(args.output.as_deref()) {
        return convert(args, reader, format, output, out);
    }
    let summary = TraceSummary::of(reader).map_err(bad_input)?;
    if args.json {
        out.json("trace", [TraceReport::of(&summary)])?;
        // The rest is in the keys of JSON.
        return out.notes(&summary.notes);
    }
    print(out, &summary)
}

fn convert(
    args: &TraceArgs,
    mut reader: TraceReader<'_>,
    format: OutputFormat,
    output: &Path,
    out: &mut Printer,
) -> Result<(), Failure> {
    let inputs = [CommandInput { name: "the trace", path: &args.trace }];
    let file_error = |error| output_file::failed("--output", &error);
    let file = ResultFile::create(output, &inputs, is_trace).map_err(file_error)?;
    let mut bad = None;
    let written = file.write_whole(|out| {
        let mut writer = TraceWriter::new(out, format, args.hash_names);
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
