//! Plan of `foreread-lab sim`: a scenario, and its options checked and resolved.

use std::path::PathBuf;

use foreread_sim::comparison::Combination;
use foreread_sim::scenario::Scenario;

use crate::series_plan::SeriesPlan;

/// What is simulated, and where the figures go.
#[derive(Debug)]
pub(super) struct SimPlan {
    /// File of the scenario.
    pub(super) path: PathBuf,
    pub(super) scenario: Scenario,
    /// Combinations of memory size, policy and window.
    pub(super) combinations: Vec<Combination>,
    /// Seeds; each combination is run with every seed.
    pub(super) seeds: Vec<u64>,
    /// Returns the offline optima of combinations, too.
    pub(super) has_bounds: bool,
    pub(super) record: RecordPlan,
    pub(super) html: Option<PathBuf>,
    pub(super) csv: Option<PathBuf>,
    pub(super) series: SeriesPlan,
    pub(super) json: bool,
}

impl SimPlan {
    /// Returns the number of runs.
    pub(super) fn runs(&self) -> usize {
        self.combinations.len() * self.seeds.len()
    }

    /// Returns true if the result is a table with a row per combination, not the report of a run.
    pub(super) fn is_comparison(&self) -> bool {
        self.runs() > 1 || self.csv.is_some()
    }
}

/// Events of the one run.
#[derive(Debug)]
pub(super) enum RecordPlan {
    /// Keep only the hash of the events.
    Hash,
    /// Write the events to a file.
    Write(PathBuf),
    /// Compare the events with a file.
    Compare(PathBuf),
}
