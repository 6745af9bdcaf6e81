//! Partial fills: pages with holes, and pages whose parts are read by several requests. A page
//! becomes up to date only when all its parts have arrived.
//!
//! ```text
//!   page     |== b ==|== c ==|....... 0 .......|        three parts, of which two are read
//!   left        3       2            1       0          up to date, or failed
//! ```

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use crate::cache::Filling;
use crate::device_queue::payload::{PageFill, PageRun};
use crate::driver_io::Fault;
use crate::ids::DeviceId;
use crate::sched::Origin;
use crate::table::Frame;

/// Pages with holes, and pages that several requests fill.
#[derive(Debug, Default)]
pub(crate) struct PartialFills {
    /// Pages with more than one part in flight.
    pages: BTreeMap<Frame, PartialFill>,
    /// Parts to be filled with zeros.
    holes: VecDeque<PageFill>,
}

/// A page with parts in flight.
#[derive(Debug)]
struct PartialFill {
    left: usize,
    /// The fault of a part that is not retried because a caller waited for it or its device is
    /// gone.
    fault: Option<Fault>,
    /// Parts that failed while no caller waited.
    failed: Vec<FailedPart>,
}

/// A part whose request failed.
#[derive(Debug)]
pub(crate) struct FailedPart {
    pub(crate) device: DeviceId,
    pub(crate) origin: Origin,
    pub(crate) run: PageRun,
    pub(crate) fault: Fault,
}

/// Result of one part of a page.
#[derive(Debug)]
pub(crate) enum PartEnd {
    Good,
    /// Failed, and not retried.
    Bad(Fault),
    /// Failed, and retried if a caller waits once all other parts have ended.
    Retry(FailedPart),
}

/// State of a page after one of its parts has ended.
#[derive(Debug)]
pub(crate) enum PageEnd {
    /// Other parts are still in flight.
    Waits,
    /// All parts have arrived.
    Good,
    /// Some parts failed. The listed ones may be retried; the list may be empty.
    Bad(Fault, Vec<FailedPart>),
}

impl PartialFills {
    /// Starts a page of `parts` parts; the last one to end returns the fill to the cache.
    pub(crate) fn begin(&mut self, filling: &Filling, parts: usize) {
        assert!(parts > 0, "a page has at least one part");
        if parts > 1 {
            let partial = PartialFill { left: parts, fault: None, failed: Vec::new() };
            let before = self.pages.insert(filling.frame(), partial);
            assert!(before.is_none(), "a frame is filled by one page at a time");
        }
    }

    /// Returns true if parts of the page are in flight.
    pub(crate) fn contains(&self, frame: Frame) -> bool {
        self.pages.contains_key(&frame)
    }

    pub(crate) fn add_hole(&mut self, fill: PageFill) {
        self.holes.push_back(fill);
    }

    pub(crate) fn has_holes(&self) -> bool {
        !self.holes.is_empty()
    }

    pub(crate) fn pop_hole(&mut self) -> Option<PageFill> {
        self.holes.pop_front()
    }

    /// Ends a part of a page. If its page is not tracked, the part is the only one.
    pub(crate) fn end_part(&mut self, frame: Frame, end: PartEnd) -> PageEnd {
        let Some(partial) = self.pages.get_mut(&frame) else {
            assert!(matches!(end, PartEnd::Good), "a part that comes alone fails as a page");
            return PageEnd::Good;
        };
        match end {
            PartEnd::Good => {}
            PartEnd::Bad(fault) => partial.fault = partial.fault.or(Some(fault)),
            PartEnd::Retry(failed) => partial.failed.push(failed),
        }
        assert!(partial.left > 0, "a part of {frame:?} ends after the last one");
        partial.left -= 1;
        if partial.left > 0 {
            return PageEnd::Waits;
        }
        let PartialFill { fault, failed, .. } =
            self.pages.remove(&frame).expect("a page with parts to come is kept");
        match (fault, failed.first().map(|part| part.fault)) {
            (Some(fault), _) => PageEnd::Bad(fault, Vec::new()),
            (None, Some(fault)) => PageEnd::Bad(fault, failed),
            (None, None) => PageEnd::Good,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{PageCache, Use};
    use crate::table::FileSlot;
    use crate::units::PageIndex;

    const EIO: Fault = Fault::Io(5);

    #[test]
    fn a_page_is_good_when_its_last_part_has_come() {
        let mut cache = PageCache::with_frames(4);
        let filling = cache.start_fill(FileSlot(0), PageIndex(0), Use::Wanted, false);
        let (mut fills, frame) = (PartialFills::default(), filling.frame());
        fills.begin(&filling, 2);
        assert!(fills.contains(frame));
        assert!(matches!(fills.end_part(frame, PartEnd::Good), PageEnd::Waits));
        assert!(matches!(fills.end_part(frame, PartEnd::Good), PageEnd::Good));
        assert!(!fills.contains(frame));
        cache.filled(filling);
    }

    #[test]
    fn a_part_that_failed_for_good_leaves_nothing_to_try_again() {
        let mut cache = PageCache::with_frames(4);
        let filling = cache.start_fill(FileSlot(0), PageIndex(0), Use::Wanted, false);
        let (mut fills, frame) = (PartialFills::default(), filling.frame());
        fills.begin(&filling, 2);
        assert!(matches!(fills.end_part(frame, PartEnd::Bad(EIO)), PageEnd::Waits));
        let end = fills.end_part(frame, PartEnd::Good);
        assert!(matches!(end, PageEnd::Bad(EIO, again) if again.is_empty()));
        cache.fill_failed(filling);
    }
}
