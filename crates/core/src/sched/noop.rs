//! `noop`: first come, first served, and neighbours become one request.
//!
//! In:    requests.
//! Out:   requests in the order of their arrival, merged at the back or the front.
//! Never: sorting. Devices that have no seek, or an order of their own, need none.

use alloc::collections::VecDeque;

use super::Request;
use crate::units::Pages;

/// A queue of requests.
#[derive(Debug)]
pub struct Noop {
    queue: VecDeque<Request>,
    max: Pages,
}

impl Noop {
    /// A queue for a device whose largest request has `max` pages.
    #[must_use]
    pub const fn new(max: Pages) -> Self {
        assert!(max.0 > 0, "a device takes at least one page");
        Self { queue: VecDeque::new(), max }
    }

    /// Queues a request.
    ///
    /// ```text
    ///   queued      |=========|                    |=========|
    ///   new                   |----|          |----|
    ///                 back merge                front merge
    /// ```
    ///
    /// A merged request keeps its place, so a late neighbour is served early and nobody later.
    pub fn add(&mut self, mut request: Request) {
        assert!(!request.pages.is_empty(), "a request reads something");
        assert!(request.pages.len() as u64 <= self.max.0, "a request fits the device");
        for queued in self.queue.iter_mut().rev().take(MERGE_SEARCH) {
            if queued.can_take(&request, self.max) {
                queued.pages.append(&mut request.pages);
                return;
            }
            if request.can_take(queued, self.max) {
                queued.start = request.start;
                request.pages.append(&mut queued.pages);
                queued.pages = request.pages;
                return;
            }
        }
        self.queue.push_back(request);
    }

    /// Takes the request that is next.
    pub fn take(&mut self) -> Option<Request> {
        self.queue.pop_front()
    }

    /// Whether nothing is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

/// How many of the newest requests are looked at for a neighbour. Neighbours arrive close together
/// (a window cut in two, the next window of the same stream); a search of all would make a long
/// queue cost its square.
const MERGE_SEARCH: usize = 64;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::cache::{PageCache, Use};
    use crate::sched::PageFill;
    use crate::table::FileSlot;
    use crate::units::{Instant, PageIndex, Sector};

    /// Requests of one file whose pages lie where its sectors are; frames are numbered from 0 in
    /// the order in which they are asked for.
    struct File(PageCache);

    impl File {
        fn request(&mut self, page: u64, count: u64) -> Request {
            let pages = (page..page + count)
                .map(|page| self.0.start_fill(FileSlot(0), PageIndex(page), Use::Wanted, false))
                .map(|filling| PageFill { filling, len: 4096 })
                .collect();
            Request {
                start: Sector(page * 8),
                pages,
                arrival: Instant(page),
                is_ahead: false,
                is_retry: false,
            }
        }
    }

    fn file() -> File {
        File(PageCache::with_frames(16))
    }

    /// What comes out, as (first page, frames in order).
    fn drained(queue: &mut Noop) -> Vec<(u64, Vec<u32>)> {
        core::iter::from_fn(|| queue.take())
            .map(|request| {
                let frames = request.pages.iter().map(|page| page.filling.frame().0).collect();
                (request.start.0 / 8, frames)
            })
            .collect()
    }

    #[test]
    fn neighbours_merge_at_the_back_and_at_the_front() {
        let (mut file, mut queue) = (file(), Noop::new(Pages(8)));
        for (page, count) in [(10, 2), (50, 1), (12, 2), (8, 2)] {
            queue.add(file.request(page, count));
        }
        let want = [(8, Vec::from([5, 6, 0, 1, 3, 4])), (50, Vec::from([2]))];
        assert_eq!(drained(&mut queue), want);
    }

    #[test]
    fn a_merge_never_exceeds_the_largest_request() {
        let (mut file, mut queue) = (file(), Noop::new(Pages(4)));
        for (page, count) in [(0, 3), (3, 2), (5, 2)] {
            queue.add(file.request(page, count));
        }
        let want = [(0, Vec::from([0, 1, 2])), (3, Vec::from([3, 4, 5, 6]))];
        assert_eq!(drained(&mut queue), want);
    }

    #[test]
    fn what_somebody_waits_for_does_not_merge_with_what_nobody_does() {
        let (mut file, mut queue) = (file(), Noop::new(Pages(8)));
        queue.add(file.request(0, 2));
        queue.add(Request { is_ahead: true, ..file.request(2, 2) });
        queue.add(Request { is_ahead: true, ..file.request(4, 2) });
        let want = [(0, Vec::from([0, 1])), (2, Vec::from([2, 3, 4, 5]))];
        assert_eq!(drained(&mut queue), want);
    }

    #[test]
    fn a_second_try_stays_alone() {
        let (mut file, mut queue) = (file(), Noop::new(Pages(8)));
        queue.add(file.request(0, 1));
        queue.add(Request { is_retry: true, ..file.request(1, 1) });
        queue.add(file.request(2, 1));
        assert_eq!(drained(&mut queue).len(), 3);
    }
}
