//! Exhaustive search over the plans of a small set of ranges, and simpler methods, to compare with
//! the planner. It shares only the time of requests with the planner.

use std::cmp::Reverse;
use std::ops::Range;

use foreread_core::ranges::{CostModel, RequestLimits, makespan};

/// Time in nanoseconds, and bytes.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Outcome {
    pub(super) ns: u64,
    pub(super) bytes: u64,
}

pub(super) fn bytes_of(requests: &[Range<u64>]) -> u64 {
    requests.iter().map(|request| request.end - request.start).sum()
}

/// Returns the ranges as blocks, with gaps of at most `gap` bytes read along.
pub(super) fn coalesced(wanted: &[Range<u64>], align: u64, gap: u64) -> Vec<Range<u64>> {
    let mut sorted: Vec<_> = wanted
        .iter()
        .filter(|range| !range.is_empty())
        .map(|range| range.start / align * align..range.end.div_ceil(align) * align)
        .collect();
    sorted.sort_by_key(|range| (range.start, range.end));
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in sorted {
        match merged.last_mut() {
            Some(last) if range.start <= last.end + gap => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// Cuts each span into its count of pieces of about equal size.
fn cut(spans: &[Range<u64>], counts: &[u64], align: u64) -> Vec<Range<u64>> {
    let mut pieces = Vec::new();
    for (span, count) in spans.iter().zip(counts) {
        let size = (span.end - span.start).div_ceil(*count).next_multiple_of(align);
        let mut start = span.start;
        while start < span.end {
            let end = span.end.min(start + size);
            pieces.push(start..end);
            start = end;
        }
    }
    pieces
}

/// Returns the fastest of three orders: ascending, largest first, smallest first.
fn best_order(
    ascending: &[Range<u64>],
    model: &CostModel,
    limits: &RequestLimits,
    bytes: u64,
) -> u64 {
    let mut orders = vec![ascending.to_vec()];
    let at_once = ascending.len() <= usize::try_from(model.parallel).unwrap();
    if model.parallel > 1 && !(at_once && bytes <= limits.budget) {
        let mut largest = ascending.to_vec();
        largest.sort_by_key(|request| Reverse(request.end - request.start));
        let smallest = largest.iter().rev().cloned().collect();
        orders.extend([largest, smallest]);
    }
    let times = orders.iter().map(|order| makespan(order, model, limits.budget));
    times.min().expect("there is an order")
}

/// Lower bound of the time with at least this many requests and bytes; derived in
/// docs/design/ranges.md.
pub(super) fn bound_ns(model: &CostModel, requests: u64, bytes: u64) -> f64 {
    let latency = model.latency_ns as f64;
    let rounds = latency * requests.div_ceil(u64::from(model.parallel)) as f64;
    let transfer = bytes as f64 * 1e9 / model.connection_bytes_per_s as f64;
    let work = (requests as f64 * latency + transfer) / f64::from(model.parallel);
    let all_bytes = latency + bytes as f64 * 1e9 / model.total_bytes_per_s as f64;
    rounds.max(work).max(all_bytes)
}

/// Returns the fastest plan, with the fewest bytes among equals, and the fewest bytes of a plan no
/// slower than `planned`. Tries every choice of gaps to read along. If a connection is slower than
/// the device, or the budget does not fit everything, also tries each choice with the span of the
/// largest pieces cut into one more piece, repeatedly. Prunes only by the lower bound.
pub(super) fn optimum(
    wanted: &[Range<u64>],
    model: &CostModel,
    limits: &RequestLimits,
    planned: Outcome,
) -> (Outcome, u64) {
    let spans = coalesced(wanted, limits.align, 0);
    let cap = limits.largest.min(limits.budget);
    let (mut soonest, mut fewest) = (Outcome { ns: u64::MAX, bytes: u64::MAX }, planned.bytes);
    for choice in 0_u32..1 << (spans.len() - 1) {
        let mut merged: Vec<Range<u64>> = Vec::new();
        for (i, span) in spans.iter().enumerate() {
            match merged.last_mut() {
                Some(last) if choice >> (i - 1) & 1 == 1 => last.end = span.end,
                _ => merged.push(span.clone()),
            }
        }
        let bytes = bytes_of(&merged);
        let mut counts: Vec<u64> =
            merged.iter().map(|span| (span.end - span.start).div_ceil(cap)).collect();
        let is_split = model.parallel > 1
            && (model.connection_bytes_per_s < model.total_bytes_per_s || bytes > limits.budget);
        let most = if is_split { 2 * u64::from(model.parallel) + counts.len() as u64 } else { 0 };
        loop {
            let total: u64 = counts.iter().sum();
            let bound = bound_ns(model, total, bytes);
            let is_soon = bound <= soonest.ns as f64;
            let is_small = bytes < fewest && bound <= planned.ns as f64;
            if !is_soon && !is_small {
                break;
            }
            let requests = cut(&merged, &counts, limits.align);
            let ns = best_order(&requests, model, limits, bytes);
            soonest = soonest.min(Outcome { ns, bytes });
            if ns <= planned.ns {
                fewest = fewest.min(bytes);
            }
            if total >= most {
                break;
            }
            let size = |i: &usize| (merged[*i].end - merged[*i].start).div_ceil(counts[*i]);
            let largest = (0..merged.len()).max_by_key(size).expect("there is a span");
            counts[largest] += 1;
        }
    }
    (soonest, fewest)
}
