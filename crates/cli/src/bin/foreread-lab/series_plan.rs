//! Plan of a time series: its file, and the number of its intervals.

use std::path::{Path, PathBuf};

use foreread_core::units::Nanos;
use foreread_files::is_stdout;
use foreread_sim::time_series::SeriesSpec;

use foreread_cli::output::Failure;

/// Request for a time series; none without a path.
#[derive(Clone, Debug)]
pub(crate) struct SeriesPlan {
    pub(crate) path: Option<PathBuf>,
}

impl SeriesPlan {
    /// Returns the file, if given.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Returns true if the series is written to stdout.
    pub(crate) fn is_stdout(&self) -> bool {
        self.path().is_some_and(is_stdout)
    }

    /// Returns the parameters of the series for each of `runs` runs; None without --series.
    pub(crate) fn spec(&self, runs: usize) -> Result<Option<SeriesSpec>, Failure> {
        if self.path.is_none() {
            return Ok(None);
        }
        let limit = (MAX_INTERVALS / runs.max(1)).min(MAX_INTERVALS_OF_RUN);
        if limit < MIN_INTERVALS_OF_RUN {
            let most = MAX_INTERVALS / MIN_INTERVALS_OF_RUN;
            return Err(Failure::WrongUse(format!(
                "--series: cannot record {runs} runs, at most {most}; give fewer seeds or \
                 combinations"
            )));
        }
        Ok(Some(SeriesSpec { interval: SHORTEST_INTERVAL, limit: limit / 2 * 2 }))
    }
}

/// Length of an interval before it is doubled: 1 ms.
const SHORTEST_INTERVAL: Nanos = Nanos(1_000_000);

/// Limit per run; more than the pixels of a chart.
const MAX_INTERVALS_OF_RUN: usize = 4096;

/// Minimum per run; fewer would hide details.
const MIN_INTERVALS_OF_RUN: usize = 64;

/// Limit of all runs, 64 MiB.
const MAX_INTERVALS: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_runs_have_fewer_intervals_each() {
        let plan = SeriesPlan { path: Some(PathBuf::from("x")) };
        let spec = |runs: usize| plan.spec(runs).expect("it fits").expect("it is given");
        assert_eq!((spec(1).interval, spec(1).limit), (Nanos(1_000_000), 4096));
        assert_eq!(spec(256).limit, 4096);
        assert_eq!(spec(1000).limit, 1048);
        assert_eq!(spec(16384).limit, 64);
        assert!(spec(9999).limit.is_multiple_of(2));
        assert!(plan.spec(16385).is_err());
        let none = SeriesPlan { path: None };
        assert!(none.spec(1 << 30).is_ok_and(|spec| spec.is_none()));
    }
}
