//! `--series` and `--interval`: time series of runs in virtual time.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use foreread_core::units::Nanos;
use foreread_files::is_stdout;
use foreread_sim::time_series::SeriesSpec;

use foreread_cli::args::duration::{MICROSECOND, MILLISECOND, SECOND, with_unit};
use foreread_cli::output::Failure;

/// Options for time series.
#[derive(Clone, Debug, Args)]
pub(crate) struct SeriesArgs {
    /// Also write a time series of each run to FILE as CSV, one row per interval
    ///
    /// Columns: version; scenario, or trace and device; policy, eviction, max_window_bytes (empty:
    /// learnt), memory_bytes, seed; start_s and length_s of the interval, in virtual seconds; ops,
    /// the reads and writes that completed in it, and their bytes; hits, those that took no time;
    /// waits, those that did; waited_s of reads through the cache; requests and device_bytes sent
    /// to devices; and at its end cached_bytes, the memory of pages cached or in flight, and
    /// in_flight_bytes, of requests at the devices. FILE must be absent, empty, or an earlier
    /// series.
    #[arg(long, value_name = "FILE")]
    series: Option<PathBuf>,

    /// With --series: length of an interval, such as 500us, 100ms or 1s [default: 1ms]
    ///
    /// Intervals are doubled as often as needed to stay below 4096 per run and 1048576 per command.
    /// length_s has the actual length.
    #[arg(long, value_name = "TIME", value_parser = interval, requires = "series")]
    interval: Option<Duration>,
}

impl SeriesArgs {
    /// Returns the file, if given.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.series.as_deref()
    }

    /// Returns true if the series is written to stdout.
    pub(crate) fn is_stdout(&self) -> bool {
        self.path().is_some_and(is_stdout)
    }

    /// Returns the parameters of the series for each of `runs` runs; None without --series.
    pub(crate) fn spec(&self, runs: usize) -> Result<Option<SeriesSpec>, Failure> {
        if self.series.is_none() {
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

/// Parses the length of an interval.
fn interval(text: &str) -> Result<Duration, String> {
    let interval = with_unit(text, &[MICROSECOND, MILLISECOND, SECOND]);
    interval.filter(|interval| !interval.is_zero()).ok_or_else(|| {
        "write microseconds (500us), milliseconds (100ms) or seconds (1s), from 1us to an hour"
            .to_owned()
    })
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

    fn args(interval: Option<Duration>) -> SeriesArgs {
        SeriesArgs { series: Some(PathBuf::from("x")), interval }
    }

    #[test]
    fn an_interval_has_a_unit_and_is_not_nothing() {
        assert_eq!(interval("500us"), Ok(Duration::from_micros(500)));
        assert_eq!(interval("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(interval("2s"), Ok(Duration::from_secs(2)));
        for wrong in ["", "5", "0ms", "0s", "-5s", "1m", "1 s", "0.5s", "3601s"] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
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
        let none = SeriesArgs { series: None, interval: None };
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
