//! Levels of merging: from no gap to all gaps that may save a request when read along.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// Level 0 merges nothing; each further level also merges the smallest gap that is left. As long as
/// all fits the largest request, no other plan with as many requests has fewer bytes.
///
/// ```text
///   spans      |==|  |====|      |==| |=|
///   level 1    |==|  |====|      |======|
///   level 2    |==========|      |======|
///   level 3    |========================|
/// ```
pub(super) struct MergeLevels<'a> {
    spans: &'a [Range<u64>],
    cap: u64,
    /// Gap i is the one before span i + 1. Those that are merged, the smallest first.
    order: Vec<usize>,
    sizes: Vec<LevelSize>,
}

/// Number of requests and bytes of a level.
#[derive(Clone, Copy, Debug)]
pub(super) struct LevelSize {
    pub(super) requests: u64,
    pub(super) bytes: u64,
}

impl<'a> MergeLevels<'a> {
    /// Creates the levels. A gap is not merged if the joint span would need more requests than the
    /// two had, because no request exceeds `cap`. A gap that saves none is merged: with the next
    /// one it may.
    pub(super) fn new(spans: &'a [Range<u64>], cap: u64) -> Self {
        let requests = |start: usize, end: usize| {
            let bytes: u64 = spans[end].end - spans[start].start;
            bytes.div_ceil(cap)
        };
        let gap = |i: usize| spans[i + 1].start - spans[i].end;
        let mut gaps: Vec<usize> = (0..spans.len() - 1).collect();
        gaps.sort_by_key(|i| gap(*i));
        // For a merged run: its last span holds the first one, and its first span the last one.
        let mut first: Vec<usize> = (0..spans.len()).collect();
        let mut last = first.clone();
        let mut size = LevelSize {
            requests: (0..spans.len()).map(|i| requests(i, i)).sum(),
            bytes: spans.iter().map(|span| span.end - span.start).sum(),
        };
        let (mut order, mut sizes) = (Vec::new(), vec![size]);
        for i in gaps {
            let (start, end) = (first[i], last[i + 1]);
            let (apart, merged) = (requests(start, i) + requests(i + 1, end), requests(start, end));
            if merged > apart {
                continue;
            }
            (first[end], last[start]) = (start, end);
            size.requests -= apart - merged;
            size.bytes += gap(i);
            order.push(i);
            sizes.push(size);
        }
        Self { spans, cap, order, sizes }
    }

    /// Returns the sizes, by level.
    pub(super) fn sizes(&self) -> &[LevelSize] {
        &self.sizes
    }

    /// Returns the largest request.
    pub(super) fn cap(&self) -> u64 {
        self.cap
    }

    /// Returns the spans of a level, in ascending order.
    pub(super) fn spans(&self, level: usize) -> Vec<Range<u64>> {
        let mut is_merged = vec![false; self.spans.len()];
        for i in &self.order[..level] {
            is_merged[i + 1] = true;
        }
        let mut merged: Vec<Range<u64>> = Vec::with_capacity(self.spans.len() - level);
        for (span, is_merged) in self.spans.iter().zip(is_merged) {
            match merged.last_mut() {
                Some(last) if is_merged => last.end = span.end,
                _ => merged.push(span.clone()),
            }
        }
        merged
    }

    /// Returns the requests in their order, without gaps at their ends, which occur where a merged
    /// span was cut in a gap.
    pub(super) fn trimmed(&self, requests: &[Range<u64>]) -> Vec<Range<u64>> {
        let trim = |request: &Range<u64>| {
            let first = self.spans.partition_point(|span| span.end <= request.start);
            let behind = self.spans.partition_point(|span| span.start < request.end);
            let last = behind.checked_sub(1)?;
            let start = request.start.max(self.spans.get(first)?.start);
            let end = request.end.min(self.spans[last].end);
            (start < end).then_some(start..end)
        };
        requests.iter().filter_map(trim).collect()
    }
}
