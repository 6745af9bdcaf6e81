//! Queue of requests that wait for the limit, demand reads mostly first.
//!
//! Read-ahead is not starved: a reader may have reached its pages meanwhile.

use alloc::collections::VecDeque;

/// Requests waiting for others to complete. Demand reads go first, except for every eighth request.
///
/// ```
/// use foreread_core::store_requests::WaitingRequests;
///
/// let mut waiting = WaitingRequests::default();
/// waiting.push(false, "read-ahead");
/// waiting.push(true, "read");
/// assert_eq!((waiting.pop(), waiting.pop()), (Some("read"), Some("read-ahead")));
/// ```
#[derive(Clone, Debug)]
pub struct WaitingRequests<T> {
    demand: VecDeque<T>,
    ahead: VecDeque<T>,
    /// Demand reads that went ahead of read-ahead since the last one of it.
    passed: u32,
}

impl<T> Default for WaitingRequests<T> {
    fn default() -> Self {
        Self { demand: VecDeque::new(), ahead: VecDeque::new(), passed: 0 }
    }
}

impl<T> WaitingRequests<T> {
    /// Queues a request; `is_demand`: a reader waits for it.
    pub fn push(&mut self, is_demand: bool, request: T) {
        if is_demand { &mut self.demand } else { &mut self.ahead }.push_back(request);
    }

    /// Returns true if the queue is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.demand.is_empty() && self.ahead.is_empty()
    }

    /// Takes the next request.
    pub fn pop(&mut self) -> Option<T> {
        let is_turn = self.passed >= PASSED_MAX && !self.ahead.is_empty();
        if !is_turn && let Some(next) = self.demand.pop_front() {
            self.passed = if self.ahead.is_empty() { 0 } else { self.passed + 1 };
            return Some(next);
        }
        self.passed = 0;
        self.ahead.pop_front()
    }

    /// Drops finished requests at the front.
    pub fn drop_front(&mut self, is_over: impl Fn(&T) -> bool) {
        for waiting in [&mut self.demand, &mut self.ahead] {
            while waiting.front().is_some_and(&is_over) {
                waiting.pop_front();
            }
        }
    }
}

/// Demand reads per request of waiting read-ahead.
const PASSED_MAX: u32 = 7;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn read_ahead_has_a_turn_among_demand_reads_without_end() {
        let mut waiting = WaitingRequests::default();
        waiting.push(false, 100);
        waiting.push(false, 101);
        (0..20).for_each(|number| waiting.push(true, number));
        let order: Vec<i32> = core::iter::from_fn(|| waiting.pop()).collect();
        assert_eq!(order[..9], [0, 1, 2, 3, 4, 5, 6, 100, 7]);
        assert_eq!(order[14..17], [13, 101, 14]);
        assert_eq!((order.len(), waiting.is_empty()), (22, true));
    }

    #[test]
    fn a_demand_read_alone_passes_nothing() {
        let mut waiting = WaitingRequests::default();
        for number in 0..20 {
            waiting.push(true, number);
            assert_eq!(waiting.pop(), Some(number));
        }
        waiting.push(false, 100);
        waiting.push(true, 20);
        waiting.drop_front(|number| *number == 20);
        assert_eq!((waiting.pop(), waiting.pop()), (Some(100), None));
    }
}
