//! Lower bounds of the pages and requests that any cache and read-ahead need, even with knowledge
//! of the future. The first bound is exact.
//!
//! ```text
//!   fewest pages       the misses of Belady's MIN
//!   fewest requests    the larger of:  fewest pages / pages of the largest request
//!                                      ranges of that size that cover each page that is ever used
//! ```
//!
//! The second bound on requests holds for any memory size, the first for this one. Both ignore that
//! a request which reads unused pages needs frames for them, so the true optimum can be higher. If
//! the device accepts requests as large as the memory, neither constrains read-ahead, and there is
//! no bound.

use std::ops::Range;

use foreread_core::units::Pages;

use crate::cache_policy::{CacheKey, UseCollector};

/// Lower bounds of a sequence of reads.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LowerBounds {
    /// Pages that must be read from a device.
    pub fewest_pages: u64,
    /// Requests for them; None if the device accepts requests as large as the memory.
    pub fewest_requests: Option<u64>,
}

impl LowerBounds {
    /// Computes the bounds of reads of device pages. `cached` pages may be cached beforehand. None
    /// if there are too many reads to keep.
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

/// Returns the fewest requests that bring `fewest_pages` pages and `cover` ranges of the largest
/// request's size. None if one request can fill the memory: a few requests then bring all pages, in
/// any access pattern.
pub(crate) fn fewest_requests(
    fewest_pages: u64,
    cover: u64,
    largest_request: Pages,
    capacity: Pages,
) -> Option<u64> {
    let by_size = fewest_pages.div_ceil(largest_request.0.max(1));
    (largest_request < capacity).then_some(by_size.max(cover))
}

/// Returns the fewest ranges of `size` pages that cover these pages: each begins at the first page
/// not covered by the previous one.
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
