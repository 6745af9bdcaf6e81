//! One read's way through its pages: when a policy is asked, and what is done with its answer.
//!
//! In:    a read, a policy, what is remembered ([`PolicyMemory`]), and a cache ([`PageSet`]).
//! Out:   pages fetched, each wanted page consumed in order, and every decision to a callback.
//! Never: a wait. A page that was fetched counts as resident from then on.
//!
//! This is the caller of every policy: [`crate::path`] runs it over its own cache, `foreread
//! explain` over a plain set, and `examples/own_cache.rs` shows it over the cache of a program of
//! yours.

use core::ops::Range;

use super::{
    Advice, Allotment, Ask, Decided, Decision, Pattern, Policy, Residency, Rules, StreamState,
    Streams, Stride, Trigger, WindowLimits,
};
use crate::units::{ByteCount, PageIndex, Pages};

/// A cache of one file's pages, as far as a read needs it.
pub trait PageSet: Residency {
    /// Whether the page is resident or on its way.
    fn is_resident(&self, page: PageIndex) -> bool;

    /// Whether a resident page is still on its way: its reader waits for it.
    fn is_on_its_way(&self, _page: PageIndex) -> bool {
        false
    }

    /// Clears the page's marker; true if it had one.
    fn take_marker(&mut self, page: PageIndex) -> bool;

    /// Asks the device for those of `pages` that are not resident, and marks `marker` if it is one
    /// of them. Pages that no reader waits for may be left out. Returns how many were asked for.
    fn fetch(&mut self, pages: Range<PageIndex>, marker: Option<PageIndex>) -> Pages;

    /// A page of a window was evicted before its reader came, and these are next: those that are
    /// still resident shall leave last, as if they had just come. A cache that knows no order need
    /// not do anything.
    fn rescue(&mut self, _pages: Range<PageIndex>) {}

    /// The reader takes this page, which is resident or on its way.
    fn consume(&mut self, page: PageIndex);

    /// What a stream may have whose largest window is `max`: all of it, unless there are others
    /// and the cache shares its memory out. Asked before each decision of `adaptive`.
    fn terms(&mut self, _file: &Streams, _ask: Ask, max: Pages) -> Allotment {
        Allotment { max, lead: None }
    }

    /// The decision is made and its pages are asked for; `file` remembers it.
    fn decided(&mut self, _file: &mut Streams) {}
}

/// The reader's side of a read: what the policies need to know of a stream and its file.
#[derive(Clone, Copy, Debug)]
pub struct ReadWalk {
    /// The policy that decides.
    pub policy: Policy,
    /// What bounds the windows.
    pub limits: WindowLimits,
    /// The byte after the last one that the stream's previous read returned; None before the first.
    pub prev_pos: Option<ByteCount>,
    /// One past the file's last page.
    pub end: PageIndex,
    /// What the stream's owner said of it.
    pub advice: Advice,
    /// Rules beside the policy's own.
    pub rules: Rules,
}

/// What is remembered from one read to the next: some policies look at one, some at the other.
#[derive(Debug)]
pub struct PolicyMemory<'m> {
    /// Of the stream: each reader has its own.
    pub stream: &'m mut StreamState,
    /// Of the file: all its readers share it.
    pub file: &'m mut Streams,
}

impl ReadWalk {
    /// Reads `count` pages from `first` on, and remembers what was decided.
    ///
    /// ```text
    ///   for each page   not resident?  ask the policy; still not?  fetch it alone
    ///                   marked?        clear the mark, ask the policy
    ///                   consume
    /// ```
    ///
    /// The read is not clipped at the end of the file before the policy sees it (it asks for what
    /// its caller asked), but no page past the end is visited.
    ///
    /// A stream of [`Advice::Random`] leaves marks where they are: they are other readers'.
    pub fn read(
        &self,
        mut memory: PolicyMemory<'_>,
        cache: &mut impl PageSet,
        first: PageIndex,
        count: Pages,
        mut decided: impl FnMut(Decided),
    ) {
        let last = first + count;
        let mut page = first;
        while page < last.min(self.end) {
            if !cache.is_resident(page) {
                self.ask(&mut memory, cache, page, last - page, Trigger::Miss, &mut decided);
                if !cache.is_resident(page) {
                    cache.fetch(page..page + Pages(1), None);
                }
            } else if cache.is_on_its_way(page) {
                memory.stream.has_waited = true;
            }
            if self.advice != Advice::Random && cache.take_marker(page) {
                self.ask(&mut memory, cache, page, last - page, Trigger::Marker, &mut decided);
            }
            cache.consume(page);
            page = page + Pages(1);
        }
    }

    /// A hit met a marker, `count` pages before the end of its read, and has cleared it. Whose it
    /// was must not lose it, so it brings a window whatever the advice.
    pub fn marker(
        &self,
        mut memory: PolicyMemory<'_>,
        cache: &mut impl PageSet,
        page: PageIndex,
        count: Pages,
        mut decided: impl FnMut(Decided),
    ) {
        self.ask(&mut memory, cache, page, count, Trigger::Marker, &mut decided);
    }

    fn ask(
        &self,
        memory: &mut PolicyMemory<'_>,
        cache: &mut impl PageSet,
        page: PageIndex,
        count: Pages,
        trigger: Trigger,
        decided: &mut impl FnMut(Decided),
    ) {
        let waited = core::mem::take(&mut memory.stream.has_waited);
        let has_waited = waited || trigger == Trigger::Miss;
        let ask = Ask { page, count, trigger, prev_pos: self.prev_pos, has_waited };
        let last = memory.stream.fetched;
        let Some(mut decision) = self.decide(memory, ask, cache) else {
            cache.decided(memory.file);
            return;
        };
        if decision.pattern == Pattern::Thrash {
            cache.rescue(page..last.end().min(self.end));
        }
        if decision.is_remembered() {
            memory.stream.window = decision.window;
        }
        memory.stream.fetched = decision.window;
        let marker = self.policy.marker(decision.window, self.end);
        let pages = decision.window.clipped(self.end);
        if decision.pattern == Pattern::Random {
            decision.window = pages;
        }
        let all = pages.start..pages.end();
        let submitted = if let Pattern::Strided(stride) = decision.pattern {
            fetch_pieces(cache, all, stride, marker)
        } else {
            cache.fetch(all, marker)
        };
        cache.decided(memory.file);
        if submitted > Pages::ZERO {
            memory.stream.seeked = false;
        }
        decided(Decided { ask, decision, submitted });
    }

    fn decide(
        &self,
        memory: &mut PolicyMemory<'_>,
        ask: Ask,
        cache: &mut impl PageSet,
    ) -> Option<Decision> {
        if self.advice == Advice::Random && ask.trigger == Trigger::Miss {
            return Some(Decision::random(ask, ask.count));
        }
        let limits = self.advice.limits(self.limits);
        if let Some(decision) = self.rules.before(memory.stream, ask, limits) {
            return Some(decision);
        }
        if self.policy == Policy::Adaptive {
            return self.decide_on_terms(memory, ask, limits, cache);
        }
        let decision = self.policy.decide(memory.stream, memory.file, ask, limits, cache)?;
        let max = if self.policy == Policy::None { Pages::ZERO } else { limits.max };
        Some(self.rules.after(decision, memory.stream, ask, max, self.end))
    }

    /// The same for a policy whose streams share the memory.
    fn decide_on_terms(
        &self,
        memory: &mut PolicyMemory<'_>,
        ask: Ask,
        limits: WindowLimits,
        cache: &mut impl PageSet,
    ) -> Option<Decision> {
        let Allotment { max, lead } = cache.terms(memory.file, ask, limits.max);
        let limits = WindowLimits { max, ..limits };
        let PolicyMemory { stream, file } = memory;
        let decision = self.policy.decide_with_lead(stream, file, ask, limits, lead, cache);
        Some(self.rules.after(decision?, memory.stream, ask, max, self.end))
    }
}

/// Asks for the first pages of each stride and leaves out the others.
fn fetch_pieces(
    cache: &mut impl PageSet,
    pages: Range<PageIndex>,
    stride: Stride,
    marker: Option<PageIndex>,
) -> Pages {
    let mut submitted = Pages::ZERO;
    let mut start = pages.start;
    while start < pages.end {
        submitted += cache.fetch(start..(start + stride.read).min(pages.end), marker);
        start = start + stride.every;
    }
    submitted
}
