//! Spans as requests: cut into pieces, and the order in which to send them.
//!
//! In:    spans in ascending order, the largest request, the alignment.
//! Out:   requests.
//! Never: a byte outside the spans.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::ops::Range;

/// Spans, and into how many pieces each is cut.
pub(super) struct PieceCounts<'a> {
    spans: &'a [Range<u64>],
    counts: Vec<u64>,
    /// How many pieces in all.
    total: u64,
    /// The size of each span's pieces and its number; None until one is cut further.
    by_size: Option<BinaryHeap<(u64, Reverse<usize>)>>,
}

impl<'a> PieceCounts<'a> {
    /// As few pieces as there can be of at most `cap` bytes each.
    pub(super) fn fewest(spans: &'a [Range<u64>], cap: u64) -> Self {
        let counts: Vec<u64> =
            spans.iter().map(|span| (span.end - span.start).div_ceil(cap)).collect();
        let total = counts.iter().sum();
        Self { spans, counts, total, by_size: None }
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// The span that has the largest pieces is cut into one more. False if these are as small as a
    /// request can be.
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

    /// The pieces by ascending offset: those of a span are of about one size, and cut at multiples
    /// of `align`.
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

/// Two more orders. The largest first: what is left for the end is small, so that all places end at
/// about one time. The smallest first: places that share bandwidth come out of step, so that one
/// transfers while the other waits for its first byte.
pub(super) fn by_size(requests: &[Range<u64>]) -> [Vec<Range<u64>>; 2] {
    let mut largest_first = requests.to_vec();
    largest_first.sort_by_key(|request| Reverse(request.end - request.start));
    let smallest_first = largest_first.iter().rev().cloned().collect();
    [largest_first, smallest_first]
}
