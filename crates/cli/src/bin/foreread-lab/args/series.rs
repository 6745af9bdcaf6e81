//! The options `--series` and `--interval`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use foreread_cli::args::duration::{MICROSECOND, MILLISECOND, SECOND, with_unit};

use crate::series_plan::SeriesPlan;

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
    /// Returns the request that the options make.
    pub(crate) fn resolve(&self) -> SeriesPlan {
        SeriesPlan { path: self.series.clone(), interval: self.interval }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_has_a_unit_and_is_not_nothing() {
        assert_eq!(interval("500us"), Ok(Duration::from_micros(500)));
        assert_eq!(interval("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(interval("2s"), Ok(Duration::from_secs(2)));
        for wrong in ["", "5", "0ms", "0s", "-5s", "1m", "1 s", "0.5s", "3601s"] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
    }
}
