//! Cuts spans into requests, and orders them.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::ops::Range;

/// Spans, with the number of pieces of each.
pub(super) struct PieceCounts<'a> {
    spans: &'a [Range<u64>],
    counts: Vec<u64>,
    /// Total number of pieces.
    total: u64,
    /// Piece size and index of each span; None until one is cut further.
    by_size: Option<BinaryHeap<(u64, Reverse<usize>)>>,
}

impl<'a> PieceCounts<'a> {
    /// Creates the fewest pieces of at most `cap` bytes each.
    pub(super) fn fewest(spans: &'a [Range<u64>], cap: u64) -> Self {
        let counts: Vec<u64> =
            spans.iter().map(|span| (span.end - span.start).div_ceil(cap)).collect();
        let total = counts.iter().sum();
        Self { spans, counts, total, by_size: None }
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Cuts the span with the largest pieces into one more. Returns false if these have the minimum
    /// size.
    pub(super) fn cut_largest(&mut self, align: u64) -> bool {
        let (spans, counts) = (self.spans, &mut self.counts);
        let size = |i: usize, count: u64| (spans[i].end - spans[i].start).div_ceil(count);
        let by_size = self.by_size.get_or_insert_with(|| {
            counts.iter().enumerate().map(|(i, count)| (size(i, *count), Reverse(i))).collect()
        });
        let Some(mut largest) = by_size.peek_mut() else { return false };
        let (bytes, Reverse(i)) = *largest;
        if bytes <= align {
            return false;
        }
        counts[i] += 1;
        *largest = (size(i, counts[i]), Reverse(i));
        self.total += 1;
        true
    }

    /// Returns the pieces by ascending offset: those of a span have about one size, and are cut at
    /// multiples of `align`.
    pub(super) fn pieces(&self, align: u64) -> Vec<Range<u64>> {
        let mut pieces = Vec::new();
        for (span, count) in self.spans.iter().zip(&self.counts) {
            let bytes = span.end - span.start;
            let size = bytes.div_ceil(*count).checked_next_multiple_of(align).unwrap_or(bytes);
            let mut start = span.start;
            while span.end - start > size {
                pieces.push(start..start + size);
                start += size;
            }
            pieces.push(start..span.end);
        }
        pieces
    }
}

/// Returns two more orders. The largest first leaves small requests for the end, so that all slots
/// end at about one time. The smallest first staggers slots that share bandwidth, so that one
/// transfers while the other waits for its first byte.
pub(super) fn by_size(requests: &[Range<u64>]) -> [Vec<Range<u64>>; 2] {
    let mut largest_first = requests.to_vec();
    largest_first.sort_by_key(|request| Reverse(request.end - request.start));
    let smallest_first = largest_first.iter().rev().cloned().collect();
    [largest_first, smallest_first]
}
