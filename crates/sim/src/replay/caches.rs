//! Miss counts of a trace: eviction policies alone, all of them in one pass.
//!
//! In:    a trace; policies and capacities.
//! Out:   how many uses missed.
//! Never: a difference between reads and writes: both use a page, as in libCacheSim.

use foreread_core::units::PAGE_SIZE;
use foreread_trace::TraceReader;

use super::ReplayError;
use crate::cache_policy::{CacheKey, CachePolicy, CachePolicyKind};

/// What a cache holds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum CacheUnit {
    /// Pages of 4 KiB: each page of a request is a use.
    #[default]
    Page,
    /// Objects: each request is one use of the object at its offset, whatever its length.
    Object,
}

/// The misses of one policy with one capacity.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CacheCount {
    /// The policy.
    pub policy: CachePolicyKind,
    /// How many pages or objects it holds.
    pub capacity: usize,
    /// Uses.
    pub uses: u64,
    /// Uses that missed.
    pub misses: u64,
}

/// Counts the misses of each policy with each capacity, in one pass over the trace.
///
/// # Errors
///
/// If the trace is wrong, or a capacity is 0 or 2^31 and more.
pub fn count_misses(
    mut reader: TraceReader<'_>,
    policies: &[CachePolicyKind],
    capacities: &[usize],
    unit: CacheUnit,
) -> Result<Vec<CacheCount>, ReplayError> {
    let mut runs: Vec<(CacheCount, Box<dyn CachePolicy>)> = Vec::new();
    for capacity in capacities.iter().copied() {
        if !(1..1 << 31).contains(&capacity) {
            let why = format!("a cache of {capacity}: wants 1 to 2147483647 pages or objects");
            return Err(ReplayError::Machine(why));
        }
        for policy in policies.iter().copied() {
            let count = CacheCount { policy, capacity, uses: 0, misses: 0 };
            runs.push((count, policy.build(capacity)));
        }
    }
    while let Some(record) = reader.next_record()? {
        let file = record.file.0;
        let places = match unit {
            CacheUnit::Page => {
                record.offset / PAGE_SIZE..(record.offset + record.length).div_ceil(PAGE_SIZE)
            }
            CacheUnit::Object => record.offset..record.offset + 1,
        };
        for (count, cache) in &mut runs {
            for place in places.clone() {
                count.uses += 1;
                count.misses += u64::from(!cache.access(CacheKey { file, place }));
            }
        }
    }
    Ok(runs.into_iter().map(|(count, _)| count).collect())
}
