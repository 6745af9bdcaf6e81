//! The conditions of a verdict, each with its figures.

use crate::seeds::table::SeedVerdict;

/// Conditions that must hold, each with its figures.
#[derive(Debug, Default)]
pub(super) struct Targets {
    holds: bool,
    why: Vec<String>,
}

impl Targets {
    pub(super) fn new() -> Self {
        Self { holds: true, why: Vec::new() }
    }

    pub(super) fn add(&mut self, holds: bool, what: String) {
        self.holds &= holds;
        self.why.push(if holds { what } else { format!("not met: {what}") });
    }

    pub(super) fn verdict(self) -> SeedVerdict {
        SeedVerdict { holds: self.holds, why: self.why.join("; ") }
    }
}
