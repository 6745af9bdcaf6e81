//! The table of `replay --csv`: a line for each trace and combination.

use std::path::Path;

use foreread_sim::comparison::ReplayComparisonRow;

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

pub(super) fn write(file: CsvFile, rows: &[ReplayComparisonRow]) -> Result<(), Failure> {
    let row = |row: &ReplayComparisonRow| CsvRow {
        cells: vec![
            text_cell(&row.trace),
            row.level.to_owned(),
            text_cell(&row.device),
            row.policy.clone(),
            row.eviction.to_owned(),
            value_cell(row.max_window),
            row.memory.to_string(),
            row.pace.to_owned(),
            row.scale.to_string(),
            row.warm.to_string(),
            row.seeds.to_string(),
            row.reads.to_string(),
            row.bytes.to_string(),
            value_cell(row.least_waited_s),
            value_cell(row.fewest_requests),
            value_cell(row.fewest_bytes),
        ],
        figures: row.figures(),
    };
    file.write(FIRST_COLUMNS, ReplayComparisonRow::FIGURES, rows.iter().map(row))
}

/// A learnt window is empty.
const FIRST_COLUMNS: &str = "version,trace,level,device,policy,eviction,max_window_bytes,\
                             memory_bytes,loop,scale,warm,seeds,reads,bytes,least_waited_s,\
                             fewest_requests,fewest_bytes";
