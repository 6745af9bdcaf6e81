//! The file of `--csv`: a line for each combination.
//!
//! In:    a path, checked before the runs; rows.
//! Out:   the file, whole; floats in as many digits as tell them from their neighbours.
//! Never: another file than an earlier table of this command replaced.

use std::io::{self, Write};
use std::path::Path;

use foreread_sim::comparison::{ComparedFigure, ComparisonRow};
use foreread_sim::mean_interval::MeanInterval;

use crate::csv::{CSV_VERSION, text_cell, value_cell};
use crate::output::Failure;
use crate::output_file::{CommandOutputs, OutputFile, refuse_stdout};

/// A table that is not there before [`CsvFile::write`].
pub(super) struct CsvFile(OutputFile);

impl CsvFile {
    /// Prepares the file, if one was requested. JSON takes stdout for itself.
    pub(super) fn prepare(
        path: Option<&Path>,
        is_json: bool,
        outputs: &mut CommandOutputs<'_>,
    ) -> Result<Option<Self>, Failure> {
        let Some(path) = path else { return Ok(None) };
        if is_json {
            refuse_stdout(("--csv", "the table"), path, "--json is")?;
        }
        outputs.prepare("--csv", path, is_table).map(|file| Some(Self(file)))
    }

    pub(super) fn write(self, rows: &[ComparisonRow]) -> Result<(), Failure> {
        self.0.write(|file| write_rows(file, rows))
    }
}

fn is_table(head: &[u8]) -> bool {
    head.starts_with(FIRST_COLUMNS.as_bytes())
}

fn write_rows(file: &mut dyn Write, rows: &[ComparisonRow]) -> io::Result<()> {
    write!(file, "{FIRST_COLUMNS}")?;
    for figure in ComparisonRow::FIGURES {
        write!(file, ",{figure}_mean,{figure}_half_width")?;
        write!(file, ",{figure}_ratio,{figure}_ratio_low,{figure}_ratio_high")?;
    }
    writeln!(file)?;
    for row in rows {
        let (scenario, window) = (text_cell(&row.scenario), value_cell(row.max_window));
        write!(file, "{CSV_VERSION},{scenario},{}", row.policy)?;
        write!(file, ",{window},{},{}", row.memory, row.seeds)?;
        for figure in row.figures() {
            for value in values(figure) {
                write!(file, ",{}", value_cell(value))?;
            }
        }
        writeln!(file)?;
    }
    Ok(())
}

/// The values of a figure, in the order of its columns.
fn values(figure: Option<ComparedFigure>) -> [Option<f64>; 5] {
    let Some(ComparedFigure { over_seeds, over_first }) = figure else { return [None; 5] };
    let MeanInterval { mean, half_width } = over_seeds;
    [
        Some(mean),
        half_width,
        over_first.map(|ratio| ratio.ratio),
        over_first.and_then(|ratio| ratio.low),
        over_first.and_then(|ratio| ratio.high),
    ]
}

/// A learnt window is empty.
const FIRST_COLUMNS: &str = "version,scenario,policy,max_window_bytes,memory_bytes,seeds";
