//! Converts byte ranges into aligned spans without overlaps, in ascending order.

use alloc::vec::Vec;
use core::ops::Range;

/// Returns the blocks of `align` bytes that hold the ranges. A block beyond 2^64 - 1 is cut there.
pub(super) fn spans(wanted: &[Range<u64>], align: u64) -> Vec<Range<u64>> {
    let in_order = wanted.iter().all(|range| range.start <= range.end);
    assert!(in_order, "a wanted range ends before it starts");
    let mut aligned: Vec<Range<u64>> = wanted
        .iter()
        .filter(|range| !range.is_empty())
        .map(|range| {
            let start = range.start - range.start % align;
            start..range.end.checked_next_multiple_of(align).unwrap_or(u64::MAX)
        })
        .collect();
    aligned.sort_unstable_by_key(|range| range.start);
    let mut spans: Vec<Range<u64>> = Vec::with_capacity(aligned.len());
    for range in aligned {
        match spans.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => spans.push(range),
        }
    }
    spans
}
