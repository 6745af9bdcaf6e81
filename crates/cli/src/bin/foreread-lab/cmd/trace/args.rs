//! The arguments of `foreread-lab trace`.

use std::path::PathBuf;

use clap::Args;
use foreread_trace::{OutputFormat, TraceFormat};

use super::{ConversionPlan, TraceMode, TracePlan};
use crate::args::trace_format::trace_formats;
use foreread_cli::args::help::CODES_AND_UNITS;
use foreread_cli::args::trace_output::output_formats;

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

impl TraceArgs {
    /// Resolves the options.
    pub(super) fn resolve(&self) -> TracePlan {
        let conversion = self.to.zip(self.output.as_ref());
        let mode = match conversion {
            Some((format, output)) => TraceMode::Convert(ConversionPlan {
                format,
                output: output.clone(),
                hash_names: self.hash_names,
            }),
            None if self.json => TraceMode::Json,
            None => TraceMode::Summary,
        };
        TracePlan { trace: self.trace.clone(), format: self.format, mode }
    }
}

const EXAMPLES: &str = "\
Examples:
  foreread-lab trace hm_1.csv.gz
  foreread-lab trace program.frt --to csv --output - | head
  foreread-lab trace program.frt --to fio-3 --output iolog --hash-names

";
