//! Linux 6.16 and later on mappings with large folios (ext4, XFS, Btrfs): the windows of `linux-6`,
//! built from folios whose size grows with each marker hit, and ending on a folio boundary.
//!
//! ```text
//!   marker met       1       2        3         4          5
//!   folio size      16K     64K     256K        1M         2M      order 2, 4, 6, 8, 9
//!                   at most the window, and the alignment of its start
//!
//!   window    |=== folio ===|=== folio ===|--|     a rest smaller than a folio is left to the
//!                                         ^end     next window
//! ```
//!
//! Source: the kernel's commit messages on large folios in read-ahead, in words: "mm/readahead: Add
//! large folio readahead" (5.18: an aggressive ramp-up of the order, folios at their natural
//! alignment), "mm/readahead: Fix readahead with large folios" (5.18: the marker is on a folio),
//! and LWN's reports on large folios. Differences: pages are evicted one by one, not by folio; a
//! miss never reads a folio larger than a page; one order for each handle, where the kernel reads
//! it off the folio that has the marker.

use foreread_core::prefetch::{
    Ask, CustomPolicy, Decision, Policy, Residency, StreamState, Streams, Trigger, Window,
    WindowLimits,
};
use foreread_core::units::{PageIndex, Pages};

#[derive(Debug)]
pub(super) struct Linux6Folios;

/// Order of the folio with the last marker.
const ORDER: usize = 0;

/// Increase of the order at each marker.
const STEP: u64 = 2;

/// 2 MiB: a huge page.
const MAX_ORDER: u64 = 9;

impl CustomPolicy for Linux6Folios {
    fn name(&self) -> &'static str {
        "linux-6-folios"
    }

    fn decide(
        &self,
        state: &mut StreamState,
        ask: Ask,
        limits: WindowLimits,
        cache: &dyn Residency,
    ) -> Option<Decision> {
        let plain = Policy::Linux6;
        let decision =
            plain.decide(state, &mut Streams::default(), ask, limits, &FilePages(cache))?;
        if ask.trigger == Trigger::Miss {
            state.memory[ORDER] = 0;
            return Some(decision);
        }
        let window = decision.window;
        let fits = u64::from(window.size.0.max(1).ilog2());
        let order = (state.memory[ORDER] + STEP).min(MAX_ORDER).min(fits);
        let window = ending_with_a_folio(window, order);
        // The marker is on the first folio of the window.
        let alignment = u64::from(window.start.0.trailing_zeros());
        state.memory[ORDER] = order.min(alignment);
        Some(Decision { window, ..decision })
    }
}

/// Trims a window to whole folios, unless that would leave it empty.
fn ending_with_a_folio(window: Window, order: u64) -> Window {
    let end = window.end().0 >> order << order;
    if end <= window.start.0 {
        return window;
    }
    let size = PageIndex(end) - window.start;
    Window { size, async_size: size, ..window }
}

/// Pages of the file, in the form that the core's policies expect.
struct FilePages<'c>(&'c dyn Residency);

impl Residency for FilePages<'_> {
    fn history(&self, page: PageIndex, limit: Pages) -> Pages {
        self.0.history(page, limit)
    }

    fn next_hole(&self, page: PageIndex, limit: Pages) -> Option<PageIndex> {
        self.0.next_hole(page, limit)
    }
}
