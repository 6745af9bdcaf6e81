//! File of `--series`: a time series of each run as CSV.
//!
//! The path is checked before the runs, and only an earlier series is replaced. Floats are written
//! with the shortest digits that read back equal.

use std::io::{self, Write};

use foreread_sim::meter::ProcessProgress;
use foreread_sim::time_series::{IntervalFigures, SeriesLevels, TimeSeries};

use crate::csv::CSV_VERSION;
use crate::series_plan::SeriesPlan;
use foreread_cli::output::Failure;
use foreread_cli::output_file::{CommandOutputs, OutputFile, refuse_stdout};

/// A file that is not there before [`SeriesFile::write`].
pub(crate) struct SeriesFile(OutputFile);

/// The series of one run.
pub(crate) struct RunSeries<'r> {
    /// The cells that say which run it was.
    pub(crate) run: Vec<String>,
    /// Figures of the run; None if they were not kept.
    pub(crate) series: Option<&'r TimeSeries>,
}

impl SeriesFile {
    /// Prepares the file, if one was requested. JSON takes stdout for itself.
    pub(crate) fn prepare(
        plan: &SeriesPlan,
        is_json: bool,
        outputs: &mut CommandOutputs<'_>,
    ) -> Result<Option<Self>, Failure> {
        let Some(path) = plan.path() else { return Ok(None) };
        if is_json {
            refuse_stdout(("--series", "the series"), path, "--json is")?;
        }
        outputs.prepare("--series", path, is_series).map(|file| Some(Self(file)))
    }

    /// Writes the series of all runs; `columns` are the names of the cells that say which it was.
    pub(crate) fn write(self, columns: &[&str], runs: &[RunSeries<'_>]) -> Result<(), Failure> {
        self.0.write(|file| {
            writeln!(file, "{FIRST_COLUMN},{},{FIGURES}", columns.join(","))?;
            runs.iter().try_for_each(|run| write_run(file, run))
        })
    }
}

fn write_run(file: &mut dyn Write, of: &RunSeries<'_>) -> io::Result<()> {
    let run = of.run.join(",");
    let rows = of.series.into_iter().flat_map(TimeSeries::rows);
    for (start_ns, length_ns, figures) in rows {
        let IntervalFigures { done, requests, device_bytes, levels } = figures;
        let ProcessProgress { ops, bytes, waits, waited_ns } = *done;
        let SeriesLevels { cached_bytes, in_flight_bytes } = *levels;
        let (start, length, waited) = (seconds(start_ns), seconds(length_ns), seconds(waited_ns));
        let hits = ops - waits;
        write!(
            file,
            "{CSV_VERSION},{run},{start},{length},{ops},{bytes},{hits},{waits},{waited},"
        )?;
        writeln!(file, "{requests},{device_bytes},{cached_bytes},{in_flight_bytes}")?;
    }
    Ok(())
}

/// Returns true if the first line is the heading of a series of any command.
fn is_series(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let others = line.strip_prefix(FIRST_COLUMN.as_bytes());
    others.is_some_and(|others| others.starts_with(b",") && others.ends_with(FIGURES.as_bytes()))
}

#[expect(clippy::cast_precision_loss, reason = "53 bits of nanoseconds are a hundred days")]
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

const FIRST_COLUMN: &str = "version";

const FIGURES: &str = "start_s,length_s,ops,bytes,hits,waits,waited_s,requests,device_bytes,\
                       cached_bytes,in_flight_bytes";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_series_is_taken_for_one() {
        let heading = format!("version,scenario,policy,seed,{FIGURES}\n1,\"a\"");
        assert!(is_series(heading.as_bytes()));
        let table = "version,scenario,policy,max_window_bytes,memory_bytes,seeds,mb_per_s_mean\n";
        let shifted = format!("versions,scenario,{FIGURES}\n");
        for other in ["", "\n", "version", "version\n", table, &shifted, FIGURES] {
            assert!(!is_series(other.as_bytes()), "{other}");
        }
    }
}
