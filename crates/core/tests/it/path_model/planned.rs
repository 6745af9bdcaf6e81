//! Planned reads in the world: they run concurrently with all others, may be cancelled, and stay
//! within their budget.

use super::*;

impl World {
    /// Any number at a time, as they have no stream.
    pub(crate) fn read_planned(&mut self, file: usize, start: u64, pages: u64) {
        let OpenFile { id, len, .. } = self.files[file];
        let end = len.div_ceil(4096);
        if end == 0 {
            return;
        }
        let first = start % end;
        let now = self.tick();
        let read = self.path.read_planned(now, id, PageIndex(first)..PageIndex(first + pages));
        self.started += 1;
        let stream = usize::MAX;
        let expected = Expected { file: id, is_cut: false, first, len: pages * 4096, stream };
        assert!(self.pending.insert(read, expected).is_none(), "an id is used once");
    }

    /// Cancels any read, even one that has started or belongs to a stream.
    pub(crate) fn cancel(&mut self, which: usize) {
        let count = self.pending.len().max(1);
        if let Some((id, read)) = self.pending.iter_mut().nth(which % count) {
            read.is_cut = true;
            let id = *id;
            self.cuts += 1;
            let now = self.tick();
            self.path.cancel_read(now, id);
        }
    }

    /// Returns the requests in flight, as first page and count, in order.
    pub(crate) fn requests(&self) -> Vec<(u64, u64)> {
        let in_flight = self.in_flight.values().map(|(_, first, count)| (*first, *count));
        let mut requests: Vec<_> = in_flight.collect();
        requests.sort_unstable();
        requests
    }

    /// Checks that the budget is exceeded only by a single large read.
    pub(super) fn check_budget(&self) {
        let (in_flight, budget) = (self.path.planned_in_flight(), self.path.planned_budget());
        assert!(in_flight <= budget.max(self.path.largest_planned()), "{in_flight} of {budget}");
    }
}
