//! Trace formats that can be written, as arguments.

use std::ffi::OsStr;
use std::path::Path;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use foreread_trace::OutputFormat;

/// Returns the parser of `--to`.
pub fn output_formats() -> impl TypedValueParser<Value = OutputFormat> {
    PossibleValuesParser::new(OutputFormat::ALL.map(OutputFormat::name)).map(|name| {
        // Clap has let through only the names of `OutputFormat::ALL`.
        OutputFormat::from_name(&name).expect("clap accepts only names of OutputFormat::ALL")
    })
}

/// Returns the format that the name of a file asks for; foreread's own if it asks for none.
pub fn format_of(path: &Path) -> OutputFormat {
    match path.extension().and_then(OsStr::to_str) {
        Some("csv") => OutputFormat::Csv,
        Some("iolog") => OutputFormat::FioV3,
        _ => OutputFormat::Foreread,
    }
}

/// Returns true if a file starts like a trace in one of these formats.
pub fn is_trace(head: &[u8]) -> bool {
    head.starts_with(b"foreread-trace\0")
        || head.starts_with(b"time_ns,thread,op,file,offset,length,mapped\n")
        || head.starts_with(b"fio version 3 iolog\n")
}
