//! The way through all ranges by ascending offset: each page is looked at once, whatever ranges it
//! is in.
//!
//! In:    ranges; how much to look at.
//! Out:   bytes that are cached, copied; runs of pages to be read, with the ranges that want them.
//! Never: a wait, or the engine's mutex.

use std::ops::Range;

use foreread_core::units::PageIndex;

use super::results::RangeResults;
use crate::advice::Advised;
use crate::handle::Handle;
use crate::pool::PAGE;
use crate::reader::copy_page;

/// How far the ranges of one call have been looked at.
#[derive(Debug)]
pub(super) struct Sweep {
    /// The ranges that are not empty, by their start.
    order: Vec<u32>,
    /// How many of them begin before the next page ends.
    entered: usize,
    /// Those that have begun and are not over.
    active: Vec<ActiveRange>,
    /// The next page.
    page: u64,
}

/// A range that the sweep is in.
#[derive(Debug)]
struct ActiveRange {
    number: u32,
    /// Its latest part of a run of the portion: which run, which part.
    latest: Option<(usize, usize)>,
}

/// Neighbouring pages that are to be read.
#[derive(Debug)]
pub(super) struct MissingRun {
    /// Whole pages.
    pub(super) bytes: Range<u64>,
    /// The ranges that want some of it, each with what it wants.
    pub(super) parts: Vec<(u32, Range<u64>)>,
}

/// How much is looked at at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct PortionLimit {
    /// Bytes, cached or not.
    pub(super) bytes: u64,
    /// Runs of pages to be read.
    pub(super) runs: usize,
    /// Only until a range is complete.
    pub(super) one_range: bool,
}

impl Sweep {
    pub(super) fn new(results: &RangeResults) -> Self {
        let numbers = 0..u32::try_from(results.len()).expect("there are fewer than 2^32");
        let mut order: Vec<u32> = numbers.filter(|number| !results.is_over(*number)).collect();
        order.sort_by_key(|number| results.range(*number).start);
        Self { order, entered: 0, active: Vec::new(), page: 0 }
    }

    /// Whether all pages were looked at.
    pub(super) fn is_done(&self) -> bool {
        self.entered == self.order.len() && self.active.is_empty()
    }

    /// Looks at the next pages: copies those that are cached, and returns the others.
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
                let part = part_of(page, &results.range(number));
                if !part.is_empty() && !copy_hit(handle, advised, results, (number, &part)) {
                    results.is_miss(number);
                    add_missing(&mut runs, page, range, part);
                }
            }
            bytes += PAGE as u64;
        }
        runs
    }

    /// The next page of any range; with it, which ranges are active.
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

/// What a range has of a page.
fn part_of(page: u64, range: &Range<u64>) -> Range<u64> {
    let start = page * PAGE as u64;
    range.start.max(start)..range.end.min(start + PAGE as u64)
}

/// Copies a part of a page to its range if it is cached, or if the range wants nothing more; false
/// if it has to be read.
fn copy_hit(
    handle: &Handle,
    advised: Advised,
    results: &mut RangeResults,
    (number, part): (u32, &Range<u64>),
) -> bool {
    let Some(to) = results.buffer(handle, number, part) else { return true };
    let (page, from) = page_and_offset(part.start);
    let Some(found) = copy_page(&handle.file, page, from, to) else { return false };
    found.touch(advised.is_used_once);
    results.came(number, part.end - part.start);
    true
}

/// The page that a byte is in, and where it lies there.
#[expect(clippy::cast_possible_truncation, reason = "less than a page")]
pub(super) fn page_and_offset(byte: u64) -> (PageIndex, usize) {
    (PageIndex(byte / PAGE as u64), (byte % PAGE as u64) as usize)
}

/// One more page has to be read for a range.
fn add_missing(runs: &mut Vec<MissingRun>, page: u64, range: &mut ActiveRange, part: Range<u64>) {
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
        && run.parts[at].1.end == part.start
    {
        run.parts[at].1.end = part.end;
    } else {
        range.latest = Some((last, run.parts.len()));
        run.parts.push((range.number, part));
    }
}
