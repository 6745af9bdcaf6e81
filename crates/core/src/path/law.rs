//! What `adaptive` may have: the path's end of the shares.
//!
//! In:    a question on its way to the policy; what the device and the cache can give.
//! Out:   the largest window and the lead for it; frames made free before it is decided.
//! Never: a decision. Other policies do not come here.
//!
//! ```text
//!   question --> its share --> shares: window, lead --> cache: so many frames can be had
//!                                                          |
//!                policy  <-- the smaller of the two -------'
//! ```
//!
//! Why before the decision: a window that is cut afterwards has its marker in the wrong place.

use core::fmt;

use super::{IoPath, OpenFile};
use crate::cache::PageCache;
use crate::prefetch::memory_shares::{MemoryShares, ShareId, ShareQuestion};
use crate::prefetch::{self, Allotment, Ask, Policy, Residency, Streams, Trigger, Without};
use crate::sched::Submitter;
use crate::slab::Slab;
use crate::table::FileSlot;
use crate::units::{Nanos, PageIndex, Pages};

/// A submitter cannot have a weight of its own, because too many others have one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TooManyWeights;

/// What a walk through one file's pages knows of the others.
#[derive(Debug)]
pub(super) struct PrefetchTerms<'p> {
    pub(super) shares: &'p mut MemoryShares,
    pub(super) files: &'p Slab<OpenFile>,
    pub(super) now: Nanos,
    pub(super) without: Without,
    pub(super) submitter: Submitter,
    /// How long the handle has waited since it last asked.
    pub(super) blocked_ns: &'p mut u64,
    /// The largest window of a reader that never waits.
    pub(super) patient: Pages,
    /// How long requests take on this device.
    pub(super) latency_ns: u64,
    /// Whether markers come to nothing, because the device is to be idle when it is asked.
    pub(super) puts_off: bool,
    /// How many frames may be filled for pages ahead; None: as many as there are.
    pub(super) room: Option<Pages>,
    /// How large the window is without the clip, if that shortened it.
    pub(super) pace: Option<Pages>,
    /// The share that asked, its question and its page; None if it was told to wait.
    pub(super) asked: Option<(Option<ShareId>, ShareQuestion, PageIndex)>,
}

impl PrefetchTerms<'_> {
    /// What the stream that asks may have; `set_aside` frames are for its read that waits.
    pub(super) fn terms(
        &mut self,
        cache: &mut PageCache,
        slot: FileSlot,
        file: &Streams,
        ask: Ask,
        ceiling: Pages,
        set_aside: Pages,
    ) -> Allotment {
        (self.asked, self.pace) = (None, None);
        let is_put_off = self.puts_off && ask.trigger == Trigger::Marker;
        if ceiling == Pages::ZERO || is_put_off {
            return Allotment { max: Pages::ZERO, lead: None };
        }
        let question = ShareQuestion {
            now: self.now,
            page: ask.page,
            count: ask.count,
            submitter: self.submitter,
            has_waited: ask.has_waited,
            blocked_ns: core::mem::take(self.blocked_ns),
            ceiling,
            patient: self.patient.min(ceiling),
            latency_ns: self.latency_ns,
        };
        let asker = prefetch::who(file, ask, &cache.residency(slot));
        let id = asker.map(|(share, _)| share);
        let question = ShareQuestion { page: asker.map_or(ask.page, |(_, page)| page), ..question };
        let memory = cache.room_for_ahead();
        let grant = match id {
            Some(id) => self.shares.ask(id, question, memory),
            None => self.shares.ask_new(question, memory),
        };
        let mut max = if self.without.law { ceiling } else { grant.window };
        let lead = grant.lead.filter(|_| !self.without.lead);
        self.asked = Some((id, question, ask.page));
        let wanted = |max| prefetch::wants(file, ask, max, &cache.residency(slot));
        let (mut size, mut lacks) = wanted(max);
        let mut has_turn = None;
        if let (Some(id), Some(_), false) = (id, grant.lead, self.without.law) {
            let part = self.shares.spread(id, size, max);
            if part < max {
                has_turn = Some(id);
                self.pace = Some(size);
                max = part;
                (size, lacks) = wanted(max);
            }
        }
        if self.without.clip {
            return Allotment { max, lead };
        }

        let wants = size + lacks;
        let (shares, files, now) = (&*self.shares, self.files, self.now);
        let is_live = |other: FileSlot, page| {
            let is_live = |share| shares.is_live(now, share);
            if other == slot {
                return file.has_ahead(page, is_live);
            }
            files.at(other.0).is_some_and(|file| file.remembered.has_ahead(page, is_live))
        };
        // What may be filled: some of what is free is kept for pins. Half of it, so that the next
        // question finds some, too.
        let most = Pages(cache.available().saturating_sub(set_aside).0.div_ceil(2));
        // A read that begins with no window of its own finds a frame there.
        let set_aside = set_aside + Pages(memory.0 / SHARE_OF_NEWCOMERS);
        let room = cache.reclaim(wants + set_aside, is_live).saturating_sub(set_aside).min(most);
        self.room = Some(room);
        if ask.trigger == Trigger::Marker && room < wants.min(grant.least) {
            (self.asked, self.pace) = (None, None);
            has_turn.into_iter().for_each(|id| self.shares.keep_turn(id));
            return Allotment { max: Pages::ZERO, lead };
        }
        if room >= wants {
            return Allotment { max, lead };
        }
        self.pace = self.pace.or(Some(size));
        Allotment { max: room.saturating_sub(lacks).max(Pages(1)), lead }
    }

    /// The policy has decided, and `file`, which ends at `file_end`, remembers what came of it: of
    /// pages from `cut_at` on, if there is one, nothing.
    pub(super) fn decided(
        &mut self,
        file: &mut Streams,
        file_end: PageIndex,
        cut_at: Option<PageIndex>,
        cache: &impl Residency,
    ) {
        while let Some(share) = file.take_dropped() {
            self.shares.end(share);
        }
        let Some((asked, question, page)) = self.asked.take() else { return };
        if let Some(end) = cut_at {
            file.cut_latest(end, cache);
        }
        // The next window grows from what this one would have been.
        if let Some(pace) = self.pace.take() {
            file.quicken_latest(pace);
        }
        let Some(met) = file.latest(page, file_end) else { return };
        let share = if met.share == ShareId::NONE {
            let question = ShareQuestion { page: met.position, ..question };
            let share = self.shares.begin(question);
            file.set_share(share);
            share
        } else if asked == Some(met.share) {
            met.share
        } else {
            return;
        };
        self.shares.set_ahead(self.now, share, met.ahead, met.is_last);
    }
}

impl TooManyWeights {
    /// So many may have one.
    pub const MOST: usize = MemoryShares::MOST_WEIGHTS;
}

impl fmt::Display for TooManyWeights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = Self::MOST;
        write!(f, "{most} submitters have a weight: give one of them 0 to make room for another")
    }
}

impl core::error::Error for TooManyWeights {}

impl IoPath {
    /// Gives the streams of `submitter` a weight of their own: under pressure, memory for
    /// read-ahead is shared by weight first, and what one cannot use is lent to the others. All
    /// submitters without a weight are one here, of weight 1. Only `adaptive` looks at it.
    ///
    /// A weight is between 1 and 1000, one above counts as 1000. One of 0 takes the submitter's own
    /// away.
    ///
    /// # Errors
    ///
    /// If [`TooManyWeights::MOST`] others have one: then nothing has changed.
    pub fn set_weight(&mut self, submitter: Submitter, weight: u32) -> Result<(), TooManyWeights> {
        self.log().did(|| crate::replay::PathCall::SetWeight { submitter, weight });
        self.shares.set_weight(submitter, weight).then_some(()).ok_or(TooManyWeights)
    }

    /// Pages that were read ahead are kept for their readers if the policy says how many there are.
    pub(super) fn keep_unread(&mut self) {
        let keeps = self.policy == Policy::Adaptive && !self.rules.without.clip;
        self.cache.set_keeps_unread(keeps);
    }

    /// A file is forgotten, and with it its streams.
    pub(super) fn end_shares(shares: &mut MemoryShares, streams: &mut Streams) {
        streams.shares().for_each(|share| shares.end(share));
        streams.clear();
    }
}

/// So many frames are left for pages that a read waits for, so that none of those takes one from
/// another stream: more than there are such reads between one window and the next.
const SHARE_OF_NEWCOMERS: u64 = 256;
