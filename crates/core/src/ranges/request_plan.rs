//! Limits of a plan, and the plan.

use alloc::vec::Vec;
use core::ops::Range;

/// Limits of the requests of a plan, in bytes.
///
/// # Examples
///
/// ```
/// use foreread_core::ranges::RequestLimits;
///
/// let limits = RequestLimits { align: 4096, largest: 1 << 20, budget: 16 << 20 };
/// assert!(limits.largest <= limits.budget);
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RequestLimits {
    /// Alignment of start and end: the block size of the device; 1 for a store.
    pub align: u64,
    /// Largest request.
    pub largest: u64,
    /// Most bytes in flight, which also limits a single request.
    pub budget: u64,
}

impl RequestLimits {
    pub(super) fn check(&self) {
        assert!(self.align > 0, "the alignment of requests is at least 1");
        assert!(self.largest >= self.align, "the largest request is smaller than the alignment");
        assert!(self.budget >= self.align, "the budget is smaller than the alignment");
    }

    /// Returns the largest request, a multiple of the alignment.
    pub(super) fn cap(&self) -> u64 {
        let bytes = self.largest.min(self.budget);
        bytes - bytes % self.align
    }
}

/// Requests that read a set of byte ranges, as returned by [`plan`](super::plan).
///
/// # Examples
///
/// ```
/// use foreread_core::ranges::{CostModel, RequestLimits, plan};
///
/// let limits = RequestLimits { align: 1, largest: 1 << 20, budget: 64 << 20 };
/// let store = CostModel {
///     latency_ns: 20_000_000,
///     connection_bytes_per_s: 80_000_000,
///     total_bytes_per_s: 5_120_000_000,
///     parallel: 64,
/// };
/// let wanted = 1000..3_000_000;
/// let plan = plan(&[wanted.clone()], &store, &limits);
/// // Each part is what a request has of the range: here all of it is wanted.
/// let parts: u64 = plan.parts(wanted).map(|(_, part)| part.end - part.start).sum();
/// assert_eq!(parts, 2_999_000);
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RequestPlan {
    requests: Vec<Range<u64>>,
    /// Indices of the requests, by ascending offset.
    by_offset: Vec<usize>,
    time_ns: u64,
}

impl RequestPlan {
    pub(super) fn new(requests: Vec<Range<u64>>, time_ns: u64) -> Self {
        let mut by_offset: Vec<usize> = (0..requests.len()).collect();
        by_offset.sort_by_key(|number| requests[*number].start);
        Self { requests, by_offset, time_ns }
    }

    /// Returns the requests in dispatch order. None is empty, and no two overlap.
    #[must_use]
    pub fn requests(&self) -> &[Range<u64>] {
        &self.requests
    }

    /// Returns the bytes that the requests read: the ranges, gaps that are read along, and padding
    /// for alignment.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.requests.iter().map(|request| request.end - request.start).sum()
    }

    /// Returns the predicted time of the requests in nanoseconds ([`makespan`](super::makespan())).
    #[must_use]
    pub fn time_ns(&self) -> u64 {
        self.time_ns
    }

    /// Returns the requests that hold a range: their indices, each with its part of the range, by
    /// ascending offset. The parts cover the whole of a range that was planned. An empty range has
    /// none.
    pub fn parts(&self, wanted: Range<u64>) -> impl Iterator<Item = (usize, Range<u64>)> + '_ {
        let first = self.by_offset.partition_point(|n| self.requests[*n].end <= wanted.start);
        let numbers = self.by_offset[first..].iter().copied();
        let Range { start, end } = wanted;
        numbers
            .map(move |n| (n, self.requests[n].start.max(start)..self.requests[n].end.min(end)))
            .take_while(|(_, part)| !part.is_empty())
    }
}
