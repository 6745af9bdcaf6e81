//! Misses of one eviction policy at one capacity.

use serde::Serialize;

use super::ratio;
use crate::replay::{CacheCount, CacheUnit};

/// Miss count of a trace.
#[derive(Clone, Debug, Serialize)]
pub struct MissRow {
    /// Path of the trace.
    pub trace: String,
    /// Name of the policy.
    pub policy: &'static str,
    /// Capacity of the cache, in pages or objects.
    pub capacity: usize,
    /// `page` or `object`.
    pub unit: &'static str,
    /// Number of uses.
    pub uses: u64,
    /// Number of misses.
    pub misses: u64,
    /// Misses per use.
    pub miss_ratio: f64,
    /// Misses of Belady's MIN; None if they were not computed.
    pub fewest_misses: Option<u64>,
}

impl MissRow {
    /// Creates the row of a count.
    #[must_use]
    pub fn new(trace: &str, unit: CacheUnit, count: &CacheCount, fewest: Option<u64>) -> Self {
        Self {
            trace: trace.to_owned(),
            policy: count.policy.name(),
            capacity: count.capacity,
            unit: match unit {
                CacheUnit::Page => "page",
                CacheUnit::Object => "object",
            },
            uses: count.uses,
            misses: count.misses,
            miss_ratio: ratio(count.misses, count.uses),
            fewest_misses: fewest,
        }
    }
}
