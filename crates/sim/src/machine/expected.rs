//! Prior expectation of a device, from a scenario's `expected` table. A path treats it as learnt by
//! an earlier run; it may be wrong.

use foreread_core::prefetch::{LearntCost, LearntDevice};
use foreread_core::units::PAGE_SIZE;
use serde::Deserialize;

use crate::size::Size;
use crate::validate::check;

/// Performance of a device as known from an earlier run, or from the owner of a source.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedDevice {
    /// Largest useful window, a power of two of pages.
    pub window: Size,
    /// Fixed cost of a request.
    pub request_ms: f64,
    /// Transfer rate of one request.
    pub mb_per_s: f64,
    /// Number of requests that it served in parallel, at least.
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
        let bytes = self.window.0.0;
        let is_window = (PAGE_SIZE..=LARGEST).contains(&bytes) && bytes.is_power_of_two();
        check(is_window, "expected: window", "a power of two from 4K to 1G")?;
        let is_time = self.request_ms > 0.0 && self.request_ms <= 10_000.0;
        check(is_time, "expected: request_ms", "more than 0, at most 10000")?;
        let is_rate = self.mb_per_s.is_finite() && self.mb_per_s >= 0.001;
        check(is_rate, "expected: mb_per_s", "a number from 0.001")?;
        check(self.learnt().is_plausible(), "expected: parallel", "1 to 65536")
    }
}

const LARGEST: u64 = LearntDevice::LARGEST_WINDOW.0 * PAGE_SIZE;
