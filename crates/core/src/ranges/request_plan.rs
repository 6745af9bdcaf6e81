//! The limits of a plan, and the plan.
//!
//! In:    limits from the caller, requests from the search.
//! Out:   requests, and which of them hold the bytes of a range.
//! Never: I/O.

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
    /// Requests start and end at multiples of it: the block of the device; 1 for a store.
    pub align: u64,
    /// No request is larger.
    pub largest: u64,
    /// Not more bytes are in flight at once, so no request is larger than that either.
    pub budget: u64,
}

impl RequestLimits {
    pub(super) fn check(&self) {
        assert!(self.align > 0, "the alignment of requests is at least 1");
        assert!(self.largest >= self.align, "the largest request is smaller than the alignment");
        assert!(self.budget >= self.align, "the budget is smaller than the alignment");
    }

    /// The largest request: a multiple of the alignment.
    pub(super) fn cap(&self) -> u64 {
        let bytes = self.largest.min(self.budget);
        bytes - bytes % self.align
    }
}

/// Requests that read a set of byte ranges; what [`plan`](super::plan) returns.
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
    /// Numbers of requests, by ascending offset.
    by_offset: Vec<usize>,
    time_ns: u64,
}

impl RequestPlan {
    pub(super) fn new(requests: Vec<Range<u64>>, time_ns: u64) -> Self {
        let mut by_offset: Vec<usize> = (0..requests.len()).collect();
        by_offset.sort_by_key(|number| requests[*number].start);
        Self { requests, by_offset, time_ns }
    }

    /// The requests in the order in which to send them. None is empty, no two overlap.
    #[must_use]
    pub fn requests(&self) -> &[Range<u64>] {
        &self.requests
    }

    /// How many bytes the requests read: those wanted, gaps that are read along, and what alignment
    /// adds.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.requests.iter().map(|request| request.end - request.start).sum()
    }

    /// How long the requests take by the cost model, in nanoseconds
    /// ([`makespan`](super::makespan())).
    #[must_use]
    pub fn time_ns(&self) -> u64 {
        self.time_ns
    }

    /// Where the bytes of a wanted range are: the numbers of requests, each with the part of the
    /// range that it reads, by ascending offset. Together they are the whole of a range that was
    /// planned. None for an empty range.
    pub fn parts(&self, wanted: Range<u64>) -> impl Iterator<Item = (usize, Range<u64>)> + '_ {
        let first = self.by_offset.partition_point(|n| self.requests[*n].end <= wanted.start);
        let numbers = self.by_offset[first..].iter().copied();
        let Range { start, end } = wanted;
        numbers
            .map(move |n| (n, self.requests[n].start.max(start)..self.requests[n].end.min(end)))
            .take_while(|(_, part)| !part.is_empty())
    }
}
