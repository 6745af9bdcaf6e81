//! Plan of a time series: its file, and the length of its intervals.

use std::path::{Path, PathBuf};
use std::time::Duration;

use foreread_core::units::Nanos;
use foreread_files::is_stdout;
use foreread_sim::time_series::SeriesSpec;

use foreread_cli::output::Failure;

/// Request for a time series; none without a path.
#[derive(Clone, Debug)]
pub(crate) struct SeriesPlan {
    pub(crate) path: Option<PathBuf>,
    /// Requested length of an interval.
    pub(crate) interval: Option<Duration>,
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
        let interval = self.interval.unwrap_or(DEFAULT_INTERVAL);
        let interval = Nanos(u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX));
        Ok(Some(SeriesSpec { interval, limit: limit / 2 * 2 }))
    }

    /// Returns a note if the longest interval exceeds the requested one.
    pub(crate) fn note(&self, longest: Option<Nanos>) -> Option<String> {
        let (asked, longest) = (self.interval?, Duration::from_nanos(longest?.0));
        (longest > asked).then(|| {
            let (asked, longest) = (words(asked), words(longest));
            format!(
                "--interval {asked} would be too many intervals: they are up to {longest} long \
                 (length_s)"
            )
        })
    }
}

/// Formats an interval for the user.
fn words(interval: Duration) -> String {
    let (us, ms, s) = (interval.as_micros(), interval.as_millis(), interval.as_secs());
    if us % 1000 > 0 {
        format!("{us}us")
    } else if ms % 1000 > 0 {
        format!("{ms}ms")
    } else {
        format!("{s}s")
    }
}

const DEFAULT_INTERVAL: Duration = Duration::from_millis(1);

/// Limit per run; more than the pixels of a chart.
const MAX_INTERVALS_OF_RUN: usize = 4096;

/// Minimum per run; fewer would hide details.
const MIN_INTERVALS_OF_RUN: usize = 64;

/// Limit of all runs, 64 MiB.
const MAX_INTERVALS: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn args(interval: Option<Duration>) -> SeriesPlan {
        SeriesPlan { path: Some(PathBuf::from("x")), interval }
    }

    #[test]
    fn many_runs_have_fewer_intervals_each() {
        let spec = |runs: usize| args(None).spec(runs).expect("it fits").expect("it is given");
        assert_eq!((spec(1).interval, spec(1).limit), (Nanos(1_000_000), 4096));
        assert_eq!(spec(256).limit, 4096);
        assert_eq!(spec(1000).limit, 1048);
        assert_eq!(spec(16384).limit, 64);
        assert!(spec(9999).limit.is_multiple_of(2));
        assert!(args(None).spec(16385).is_err());
        let none = SeriesPlan { path: None, interval: None };
        assert!(none.spec(1 << 30).is_ok_and(|spec| spec.is_none()));
    }

    #[test]
    fn a_note_says_that_intervals_are_longer_than_was_asked_for() {
        let asked = args(Some(Duration::from_millis(100)));
        assert_eq!(asked.note(Some(Nanos(100_000_000))), None);
        let note = asked.note(Some(Nanos(200_000_000))).expect("they are longer");
        assert!(note.contains("--interval 100ms") && note.contains("up to 200ms"), "{note}");
        assert_eq!(args(None).note(Some(Nanos(200_000_000))), None);
        assert_eq!(words(Duration::from_micros(1500)), "1500us");
        assert_eq!(words(Duration::from_secs(3)), "3s");
    }
}
