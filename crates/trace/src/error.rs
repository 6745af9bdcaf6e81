//! Errors in a trace, with their position.

use std::fmt;

/// A trace that cannot be read or written.
#[derive(Debug)]
pub struct TraceError {
    /// Name of the trace.
    pub name: String,
    /// Position in the trace.
    pub at: Position,
    /// Description of the error.
    pub what: String,
}

/// A position in a trace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Position {
    /// The trace as a whole.
    Whole,
    /// A line of a text format, from 1.
    Line(u64),
    /// A record of a binary format, from 1.
    Record(u64),
}

impl TraceError {
    pub(crate) fn new(name: &str, at: Position, what: impl Into<String>) -> Self {
        Self { name: name.to_owned(), at, what: what.into() }
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, at, what } = self;
        match at {
            Position::Whole => write!(f, "{name}: {what}"),
            Position::Line(line) => write!(f, "{name}: line {line}: {what}"),
            Position::Record(record) => write!(f, "{name}: record {record}: {what}"),
        }
    }
}

impl std::error::Error for TraceError {}
