//! The sweep over all ranges by ascending offset, which visits each page once even if several
//! ranges share it. It copies cached bytes and collects runs of missing pages, without waiting or
//! taking the engine's mutex.

use std::ops::Range;

use foreread_core::units::PageIndex;

use super::results::RangeResults;
use crate::advice::Advised;
use crate::handle::Handle;
use crate::pool::PAGE;
use crate::reader::copy_page;

/// Position of the sweep over the ranges of one call.
#[derive(Debug)]
pub(super) struct Sweep {
    /// The non-empty ranges, by their start.
    order: Vec<u32>,
    /// Number of ranges that begin before the end of the next page.
    entered: usize,
    /// Ranges that have begun and are not over.
    active: Vec<ActiveRange>,
    /// Index of the next page.
    page: u64,
}

/// A range that overlaps the current page.
#[derive(Debug)]
struct ActiveRange {
    number: u32,
    /// Its latest part in this portion: index of the run, index of the part.
    latest: Option<(usize, usize)>,
}

/// Part of a range.
#[derive(Clone, Debug)]
pub(super) struct RangePart {
    /// Number of the range.
    pub(super) number: u32,
    pub(super) bytes: Range<u64>,
}

/// Adjacent missing pages.
#[derive(Debug)]
pub(super) struct MissingRun {
    /// Whole pages.
    pub(super) bytes: Range<u64>,
    /// The parts of ranges in the run.
    pub(super) parts: Vec<RangePart>,
}

/// Limit of one portion of the sweep.
#[derive(Clone, Copy, Debug)]
pub(super) struct PortionLimit {
    /// Bytes, cached or not.
    pub(super) bytes: u64,
    /// Runs of missing pages.
    pub(super) runs: usize,
    /// Stop as soon as one range is complete.
    pub(super) one_range: bool,
}

impl Sweep {
    pub(super) fn new(results: &RangeResults) -> Self {
        let numbers = 0..u32::try_from(results.len()).expect("there are fewer than 2^32");
        let mut order: Vec<u32> = numbers.filter(|number| !results.is_over(*number)).collect();
        order.sort_by_key(|number| results.range(*number).start);
        Self { order, entered: 0, active: Vec::new(), page: 0 }
    }

    /// Returns true if the sweep has visited all pages.
    pub(super) fn is_done(&self) -> bool {
        self.entered == self.order.len() && self.active.is_empty()
    }

    /// Sweeps the next pages: copies cached ones, and returns runs of missing ones.
    pub(super) fn portion(
        &mut self,
        handle: &Handle,
        advised: Advised,
        results: &mut RangeResults,
        limit: PortionLimit,
    ) -> Vec<MissingRun> {
        let mut runs: Vec<MissingRun> = Vec::new();
        let mut bytes = 0;
        self.active.iter_mut().for_each(|range| range.latest = None);
        while bytes < limit.bytes
            && runs.len() < limit.runs
            && !(limit.one_range && results.has_complete())
            && let Some(page) = self.next_page(results)
        {
            for range in &mut self.active {
                let number = range.number;
                let part = RangePart { number, bytes: part_of(page, &results.range(number)) };
                if !part.bytes.is_empty() && !copy_hit(handle, advised, results, &part) {
                    results.is_miss(number);
                    add_missing(&mut runs, page, range, part);
                }
            }
            bytes += PAGE as u64;
        }
        runs
    }

    /// Returns the next page of any range, and updates the active ranges.
    fn next_page(&mut self, results: &RangeResults) -> Option<u64> {
        let page_start = self.page * PAGE as u64;
        self.active.retain(|&ActiveRange { number, .. }| {
            results.range(number).end > page_start && !results.is_over(number)
        });
        if self.active.is_empty() {
            let next = *self.order.get(self.entered)?;
            self.page = self.page.max(results.range(next).start / PAGE as u64);
        }
        let page = self.page;
        while let Some(&next) = self.order.get(self.entered)
            && results.range(next).start / PAGE as u64 <= page
        {
            self.entered += 1;
            self.active.push(ActiveRange { number: next, latest: None });
        }
        self.page += 1;
        Some(page)
    }
}

/// Returns the part of a range in a page.
fn part_of(page: u64, range: &Range<u64>) -> Range<u64> {
    let start = page * PAGE as u64;
    range.start.max(start)..range.end.min(start + PAGE as u64)
}

/// Copies part of a cached page to its range. Returns true if done or the range is already over,
/// false if the page has to be read.
fn copy_hit(
    handle: &Handle,
    advised: Advised,
    results: &mut RangeResults,
    part: &RangePart,
) -> bool {
    let RangePart { number, ref bytes } = *part;
    let Some(to) = results.buffer(handle, number, bytes) else { return true };
    let (page, from) = page_and_offset(bytes.start);
    let Some(found) = copy_page(&handle.file, page, from, to) else { return false };
    found.touch(advised.is_used_once);
    results.came(number, bytes.end - bytes.start);
    true
}

/// Returns the page of a byte, and the offset in it.
#[expect(clippy::cast_possible_truncation, reason = "less than a page")]
pub(super) fn page_and_offset(byte: u64) -> (PageIndex, usize) {
    (PageIndex(byte / PAGE as u64), (byte % PAGE as u64) as usize)
}

/// Adds a missing page of a range to the runs.
fn add_missing(runs: &mut Vec<MissingRun>, page: u64, range: &mut ActiveRange, part: RangePart) {
    let start = page * PAGE as u64;
    let end = start + PAGE as u64;
    let is_next = |run: &MissingRun| run.bytes.end == start || run.bytes.end == end;
    if !runs.last().is_some_and(is_next) {
        runs.push(MissingRun { bytes: start..start, parts: Vec::new() });
    }
    let last = runs.len() - 1;
    let run = &mut runs[last];
    run.bytes.end = end;
    if let Some((of, at)) = range.latest
        && of == last
        && run.parts[at].bytes.end == part.bytes.start
    {
        run.parts[at].bytes.end = part.bytes.end;
    } else {
        range.latest = Some((last, run.parts.len()));
        run.parts.push(part);
    }
}
