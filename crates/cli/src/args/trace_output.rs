//! The formats of traces that can be written, and their earlier files.
//!
//! In:    a name; the first bytes of a file.
//! Out:   a format; whether the file is such a trace.
//! Never: a list of names that differs from the crate's.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use foreread_trace::OutputFormat;

/// The values of `--to`.
pub(crate) fn output_formats() -> impl TypedValueParser<Value = OutputFormat> {
    PossibleValuesParser::new(OutputFormat::ALL.map(OutputFormat::name)).map(|name| {
        // Clap has let through only the names of `OutputFormat::ALL`.
        OutputFormat::from_name(&name).expect("clap accepts only names of OutputFormat::ALL")
    })
}

/// Whether a file begins as those that are written.
pub(crate) fn is_trace(head: &[u8]) -> bool {
    head.starts_with(b"foreread-trace\0")
        || head.starts_with(b"time_ns,thread,op,file,offset,length,mapped\n")
        || head.starts_with(b"fio version 3 iolog\n")
}
