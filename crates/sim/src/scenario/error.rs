//! An error in a scenario, and its line.

use std::fmt;
use std::ops::Range;

/// Reason that a scenario is invalid.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BadScenario {
    /// Line number, from 1, if it can be located.
    pub line: Option<usize>,
    /// The error, and the allowed values.
    pub why: String,
}

impl BadScenario {
    pub(super) fn at(text: &str, span: Option<Range<usize>>, why: String) -> Self {
        let line = span.map(|span| {
            let before = text.get(..span.start).unwrap_or(text);
            before.bytes().filter(|byte| *byte == b'\n').count() + 1
        });
        Self { line, why }
    }

    /// Parses `KEY: WHY` for a key without a recorded span, and locates the first line that sets
    /// it.
    pub(super) fn of_key(text: &str, why: String) -> Self {
        let key = why.split(':').next().unwrap_or_default();
        let sets = |line: &str| {
            let code = line.split('#').next().unwrap_or_default();
            let mut parts = code.split(['{', ',']).filter_map(|part| part.split_once('='));
            parts.any(|(name, _)| name.trim() == key)
        };
        let line = text.lines().position(sets).map(|index| index + 1);
        Self { line, why }
    }

    pub(super) fn of_toml(text: &str, error: &toml::de::Error) -> Self {
        let why = error.message().lines().collect::<Vec<_>>().join("; ");
        Self::at(text, error.span(), why)
    }
}

impl fmt::Display for BadScenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.why),
            None => f.write_str(&self.why),
        }
    }
}

impl std::error::Error for BadScenario {}
