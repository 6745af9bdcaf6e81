//! The option `--series`.

use std::path::PathBuf;

use clap::Args;

use crate::series_plan::SeriesPlan;

/// Option for time series.
#[derive(Clone, Debug, Args)]
pub(crate) struct SeriesArgs {
    /// Also write a time series of each run to FILE as CSV, one row per interval
    ///
    /// Columns: version; scenario, or trace and device; policy, eviction, max_window_bytes (empty:
    /// learnt), memory_bytes, seed; start_s and length_s of the interval, in virtual seconds; ops,
    /// the reads and writes that completed in it, and their bytes; hits, those that took no time;
    /// waits, those that did; waited_s of reads through the cache; requests and device_bytes sent
    /// to devices; and at its end cached_bytes, the memory of pages cached or in flight, and
    /// in_flight_bytes, of requests at the devices. Intervals of 1 ms are doubled as often as
    /// needed to stay below 4096 per run and 1048576 per command. FILE must be absent, empty, or an
    /// earlier series.
    #[arg(long, value_name = "FILE")]
    series: Option<PathBuf>,
}

impl SeriesArgs {
    /// Returns the request that the option makes.
    pub(crate) fn resolve(&self) -> SeriesPlan {
        SeriesPlan { path: self.series.clone() }
    }
}
