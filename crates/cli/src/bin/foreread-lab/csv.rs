//! Shared code of CSV outputs, and the file of `--csv` with one line per combination.
//!
//! Paths are checked before the runs. Floats are written with the shortest digits that read back
//! equal. There are no comment lines, so that readers work without options.

use std::path::Path;

use foreread_sim::comparison::{ComparedFigure, ComparisonRow, ReplayComparisonRow};
use foreread_sim::json_rows::ReplaySetup;
use foreread_sim::mean_interval::MeanInterval;

use foreread_cli::output::Failure;
use foreread_cli::output_file::{CommandOutputs, OutputFile, refuse_stdout};

/// The value of the column `version`, the first of each table: it grows when a column goes or
/// changes its meaning (docs/guide/json.md).
pub(crate) const CSV_VERSION: u32 = 1;

/// A table that is not there before [`CsvFile::write`].
pub(crate) struct CsvFile(OutputFile);

/// A combination and its figures, which are a line of the table.
pub(crate) trait CsvRow {
    /// Names of the first columns: the version, and those of [`Self::cells`].
    const FIRST_COLUMNS: &'static str;
    /// Names of [`Self::figures`].
    const FIGURES: &'static [&'static str];

    /// Returns the cells that identify the combination. A learnt window is empty.
    fn cells(&self) -> Vec<String>;

    /// Returns all figures.
    fn figures(&self) -> Vec<Option<ComparedFigure>>;
}

impl CsvRow for ComparisonRow {
    const FIRST_COLUMNS: &'static str =
        "version,scenario,policy,max_window_bytes,memory_bytes,seeds";
    const FIGURES: &'static [&'static str] = &Self::FIGURES;

    fn cells(&self) -> Vec<String> {
        vec![
            text_cell(&self.scenario),
            self.policy.to_owned(),
            value_cell(self.max_window),
            self.memory.to_string(),
            self.seeds.to_string(),
        ]
    }

    fn figures(&self) -> Vec<Option<ComparedFigure>> {
        Self::figures(self).to_vec()
    }
}

impl CsvRow for ReplayComparisonRow {
    const FIRST_COLUMNS: &'static str = "version,trace,level,device,policy,eviction,\
                                         max_window_bytes,memory_bytes,loop,scale,warm,seeds,\
                                         reads,bytes,least_waited_s,fewest_requests,fewest_bytes";
    const FIGURES: &'static [&'static str] = &Self::FIGURES;

    fn cells(&self) -> Vec<String> {
        let ReplaySetup { trace, level, device, policy, eviction, max_window, .. } = &self.setup;
        let ReplaySetup { memory, pace, scale, warm, .. } = &self.setup;
        vec![
            text_cell(trace),
            (*level).to_owned(),
            text_cell(device),
            policy.clone(),
            (*eviction).to_owned(),
            value_cell(*max_window),
            memory.to_string(),
            (*pace).to_owned(),
            scale.to_string(),
            warm.to_string(),
            self.seeds.to_string(),
            self.reads.to_string(),
            self.bytes.to_string(),
            value_cell(self.least_waited_s),
            value_cell(self.fewest_requests),
            value_cell(self.fewest_bytes),
        ]
    }

    fn figures(&self) -> Vec<Option<ComparedFigure>> {
        Self::figures(self).to_vec()
    }
}

impl CsvFile {
    /// Prepares the file for rows of this kind, if one was requested. JSON takes stdout for itself.
    pub(crate) fn prepare<R: CsvRow>(
        path: Option<&Path>,
        is_json: bool,
        outputs: &mut CommandOutputs<'_>,
    ) -> Result<Option<Self>, Failure> {
        let Some(path) = path else { return Ok(None) };
        if is_json {
            refuse_stdout(("--csv", "the table"), path, "--json is")?;
        }
        let is_table = |head: &[u8]| head.starts_with(R::FIRST_COLUMNS.as_bytes());
        outputs.prepare("--csv", path, is_table).map(|file| Some(Self(file)))
    }

    /// Writes the table.
    pub(crate) fn write<R: CsvRow>(self, rows: &[R]) -> Result<(), Failure> {
        self.0.write(|file| {
            write!(file, "{}", R::FIRST_COLUMNS)?;
            for figure in R::FIGURES {
                write!(file, ",{figure}_mean,{figure}_half_width")?;
                write!(file, ",{figure}_ratio,{figure}_ratio_low,{figure}_ratio_high")?;
            }
            writeln!(file)?;
            for row in rows {
                write!(file, "{CSV_VERSION},{}", row.cells().join(","))?;
                for value in row.figures().into_iter().flat_map(values) {
                    write!(file, ",{}", value_cell(value))?;
                }
                writeln!(file)?;
            }
            Ok(())
        })
    }
}

/// Returns the values of a figure, in the order of its columns.
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

/// Formats a cell with text.
pub(crate) fn text_cell(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// Formats a cell with a value; empty for none.
pub(crate) fn value_cell(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}
