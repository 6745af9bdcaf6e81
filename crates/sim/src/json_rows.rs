//! Rows of `--json`: printed by the command line and returned by Python, with the same keys and
//! floats. Nothing is measured here.

mod misses;
mod replay;
mod run;

use hdrhistogram::Histogram;

pub use misses::MissRow;
pub use replay::{GroupRow, ReplayRow, ReplaySetup, WaitRow, replay_label};
pub use run::{CacheRow, DeviceRow, LatencyRow, ProcessRow, RunRow};

#[expect(clippy::cast_precision_loss, reason = "53 bits of nanoseconds are a hundred days")]
fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// Returns a quantile of times in ns, in ms.
pub(crate) fn wait_ms(times: &Histogram<u64>, quantile: f64) -> f64 {
    ms(times.value_at_quantile(quantile))
}

/// Returns a ratio; 0 for an empty whole.
#[expect(clippy::cast_precision_loss, reason = "a ratio")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}
