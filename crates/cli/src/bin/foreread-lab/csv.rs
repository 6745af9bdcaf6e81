//! Shared code of CSV outputs, and the file of `--csv` with one line per combination.
//!
//! Paths are checked before the runs. Floats are written with the shortest digits that read back
//! equal. There are no comment lines, so that readers work without options.

use std::path::Path;

use foreread_sim::comparison::ComparedFigure;
use foreread_sim::mean_interval::MeanInterval;

use foreread_cli::output::Failure;
use foreread_cli::output_file::{CommandOutputs, OutputFile, refuse_stdout};

/// The value of the column `version`, the first of each table: it grows when a column goes or
/// changes its meaning (docs/guide/json.md).
pub(crate) const CSV_VERSION: u32 = 1;

/// A table that is not there before [`CsvFile::write`].
pub(crate) struct CsvFile(OutputFile);

/// A line: a combination and its figures.
pub(crate) struct CsvRow<const FIGURES: usize> {
    /// The cells that say which it is, in the order of the first columns but `version`.
    pub(crate) cells: Vec<String>,
    pub(crate) figures: [Option<ComparedFigure>; FIGURES],
}

impl CsvFile {
    /// Prepares the file, if one was requested. JSON takes stdout for itself. `is_table` recognises
    /// an earlier one.
    pub(crate) fn prepare(
        path: Option<&Path>,
        is_json: bool,
        outputs: &mut CommandOutputs<'_>,
        is_table: fn(&[u8]) -> bool,
    ) -> Result<Option<Self>, Failure> {
        let Some(path) = path else { return Ok(None) };
        if is_json {
            refuse_stdout(("--csv", "the table"), path, "--json is")?;
        }
        outputs.prepare("--csv", path, is_table).map(|file| Some(Self(file)))
    }

    /// Writes the table; `first_columns` begin with `version`.
    pub(crate) fn write<const FIGURES: usize>(
        self,
        first_columns: &str,
        figures: [&str; FIGURES],
        rows: impl IntoIterator<Item = CsvRow<FIGURES>>,
    ) -> Result<(), Failure> {
        self.0.write(|file| {
            write!(file, "{first_columns}")?;
            for figure in figures {
                write!(file, ",{figure}_mean,{figure}_half_width")?;
                write!(file, ",{figure}_ratio,{figure}_ratio_low,{figure}_ratio_high")?;
            }
            writeln!(file)?;
            for row in rows {
                write!(file, "{CSV_VERSION},{}", row.cells.join(","))?;
                for value in row.figures.into_iter().flat_map(values) {
                    write!(file, ",{}", value_cell(value))?;
                }
                writeln!(file)?;
            }
            Ok(())
        })
    }
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

/// A cell with text.
pub(crate) fn text_cell(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// A cell with a value; empty if there is none.
pub(crate) fn value_cell(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}
