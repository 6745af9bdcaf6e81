//! One read's way through its pages: when a policy is asked, and what is done with its answer.
//!
//! In:    a read, a policy, the stream's window, and a cache ([`PageSet`]).
//! Out:   pages fetched, each wanted page consumed in order, and every decision to a callback.
//! Never: a wait. A page that was fetched counts as resident from then on.
//!
//! This is the caller of every policy: [`crate::path`] runs it over its own cache, `foreread
//! explain` over a plain set, and `examples/own_cache.rs` shows it over the cache of a program of
//! yours.

use core::ops::Range;

use super::{Ask, Decided, Limits, Pattern, Policy, Residency, Trigger, Window};
use crate::units::{Bytes, PageIndex, Pages};

/// A cache of one file's pages, as far as a read needs it.
pub trait PageSet: Residency {
    /// Whether the page is resident or on its way.
    fn is_resident(&self, page: PageIndex) -> bool;

    /// Clears the page's marker; true if it had one.
    fn take_marker(&mut self, page: PageIndex) -> bool;

    /// Asks the device for those of `pages` that are not resident, and marks `marker` if it is one
    /// of them. Pages that nobody waits for may be left out. Returns how many were asked for.
    fn fetch(&mut self, pages: Range<PageIndex>, marker: Option<PageIndex>) -> Pages;

    /// The reader takes this page, which is resident or on its way.
    fn consume(&mut self, page: PageIndex);
}

/// The reader's side of a read: what the policies need to know of a stream and its file.
#[derive(Clone, Copy, Debug)]
pub struct Reader {
    /// Who decides.
    pub policy: Policy,
    /// What bounds the windows.
    pub limits: Limits,
    /// The byte after the last one that the stream's previous read returned; None before the first.
    pub prev_pos: Option<Bytes>,
    /// One past the file's last page.
    pub end: PageIndex,
}

impl Reader {
    /// Reads `count` pages from `first` on and updates the stream's `window`.
    ///
    /// ```text
    ///   for each page   not resident?  ask the policy; still not?  fetch it alone
    ///                   marked?        clear the mark, ask the policy
    ///                   consume
    /// ```
    ///
    /// The read is not clipped at the end of the file before the policy sees it (it asks for what
    /// its caller asked), but no page past the end is visited.
    pub fn read(
        &self,
        window: &mut Window,
        cache: &mut impl PageSet,
        first: PageIndex,
        count: Pages,
        mut decided: impl FnMut(Decided),
    ) {
        let last = first + count;
        let mut page = first;
        while page < last.min(self.end) {
            if !cache.is_resident(page) {
                self.ask(window, cache, page, last - page, Trigger::Miss, &mut decided);
                if !cache.is_resident(page) {
                    cache.fetch(page..page + Pages(1), None);
                }
            }
            if cache.take_marker(page) {
                self.ask(window, cache, page, last - page, Trigger::Marker, &mut decided);
            }
            cache.consume(page);
            page = page + Pages(1);
        }
    }

    /// A hit met a marker, `count` pages before the end of its read, and has cleared it.
    pub fn marker(
        &self,
        window: &mut Window,
        cache: &mut impl PageSet,
        page: PageIndex,
        count: Pages,
        mut decided: impl FnMut(Decided),
    ) {
        self.ask(window, cache, page, count, Trigger::Marker, &mut decided);
    }

    fn ask(
        &self,
        window: &mut Window,
        cache: &mut impl PageSet,
        page: PageIndex,
        count: Pages,
        trigger: Trigger,
        decided: &mut impl FnMut(Decided),
    ) {
        let ask = Ask { page, count, trigger, prev_pos: self.prev_pos };
        let Some(mut decision) = self.policy.decide(*window, ask, self.limits, cache) else {
            return;
        };
        if decision.is_remembered() {
            *window = decision.window;
        }
        let marker = self.policy.marker(decision.window, self.end);
        let pages = decision.window.clipped(self.end);
        if decision.pattern == Pattern::Random {
            decision.window = pages;
        }
        let submitted = cache.fetch(pages.start..pages.end(), marker);
        decided(Decided { ask, decision, submitted });
    }
}
