//! The rows of `sim --series`.
//!
//! Each row names its run, including the seed.

use foreread_sim::comparison::ComparisonRow;
use foreread_sim::scenario::Scenario;
use foreread_sim::time_series::TimeSeries;

use crate::csv::{text_cell, value_cell};
use crate::series_file::{RunSeries, SeriesFile};
use foreread_cli::output::Failure;

/// Writes the series of one run.
pub(super) fn write_run(
    file: SeriesFile,
    scenario: &Scenario,
    series: Option<&TimeSeries>,
) -> Result<(), Failure> {
    let policy = scenario.cache.policy.0.name();
    let window = scenario.max_window().bytes().map(|window| window.0);
    let memory = scenario.cache.memory.0.0;
    let run = cells(scenario, policy, window, memory, scenario.seed);
    file.write(&COLUMNS, &[RunSeries { run, series }])
}

/// Writes the series of all runs, in the order of the combinations and their seeds.
pub(super) fn write_rows(
    file: SeriesFile,
    scenario: &Scenario,
    rows: &[ComparisonRow],
) -> Result<(), Failure> {
    let mut runs = Vec::new();
    for row in rows {
        runs.extend(row.runs.iter().map(|run| RunSeries {
            run: cells(scenario, row.policy, row.max_window, row.memory, run.seed),
            series: run.series.as_ref(),
        }));
    }
    file.write(&COLUMNS, &runs)
}

fn cells(
    scenario: &Scenario,
    policy: &str,
    max_window: Option<u64>,
    memory: u64,
    seed: u64,
) -> Vec<String> {
    vec![
        text_cell(&scenario.name),
        policy.to_owned(),
        scenario.cache.eviction.0.name().to_owned(),
        value_cell(max_window),
        memory.to_string(),
        seed.to_string(),
    ]
}

const COLUMNS: [&str; 6] =
    ["scenario", "policy", "eviction", "max_window_bytes", "memory_bytes", "seed"];
