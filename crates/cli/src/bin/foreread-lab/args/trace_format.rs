//! The names of trace formats, as arguments.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use foreread_trace::TraceFormat;

/// Returns the parser of all readable formats.
pub(crate) fn trace_formats() -> impl TypedValueParser<Value = TraceFormat> {
    PossibleValuesParser::new(TraceFormat::ALL.map(TraceFormat::name)).map(|name| {
        // Clap has let through only the names of `TraceFormat::ALL`.
        TraceFormat::from_name(&name).expect("clap accepts only names of TraceFormat::ALL")
    })
}
