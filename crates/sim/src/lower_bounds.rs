//! What no cache and no read-ahead can do with less of, whatever they know of the future.
//!
//! In:    the pages that reads use, in their order; the pages that the cache holds, the largest
//!        request of the device.
//! Out:   the fewest pages and the fewest requests that bring them.
//! Never: an estimate: both are bounds, and the first one is exact.
//!
//! ```text
//!   fewest pages       the misses of Belady's MIN
//!   fewest requests    the larger of:  fewest pages / pages of the largest request
//!                                      ranges of that size that cover each page that is ever used
//! ```
//!
//! The second bound on requests holds for a memory of any size, the first for this one. Between
//! them and the true optimum lies what both leave out: a request that reads pages which are not
//! used needs frames for them. Where a device takes requests as large as the memory, neither says
//! anything of read-ahead, and there is no bound.

use std::ops::Range;

use foreread_core::units::Pages;

use crate::cache_policy::{CacheKey, UseCollector};

/// The bounds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LowerBounds {
    /// Pages that a device has to read.
    pub fewest_pages: u64,
    /// Requests for them; None where the device takes requests as large as the memory.
    pub fewest_requests: Option<u64>,
}

impl LowerBounds {
    /// The bounds of reads of pages, each of a device. `cached` pages may be in the cache before.
    /// None if there are too many reads to keep.
    #[must_use]
    pub fn of(
        reads: impl IntoIterator<Item = (u32, Range<u64>)>,
        capacity: Pages,
        largest_request: Pages,
        cached: Pages,
    ) -> Option<Self> {
        let mut uses = UseCollector::default();
        for (device, pages) in reads {
            for place in pages {
                uses.add(CacheKey { file: device, place })?;
            }
        }
        let cover = fewest_ranges(uses.keys().collect(), largest_request);
        let uses = uses.finish()?;
        let frames = usize::try_from(capacity.0).unwrap_or(usize::MAX).max(1);
        let fewest_pages = uses.fewest_misses(frames).saturating_sub(cached.0);
        let cover = cover.saturating_sub(cached.0);
        let fewest_requests = fewest_requests(fewest_pages, cover, largest_request, capacity);
        Some(Self { fewest_pages, fewest_requests })
    }
}

/// The fewest requests that bring so many pages, and so many ranges of the largest request's size.
/// None if one request may fill the memory: then a few bring all pages, however they are used.
pub(crate) fn fewest_requests(
    fewest_pages: u64,
    cover: u64,
    largest_request: Pages,
    capacity: Pages,
) -> Option<u64> {
    let by_size = fewest_pages.div_ceil(largest_request.0.max(1));
    (largest_request < capacity).then_some(by_size.max(cover))
}

/// How many ranges of this many pages cover these at least: each begins at the first page that the
/// one before leaves out.
///
/// ```text
///   pages    x x . x . . . . x . x x
///   ranges  |- - - -|       |- - - -|
/// ```
#[must_use]
pub fn fewest_ranges(mut pages: Vec<CacheKey>, size: Pages) -> u64 {
    pages.sort_unstable();
    let mut count = 0;
    let mut covered: Option<(u32, u64)> = None;
    for CacheKey { file, place } in pages {
        if covered.is_some_and(|(of, end)| of == file && place < end) {
            continue;
        }
        covered = Some((file, place.saturating_add(size.0.max(1))));
        count += 1;
    }
    count
}
