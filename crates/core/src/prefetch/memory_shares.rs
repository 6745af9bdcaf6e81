//! The memory for read-ahead, shared out among the streams that want it.
//!
//! In:    what a stream asks and when; how large its windows may be; how much memory there is.
//! Out:   how large its next window is, and how early it is to ask for it ([`ShareAllotment`]).
//! Never: a cache, a device, a clock. More than a few steps a question.
//!
//! ```text
//!   memory   |== submitter a, weight 1 ==|========== submitter b, weight 2 ==========|....|
//!                                                                                      4 % left
//!   of one   |= distances, <= 1/4 =|= streams at their ceiling =|= the others: by sqrt =|
//! ```
//!
//! The rule that divides the memory, its reason and its figures: docs/adaptive.md.

mod far;
mod far_window;
mod groups;
mod invariants;
mod last_pages;
mod share;
mod speed;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use self::far::{FarDemand, FarDevices};
use self::groups::{ShareDemand, SubmitterGroups};
use self::last_pages::LastPages;
use self::share::{IDLE_AFTER_HALVINGS, IDLE_HALVINGS_MAX, StreamEnd, StreamShare, small};
pub(crate) use self::share::{ShareId, ShareQuestion};
use self::speed::ReadRate;
use crate::sched::Submitter;
use crate::table::FileSlot;
use crate::units::{Nanos, PageIndex, Pages};

/// What is known of all streams that have a share.
#[derive(Debug)]
pub(crate) struct MemoryShares {
    shares: Vec<StreamShare>,
    free: Vec<u32>,
    groups: SubmitterGroups,
    far: FarDevices,
    last_pages: LastPages,
    /// Which one is looked at next, whether its stream has stalled.
    hand: usize,
    /// How many have begun.
    begun: u16,
}

/// What a stream may have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ShareAllotment {
    /// Its largest window.
    pub(crate) window: Pages,
    /// How far ahead it asks; None: as far as it can, there is room for all.
    pub(crate) distance: Option<Pages>,
    /// With less than so many pages to be had it had better wait.
    pub(crate) least: Pages,
}

impl MemoryShares {
    /// So many submitters have a weight of their own.
    pub(crate) const MOST_WEIGHTS: usize = groups::MOST_WEIGHTS;

    pub(crate) const fn new() -> Self {
        Self {
            shares: Vec::new(),
            free: Vec::new(),
            groups: SubmitterGroups::new(),
            far: FarDevices::new(),
            last_pages: LastPages::new(),
            hand: 0,
            begun: 0,
        }
    }

    /// Sets the weight of the streams of `submitter` beside others; 0: it shares the common one of
    /// all submitters without a weight. False if there is no room for another weight.
    pub(crate) fn set_weight(&mut self, submitter: Submitter, weight: u32) -> bool {
        if weight > 0 {
            return self.groups.set_weight(submitter, weight);
        }
        if let Some(group) = self.groups.forget(submitter) {
            for index in 0..self.shares.len() {
                if self.shares[index].is_there && self.shares[index].group == group {
                    self.move_to(index, SubmitterGroups::COMMON);
                }
            }
        }
        true
    }

    /// A stream has begun with this question.
    pub(crate) fn begin(&mut self, question: ShareQuestion) -> ShareId {
        let group = self.groups.of(question.submitter);
        self.begun = self.begun.wrapping_add(1);
        let share = StreamShare {
            is_there: true,
            group,
            phase: self.begun.wrapping_mul(GOLDEN),
            ceiling: small(question.ceiling.min(question.max_window_unstalled)),
            at_most: small(question.common_ceiling),
            read: small(question.count),
            at: question.now,
            page: question.page,
            begun: question.page,
            handle_blocked_ns: question.handle_blocked_ns,
            speed: ReadRate::like(self.groups.known_weight(group)),
            ..StreamShare::default()
        };
        let index = self.free.pop().unwrap_or_else(|| {
            self.shares.push(StreamShare::default());
            u32::try_from(self.shares.len() - 1)
                .expect("a file remembers hundreds of streams, and files are few")
        });
        debug_assert!(!self.shares[index as usize].is_there, "a share that is free has no stream");
        self.shares[index as usize] = share;
        self.recount(index as usize, question.now);
        ShareId(index)
    }

    /// Its stream is forgotten.
    pub(crate) fn end(&mut self, id: ShareId) {
        let share = core::mem::take(&mut self.shares[id.0 as usize]);
        assert!(share.is_there, "a share ends once");
        self.groups.change(share.group, share.counted, share.group, ShareDemand::default());
        self.far.change(share.far_counted, FarDemand::default());
        self.free.push(id.0);
    }

    /// So much is ahead of its reader now; the last page of that if its file ends there.
    pub(crate) fn set_ahead(
        &mut self,
        now: Nanos,
        id: ShareId,
        ahead: Pages,
        last_page: Option<(FileSlot, PageIndex)>,
    ) {
        let index = id.0 as usize;
        let end = last_page.map_or(StreamEnd::Behind, |at| self.last_pages.add(id, at));
        let share = &mut self.shares[index];
        debug_assert!(share.is_there, "{id:?} has ended");
        let changes = end != StreamEnd::Behind || share.end != StreamEnd::Behind;
        (share.ahead, share.end) = (small(ahead), end);
        if changes {
            self.recount(index, now);
        }
    }

    /// Looks at a few streams whose file ends with what is ahead of them: once the last page of
    /// that is not unread, they need no memory.
    pub(crate) fn look_at_ends(
        &mut self,
        now: Nanos,
        mut is_unread: impl FnMut(FileSlot, PageIndex) -> bool,
    ) {
        for _ in 0..LOOKS_AT_ENDS.min(self.last_pages.len()) {
            let Some(last) = self.last_pages.take_first() else { return };
            let index = last.share.0 as usize;
            if self.shares[index].end != StreamEnd::Ahead(last.number) {
                continue;
            }
            if is_unread(last.file, last.page) {
                self.last_pages.put_back(last);
                continue;
            }
            self.shares[index].end = StreamEnd::Reached;
            self.recount(index, now);
        }
    }

    /// Whether its reader may still come: it has been away for less than several of the times that
    /// it takes for what is ahead of it.
    pub(crate) fn is_live(&self, now: Nanos, id: ShareId) -> bool {
        let share = self.shares.get(id.0 as usize);
        share.is_some_and(|share| share.is_there && share.idle_halvings(now) < IDLE_AFTER_HALVINGS)
    }

    /// Whether its reader is at it, on a device that is far away.
    pub(crate) fn reads_far(&self, now: Nanos, id: ShareId) -> bool {
        let share = self.shares.get(id.0 as usize);
        share.is_some_and(|share| share.is_there && !share.has_left_far(now))
    }

    /// What a stream may have that asks.
    ///
    /// ```text
    ///   room for all, twice     its ceiling, asked for as early as can be
    ///   otherwise               w = 2 x (memory - distances) x sqrt(rate) / sum of all sqrt(rate)
    /// ```
    pub(crate) fn ask(
        &mut self,
        id: ShareId,
        question: ShareQuestion,
        memory: Pages,
    ) -> ShareAllotment {
        debug_assert!(self.has(id), "{id:?} has ended");
        self.look_around(question.now, question.far.is_some());
        let index = id.0 as usize;
        let before = self.shares[index].at_most;
        let common = small(question.common_ceiling);
        if common > before {
            self.lift(before, common, question.now);
        }
        self.shares[index].learn(question);
        let group = self.groups.of(question.submitter);
        self.move_to(index, group);
        self.recount(index, question.now);
        if let Some(window) = self.shares[index].far_window(&self.far, question.ceiling) {
            let share = &mut self.shares[index];
            share.ceiling = window.min(small(question.ceiling));
            share.distance = share.distance.min(share.ceiling);
            self.recount(index, question.now);
        }

        let share = &self.shares[index];
        let (weight, distance, ceiling) = (share.counted.weight, share.distance, share.ceiling);
        let room = self.groups.room(group, memory);
        let most = Pages(ceiling.into());
        if !room.is_short() {
            let share = &mut self.shares[index];
            (share.is_capped, share.is_staggered) = (false, false);
            return ShareAllotment { window: most, distance: None, least: Pages(1) };
        }
        let rest = room.without(&self.shares[index].counted);
        let by_law = rest.window_of(weight);
        let window = by_law.min(most).max(Pages(1));
        self.shares[index].is_capped = by_law >= most;
        self.recount(index, question.now);
        let distance = room.distance_of(distance).min(window).max(Pages(1));
        debug_assert!(window <= most.max(Pages(1)), "a window is no larger than its ceiling");
        ShareAllotment { window, distance: Some(distance), least: Pages(window.0 / LEAST_DENOM) }
    }

    /// How much of a window of `most` pages it may have when it wants `size` of them.
    ///
    /// ```text
    ///   all begin with a whole one     each with another part of it
    ///   |\    |\    |\                 |\  |\   |\          the sum counts on the mean, half of
    ///   | \   | \   | \                |.\.|.\. |.\..       each: streams that begin together ask
    ///   |  \  |  \  |  \              \|  \|  \|  \        together from then on, and the last
    ///   |   \ |   \ |   \              |   |   |   |        find no frame
    /// ```
    ///
    /// Parts by the golden section lie evenly, however many there are. A stream whose window is
    /// capped gets it whole.
    pub(crate) fn stagger(&mut self, id: ShareId, size: Pages, most: Pages) -> Pages {
        let share = &mut self.shares[id.0 as usize];
        let part = Pages(((most.0 * u64::from(share.phase)) >> 16).max(1));
        if share.is_staggered || share.is_capped || size <= part {
            return most;
        }
        share.is_staggered = true;
        debug_assert!(part <= most.max(Pages(1)), "a part of a window is no larger than it");
        part
    }

    /// It got nothing: its phase is still to come.
    pub(crate) fn keep_phase(&mut self, id: ShareId) {
        debug_assert!(self.has(id), "{id:?} has ended");
        self.shares[id.0 as usize].is_staggered = false;
    }

    /// What a stream may have that begins: as much as one of the middle.
    pub(crate) fn ask_new(&mut self, question: ShareQuestion, memory: Pages) -> ShareAllotment {
        self.look_around(question.now, question.far.is_some());
        let group = self.groups.of(question.submitter);
        let most = self.far.first_window(&question).unwrap_or(question.max_window_unstalled);
        let most = most.min(question.ceiling);
        let room = self.groups.room(group, memory).with_one_more(most);
        if !room.is_short() {
            return ShareAllotment { window: most, distance: None, least: Pages(1) };
        }
        let window = room.window_of(room.mean_weight()).min(most).max(Pages(1));
        ShareAllotment { window, distance: None, least: Pages(1) }
    }

    /// Counts some of them again: a stalled one counts less.
    fn look_around(&mut self, now: Nanos, is_far: bool) {
        for _ in 0..if is_far { LOOKS_FAR } else { LOOKS } {
            if self.hand >= self.shares.len() {
                self.hand = 0;
            }
            if self.shares.get(self.hand).is_some_and(|share| share.is_there) {
                self.recount(self.hand, now);
            }
            self.hand += 1;
        }
    }

    /// More has turned out to be of use: for all whose ceiling was the same, at once. Or the first
    /// to ask would find all others at the old one, and get what they do not know yet they want.
    /// A ceiling doubles a few times in the life of a device.
    fn lift(&mut self, before: u32, ceiling: u32, now: Nanos) {
        for index in 0..self.shares.len() {
            let share = &mut self.shares[index];
            if share.is_there && share.at_most == before {
                share.at_most = ceiling;
                if share.ceiling == before {
                    (share.ceiling, share.is_capped) = (ceiling, false);
                    self.recount(index, now);
                }
            }
        }
    }

    fn move_to(&mut self, index: usize, group: u8) {
        let share = &mut self.shares[index];
        debug_assert!(usize::from(group) < self.groups.len(), "there is no group {group}");
        if share.group != group {
            self.groups.change(share.group, share.counted, group, share.counted);
            share.group = group;
        }
    }

    /// What it adds to the sums, as it is now.
    fn recount(&mut self, index: usize, now: Nanos) {
        let share = &self.shares[index];
        debug_assert!(share.is_there, "share {index} has ended, and counts no more");
        let weight = share.speed.root().unwrap_or_else(|| self.groups.mean_weight(share.group));
        let idle_halvings = share.idle_halvings(now);
        let part = ShareDemand {
            // A group whose files were all read to their end has a right to its weight again.
            streams: u64::from(
                idle_halvings < IDLE_AFTER_HALVINGS && share.end != StreamEnd::Reached,
            ),
            is_known: share.speed.root().is_some(),
            weight: weight >> idle_halvings.min(IDLE_HALVINGS_MAX),
            ..share.uses(now)
        };
        let share = &mut self.shares[index];
        let is_gone = share.end != StreamEnd::Behind || share.has_left_far(now);
        let far = if is_gone { FarDemand::default() } else { share.far };
        self.groups.change(share.group, share.counted, share.group, part);
        self.far.change(share.far_counted, far);
        (share.counted, share.far_counted) = (part, far);
    }
}

/// 65536 by the golden ratio.
const GOLDEN: u16 = 40503;

/// For each question two are looked at: all of them as often as half of the streams ask.
const LOOKS: u32 = 2;

/// So many last pages are looked at for each question, which adds one at most: those that wait are
/// the unread ones, however many files are read.
const LOOKS_AT_ENDS: usize = 2;

/// On a device that is far away questions are few, and streams that have ended would keep what is
/// in flight from those that read.
const LOOKS_FAR: u32 = 16;

/// A quarter of its window: more requests for less each make an overload worse. A stream that waits
/// has consumed more of its own by then.
const LEAST_DENOM: u64 = 4;
