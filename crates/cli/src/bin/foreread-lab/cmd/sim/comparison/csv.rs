//! The table of `sim --csv`: a line for each combination.

use std::path::Path;

use foreread_sim::comparison::ComparisonRow;

use crate::csv::{CsvFile, CsvRow, text_cell, value_cell};
use foreread_cli::output::Failure;
use foreread_cli::output_file::CommandOutputs;

pub(super) fn prepare(
    path: Option<&Path>,
    is_json: bool,
    outputs: &mut CommandOutputs<'_>,
) -> Result<Option<CsvFile>, Failure> {
    CsvFile::prepare(path, is_json, outputs, |head| head.starts_with(FIRST_COLUMNS.as_bytes()))
}

pub(super) fn write(file: CsvFile, rows: &[ComparisonRow]) -> Result<(), Failure> {
    let row = |row: &ComparisonRow| CsvRow {
        cells: vec![
            text_cell(&row.scenario),
            row.policy.to_owned(),
            value_cell(row.max_window),
            row.memory.to_string(),
            row.seeds.to_string(),
        ],
        figures: row.figures(),
    };
    file.write(FIRST_COLUMNS, ComparisonRow::FIGURES, rows.iter().map(row))
}

/// A learnt window is empty.
const FIRST_COLUMNS: &str = "version,scenario,policy,max_window_bytes,memory_bytes,seeds";
