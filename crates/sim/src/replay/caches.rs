//! Miss counts of a trace under several eviction policies in isolation, in one pass. Reads and
//! writes both count as uses of a page, as in libCacheSim.

use std::ops::Range;

use foreread_core::units::PAGE_SIZE;
use foreread_trace::{TraceReader, TraceRecord};

use super::ReplayError;
use crate::cache_policy::{
    CacheKey, CachePolicy, CachePolicyKind, FutureUses, MAX_KEYS, UseCollector,
};

/// Unit of caching.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum CacheUnit {
    /// Pages of 4 KiB: each page of a request is a use.
    #[default]
    Page,
    /// Objects: each request is one use of the object at its offset, of any length.
    Object,
}

/// Misses of one policy at one capacity.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CacheCount {
    /// The policy.
    pub policy: CachePolicyKind,
    /// Capacity, in pages or objects.
    pub capacity: usize,
    /// Number of uses.
    pub uses: u64,
    /// Number of misses.
    pub misses: u64,
}

impl CacheUnit {
    /// Returns the range of pages, or the object, that a request uses.
    fn places(self, record: &TraceRecord) -> Range<u64> {
        match self {
            Self::Page => {
                let end = record.offset + record.length;
                record.offset / PAGE_SIZE..end.div_ceil(PAGE_SIZE)
            }
            Self::Object => record.offset..record.offset + 1,
        }
    }
}

/// Returns the fewest misses at each capacity, by Belady's MIN. None if there are more uses than
/// [`FutureUses::MAX_USES`].
///
/// # Errors
///
/// If the trace is malformed, or a capacity is 0 or 2^31 and more.
pub fn fewest_misses(
    mut reader: TraceReader<'_>,
    capacities: &[usize],
    unit: CacheUnit,
) -> Result<Option<Vec<u64>>, ReplayError> {
    capacities.iter().try_for_each(|capacity| check_capacity(*capacity, MAX_KEYS))?;
    let mut uses = UseCollector::default();
    while let Some(record) = reader.next_record()? {
        let file = record.file.0;
        for place in unit.places(&record) {
            if uses.add(CacheKey { file, place }).is_none() {
                return Ok(None);
            }
        }
    }
    let fewest = |uses: FutureUses| {
        capacities.iter().map(|capacity| uses.fewest_misses(*capacity)).collect()
    };
    Ok(uses.finish().map(fewest))
}

fn check_capacity(capacity: usize, most: usize) -> Result<(), ReplayError> {
    if (1..=most).contains(&capacity) {
        return Ok(());
    }
    let why = format!("a cache of {capacity}: must have 1 to {most} pages or objects");
    Err(ReplayError::Machine(why))
}

/// Counts the misses of each policy at each capacity, in one pass over the trace.
///
/// # Errors
///
/// If the trace is malformed, or a capacity is 0 or above the maximum of a policy.
pub fn count_misses(
    mut reader: TraceReader<'_>,
    policies: &[CachePolicyKind],
    capacities: &[usize],
    unit: CacheUnit,
) -> Result<Vec<CacheCount>, ReplayError> {
    count_misses_in(&mut reader, policies, capacities, unit)
}

/// Like [`count_misses`], for a caller that needs the reader's notes afterwards.
///
/// # Errors
///
/// Like [`count_misses`].
pub fn count_misses_in(
    reader: &mut TraceReader<'_>,
    policies: &[CachePolicyKind],
    capacities: &[usize],
    unit: CacheUnit,
) -> Result<Vec<CacheCount>, ReplayError> {
    let mut runs: Vec<(CacheCount, Box<dyn CachePolicy>)> = Vec::new();
    for capacity in capacities.iter().copied() {
        for policy in policies.iter().copied() {
            check_capacity(capacity, policy.max_capacity())?;
            let count = CacheCount { policy, capacity, uses: 0, misses: 0 };
            runs.push((count, policy.build(capacity)));
        }
    }
    while let Some(record) = reader.next_record()? {
        let file = record.file.0;
        let places = unit.places(&record);
        for (count, cache) in &mut runs {
            for place in places.clone() {
                count.uses += 1;
                count.misses += u64::from(!cache.access(CacheKey { file, place }));
            }
        }
    }
    Ok(runs.into_iter().map(|(count, _)| count).collect())
}
