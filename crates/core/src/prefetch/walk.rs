//! Walks the pages of one read, and requests the pages of each plan.
//!
//! It never waits: a page that was requested counts as resident from then on.
//!
//! [`visit`] is the only loop over a read's pages. An `IoPath` asks its prefetcher from there;
//! `foreread-lab explain` and `examples/own_cache.rs` ask a policy directly ([`ReadWalk`]).

use core::ops::Range;

use super::decision::{Allotment, Ask, Decided, Pattern, Residency, Stride, Trigger, WindowLimits};
use super::plan::RuledPolicy;
pub use super::plan::{Plan, PolicyMemory};
use super::policy::Policy;
use super::policy::rules::Rules;
use super::stream_state::Advice;
use crate::units::{PageIndex, Pages};

/// Page cache of one file, as needed by a read.
pub trait PageSet: Residency {
    /// Returns true if the page is resident or in flight.
    fn is_resident(&self, page: PageIndex) -> bool;

    /// Returns true if a resident page is still in flight, so that its reader has to wait.
    fn is_in_flight(&self, _page: PageIndex) -> bool {
        false
    }

    /// Clears the page's marker. Returns true if it had one.
    fn take_marker(&mut self, page: PageIndex) -> bool;

    /// Requests the pages of `pages` that are not resident, and marks `marker` if it is one of
    /// them. Pages that no reader waits for may be left out. Returns the number of pages requested.
    fn fetch(&mut self, pages: Range<PageIndex>, marker: Option<PageIndex>) -> Pages;

    /// Protects the still resident `pages` from eviction, as if they had just been read: a page of
    /// their window was evicted before its reader used it. A cache without an eviction order need
    /// not do anything.
    fn rescue(&mut self, _pages: Range<PageIndex>) {}

    /// Marks a page, resident or in flight, as used by the reader.
    fn consume(&mut self, page: PageIndex);
}

/// State of a page that a read encounters.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PageMet {
    /// The page is not resident.
    Missing,
    /// The page is in flight.
    InFlight,
    /// The page carried a marker, which is now cleared.
    Marker,
}

/// The pages of one read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ReadPages {
    /// First page.
    pub first: PageIndex,
    /// Number of pages, not clipped at the end of the file: policies see the caller's request.
    pub count: Pages,
    /// First page past the end of the file; pages from there on are not visited.
    pub file_end: PageIndex,
    /// Access advice for the stream. [`Advice::Random`] leaves markers in place: they belong to
    /// other readers.
    pub advice: Advice,
}

/// Visits the pages of a read in order, and calls `met` with the number of pages left of the read.
///
/// ```text
///   for each page   not resident?  met(Missing); still not?  fetch it alone
///                   in flight?     met(InFlight)
///                   marked?        clear the mark, met(Marker)
///                   consume
/// ```
pub fn visit<C: PageSet>(
    cache: &mut C,
    read: ReadPages,
    mut met: impl FnMut(&mut C, PageMet, PageIndex, Pages),
) {
    let last = read.first + read.count;
    let mut page = read.first;
    while page < last.min(read.file_end) {
        if !cache.is_resident(page) {
            met(cache, PageMet::Missing, page, last - page);
            if !cache.is_resident(page) {
                cache.fetch(page..page + Pages(1), None);
            }
        } else if cache.is_in_flight(page) {
            met(cache, PageMet::InFlight, page, last - page);
        }
        if read.advice != Advice::Random && cache.take_marker(page) {
            met(cache, PageMet::Marker, page, last - page);
        }
        debug_assert!(cache.is_resident(page), "a page is consumed when it was fetched");
        cache.consume(page);
        page = page + Pages(1);
    }
}

impl Plan {
    /// Requests the pages from `cache`. Returns the number requested.
    pub fn fetch(&self, cache: &mut impl PageSet) -> Pages {
        if let Some(pages) = &self.rescue {
            cache.rescue(pages.clone());
        }
        if let Pattern::Strided(stride) = self.decision.pattern {
            fetch_pieces(cache, self.pages.clone(), stride, self.marker)
        } else {
            cache.fetch(self.pages.clone(), self.marker)
        }
    }
}

/// A policy with the limits and the rules that apply to the reads of one stream.
#[derive(Clone, Copy, Debug)]
pub struct ReadWalk {
    /// Policy to ask.
    pub policy: Policy,
    /// Limits of a window.
    pub limits: WindowLimits,
    /// First page past the end of the file.
    pub end: PageIndex,
    /// Access advice for the stream.
    pub advice: Advice,
    /// Rules in addition to the policy's own.
    pub rules: Rules,
}

impl ReadWalk {
    /// Reads `count` pages from `first` on, and updates the state with each decision.
    ///
    /// The policy sees the full length that the caller requested, even past the end of the file,
    /// but no page past the end is visited.
    pub fn read(
        &self,
        memory: PolicyMemory<'_>,
        cache: &mut impl PageSet,
        first: PageIndex,
        count: Pages,
        mut decided: impl FnMut(Decided),
    ) {
        let PolicyMemory { stream, file } = memory;
        let pages = ReadPages { first, count, file_end: self.end, advice: self.advice };
        visit(cache, pages, |cache, met, page, count| {
            let trigger = match met {
                PageMet::Missing => Trigger::Miss,
                PageMet::Marker => Trigger::Marker,
                PageMet::InFlight => {
                    stream.has_waited = true;
                    return;
                }
            };
            let ask = stream.ask(page, count, trigger);
            self.ask(PolicyMemory { stream, file }, cache, ask, &mut decided);
        });
    }

    /// Handles a marker that a hit met and cleared, `count` pages before the end of its read. The
    /// marker's stream must not lose it, so it brings a window regardless of the advice.
    pub fn marker(
        &self,
        memory: PolicyMemory<'_>,
        cache: &mut impl PageSet,
        page: PageIndex,
        count: Pages,
        mut decided: impl FnMut(Decided),
    ) {
        let ask = memory.stream.ask(page, count, Trigger::Marker);
        self.ask(memory, cache, ask, &mut decided);
    }

    /// Asks the policy, requests the pages and reports the decision.
    fn ask(
        &self,
        memory: PolicyMemory<'_>,
        cache: &mut impl PageSet,
        ask: Ask,
        decided: &mut impl FnMut(Decided),
    ) {
        let Self { policy, rules, advice, end, .. } = *self;
        let ruled = RuledPolicy { policy, rules };
        let limits = ruled.limits_of(ask, advice.limits(self.limits));
        let PolicyMemory { stream, file } = memory;
        let decision = ruled.without_policy(stream, ask, advice, limits).or_else(|| {
            let memory = PolicyMemory { stream, file };
            ruled.decide(memory, ask, limits, Allotment::whole(limits.max, None), end, cache)
        });
        let Some(decision) = decision else { return };
        let plan = ruled.plan(stream, ask, decision, end);
        let submitted = plan.fetch(cache);
        stream.submitted(submitted);
        decided(plan.decided(submitted));
    }
}

/// Requests the first pages of each stride and skips the gaps.
fn fetch_pieces(
    cache: &mut impl PageSet,
    pages: Range<PageIndex>,
    stride: Stride,
    marker: Option<PageIndex>,
) -> Pages {
    assert!(stride.read > Pages::ZERO && stride.read <= stride.every, "{stride:?} has pieces");
    let mut submitted = Pages::ZERO;
    let mut start = pages.start;
    while start < pages.end {
        submitted += cache.fetch(start..(start + stride.read).min(pages.end), marker);
        start = start + stride.every;
    }
    submitted
}
