//! The rows of `replay --series`.

use foreread_sim::json_rows::ReplayRow;
use foreread_sim::time_series::TimeSeries;

use crate::csv::{text_cell, value_cell};
use crate::series_file::{RunSeries, SeriesFile};
use foreread_cli::output::Failure;

/// Writes the series of all replays, in the order of their rows.
pub(super) fn write(
    file: SeriesFile,
    rows: &[ReplayRow],
    series: &[Option<TimeSeries>],
) -> Result<(), Failure> {
    let runs = rows.iter().zip(series);
    let runs = runs.map(|(row, series)| RunSeries { run: cells(row), series: series.as_ref() });
    file.write(&COLUMNS, &runs.collect::<Vec<_>>())
}

fn cells(row: &ReplayRow) -> Vec<String> {
    vec![
        text_cell(&row.setup.trace),
        text_cell(&row.setup.device),
        row.setup.policy.clone(),
        row.setup.eviction.to_owned(),
        value_cell(row.setup.max_window),
        row.setup.memory.to_string(),
        row.seed.to_string(),
    ]
}

const COLUMNS: [&str; 7] =
    ["trace", "device", "policy", "eviction", "max_window_bytes", "memory_bytes", "seed"];
