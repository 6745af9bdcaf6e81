//! Trace formats that can be written, as arguments.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use foreread_trace::OutputFormat;

/// Returns the parser of `--to`.
pub fn output_formats() -> impl TypedValueParser<Value = OutputFormat> {
    PossibleValuesParser::new(OutputFormat::ALL.map(OutputFormat::name)).map(|name| {
        // Clap has let through only the names of `OutputFormat::ALL`.
        OutputFormat::from_name(&name).expect("clap accepts only names of OutputFormat::ALL")
    })
}

/// Returns true if a file starts like a trace in one of these formats.
pub fn is_trace(head: &[u8]) -> bool {
    head.starts_with(b"foreread-trace\0")
        || head.starts_with(b"time_ns,thread,op,file,offset,length,mapped\n")
        || head.starts_with(b"fio version 3 iolog\n")
}
