//! Walks the pages of one read: decides when to ask the policy, and carries out its decision.
//!
//! It never waits: a page that was requested counts as resident from then on.
//!
//! [`visit`] is the only loop over a read's pages. An `IoPath` asks its prefetcher from there;
//! `foreread-lab explain` and `examples/own_cache.rs` ask a policy directly ([`ReadWalk`]).

use core::ops::Range;

use super::decision::{
    Allotment, Ask, Decided, Decision, Pattern, Residency, Stride, Trigger, WindowLimits,
};
use super::policy::Policy;
use super::policy::rules::Rules;
use super::stream_state::{Advice, StreamState};
use super::streams::Streams;
use crate::units::{ByteCount, PageIndex, Pages};

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

/// Pages to read for one decision.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Plan {
    /// Question.
    pub ask: Ask,
    /// Answer. The window of a random read is clipped at the end of the file.
    pub decision: Decision,
    /// Pages to read, clipped at the end of the file; for a window with gaps, from the first piece
    /// on.
    pub pages: Range<PageIndex>,
    /// Page whose use requests the next window.
    pub marker: Option<PageIndex>,
    /// Pages of the last window to protect from eviction, because one of them was evicted too
    /// early.
    pub rescue: Option<Range<PageIndex>>,
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

    /// Returns the plan and its outcome as one line of a trace.
    #[must_use]
    pub fn decided(&self, submitted: Pages) -> Decided {
        Decided { ask: self.ask, decision: self.decision, submitted }
    }
}

/// Reader's side of a read: the state of a stream and its file for the policies.
#[derive(Clone, Copy, Debug)]
pub struct ReadWalk {
    /// Policy to ask.
    pub policy: Policy,
    /// Limits of a window.
    pub limits: WindowLimits,
    /// Byte after the last one that the stream's previous read returned; None before the first
    /// read.
    pub prev_pos: Option<ByteCount>,
    /// First page past the end of the file.
    pub end: PageIndex,
    /// Access advice for the stream.
    pub advice: Advice,
    /// Rules in addition to the policy's own.
    pub rules: Rules,
}

/// State kept between reads: policies use either the stream's or the file's.
#[derive(Debug)]
pub struct PolicyMemory<'m> {
    /// State of the stream; each reader has its own.
    pub stream: &'m mut StreamState,
    /// State of the file, shared by all its readers.
    pub file: &'m mut Streams,
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
            let memory = PolicyMemory { stream, file };
            self.ask(memory, cache, page, count, trigger, &mut decided);
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
        self.ask(memory, cache, page, count, Trigger::Marker, &mut decided);
    }

    /// Asks the policy, requests the pages and reports the decision.
    fn ask(
        &self,
        memory: PolicyMemory<'_>,
        cache: &mut impl PageSet,
        page: PageIndex,
        count: Pages,
        trigger: Trigger,
        decided: &mut impl FnMut(Decided),
    ) {
        let PolicyMemory { stream, file } = memory;
        let ask = self.question(stream, page, count, trigger);
        let decision = self.without_policy(stream, ask).or_else(|| {
            let memory = PolicyMemory { stream, file };
            self.ask_policy(memory, ask, self.window_limits(ask), None, cache)
        });
        let Some(decision) = decision else { return };
        let plan = self.plan(stream, ask, decision);
        let submitted = plan.fetch(cache);
        Self::submitted(stream, submitted);
        decided(plan.decided(submitted));
    }

    /// Builds the question for a page. It includes whether the reader has stalled, and clears that
    /// flag.
    pub(super) fn question(
        &self,
        stream: &mut StreamState,
        page: PageIndex,
        count: Pages,
        trigger: Trigger,
    ) -> Ask {
        debug_assert!(count > Pages::ZERO, "a question is about at least one page");
        let waited = core::mem::take(&mut stream.has_waited);
        let has_waited = waited || trigger == Trigger::Miss;
        Ask { page, count, trigger, prev_pos: self.prev_pos, has_waited }
    }

    /// Returns a decision that precedes the policy's: by advice, or by a rule.
    pub(super) fn without_policy(&self, stream: &StreamState, ask: Ask) -> Option<Decision> {
        if self.advice == Advice::Random && ask.trigger == Trigger::Miss {
            return Some(Decision::random(ask, ask.count));
        }
        self.rules.before(stream, ask, self.window_limits(ask))
    }

    /// Returns the limits of the window for this question.
    pub(super) fn window_limits(&self, ask: Ask) -> WindowLimits {
        self.policy.limits_for(ask, self.common_limits())
    }

    /// Returns the window limits of small reads.
    pub(super) fn common_limits(&self) -> WindowLimits {
        self.advice.limits(self.limits)
    }

    /// Asks the policy; `allotment` is the stream's part of the shared memory.
    pub(super) fn ask_policy(
        &self,
        memory: PolicyMemory<'_>,
        ask: Ask,
        limits: WindowLimits,
        allotment: Option<Allotment>,
        cache: &impl Residency,
    ) -> Option<Decision> {
        let PolicyMemory { stream, file } = memory;
        let allotment = allotment.unwrap_or(Allotment::whole(limits.max, None));
        let max = allotment.max;
        let limits = WindowLimits { max, ..limits };
        let decision = self.policy.decide_within(stream, file, ask, limits, allotment, cache)?;
        let max = if self.policy == Policy::None { Pages::ZERO } else { max };
        Some(self.rules.after(decision, stream, ask, max, self.end))
    }

    /// Returns the pages to read for a decision, and stores it in the stream's state.
    pub(super) fn plan(&self, stream: &mut StreamState, ask: Ask, mut decision: Decision) -> Plan {
        let is_lost = decision.pattern == Pattern::Thrash;
        let rescue = is_lost.then(|| ask.page..stream.fetched.end().min(self.end));
        if decision.is_remembered() {
            stream.window = decision.window;
        }
        stream.fetched = decision.window;
        let marker = self.policy.marker(decision.window, self.end);
        let window = decision.window.clipped(self.end);
        debug_assert!(marker.is_none_or(|marker| marker < self.end), "a marker is in its file");
        if decision.pattern == Pattern::Random {
            decision.window = window;
        }
        Plan { ask, decision, pages: window.start..window.end(), marker, rescue }
    }

    /// Records the number of pages of a plan that were requested.
    pub(super) fn submitted(stream: &mut StreamState, pages: Pages) {
        if pages > Pages::ZERO {
            stream.seeked = false;
        }
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
