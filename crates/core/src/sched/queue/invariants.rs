//! Checks the two orders of a queue against each other, for debug builds and tests.

use super::{Payload, Queue};

impl<L: Payload> Queue<L> {
    /// Checks that each request is in both orders of its lane, and counted.
    pub(super) fn assert_consistent(&self) {
        let mut sorted = 0;
        for (number, lane) in self.lanes.iter().flatten().enumerate() {
            sorted += lane.sort.len();
            for (key, &id) in &lane.sort {
                let queued = self.queued(id);
                assert!(queued.key() == *key, "{id:?} is sorted where it starts");
                let (class, op) = self.lane_of(id);
                assert!(number == 2 * class + op, "{id:?} is in the lane of another");
                assert!(queued.request.sectors <= self.max, "{id:?} is larger than a request");
            }
            let (mut aged, mut next, mut place) = (0, lane.oldest, None);
            while let Some(id) = next {
                let queued = self.queued(id);
                assert!(place < Some(queued.place), "{id:?} is older than the one before it");
                (aged, next, place) = (aged + 1, queued.younger, Some(queued.place));
            }
            assert!(aged == lane.sort.len(), "{aged} requests of {} have an age", lane.sort.len());
        }
        assert!(sorted == self.requests.len(), "{sorted} of {} are sorted", self.requests.len());
        let counted = self.counts.iter().sum::<usize>();
        assert!(counted == sorted, "{counted} requests are counted of {sorted}");
    }
}
