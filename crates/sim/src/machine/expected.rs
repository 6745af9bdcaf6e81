//! What is expected of a device before its own requests have told.
//!
//! In:    a scenario's `expected` table.
//! Out:   what a path takes as learnt by an earlier run.
//! Never: the device. What is expected may be wrong.

use foreread_core::prefetch::{LearntCost, LearntDevice};
use serde::Deserialize;

use crate::size::Size;
use crate::validate::check;

/// What an earlier run, or the owner of a source, says of a device.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedDevice {
    /// The largest window that is of use, a power of two of pages.
    pub window: Size,
    /// What a request costs, whatever its size.
    pub request_ms: f64,
    /// How fast one request transfers.
    pub mb_per_s: f64,
    /// How many requests it was seen to serve at once at least.
    pub parallel: u32,
}

impl ExpectedDevice {
    pub(crate) fn learnt(&self) -> LearntDevice {
        let cost = LearntCost {
            per_request_ns: self.request_ms * 1e6,
            per_kib_ns: 1024.0 * 1e3 / self.mb_per_s,
            parallel: None,
            min_parallel: self.parallel,
        };
        LearntDevice { window: self.window.0.pages_up(), cost: Some(cost) }
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        check(self.mb_per_s > 0.0, "mb_per_s", "more than 0")?;
        check(
            self.learnt().is_plausible(),
            "expected",
            "a device: a window of 2^n pages, and times",
        )
    }
}
