//! The misses of one eviction policy with one capacity.

use serde::Serialize;

use super::ratio;
use crate::replay::{CacheCount, CacheUnit};

/// One count of a trace.
#[derive(Clone, Debug, Serialize)]
pub struct MissRow {
    /// The path of the trace.
    pub trace: String,
    /// The name of the policy.
    pub policy: &'static str,
    /// How many pages or objects the cache holds.
    pub capacity: usize,
    /// `page` or `object`.
    pub unit: &'static str,
    /// Uses.
    pub uses: u64,
    /// Uses that missed.
    pub misses: u64,
    /// The one divided by the other.
    pub miss_ratio: f64,
    /// The misses of Belady's MIN; None if they were not counted.
    pub fewest_misses: Option<u64>,
}

impl MissRow {
    /// The row of a count.
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
