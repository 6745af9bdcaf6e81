//! Divides the memory for read-ahead among the active streams.
//!
//! In:    the streams' questions, the limits of their windows, the available memory.
//! Out:   the next window of a stream and its prefetch distance ([`ShareAllotment`]).
//! Never: a cache, a device or a clock; more than a few steps per question.
//!
//! ```text
//!   memory   |== submitter a, weight 1 ==|========== submitter b, weight 2 ==========|....|
//!                                                                                      4 % spare
//!   of one   |= distances, <= 1/4 =|= streams at their ceiling =|= the others: by sqrt =|
//! ```
//!
//! Formula, rationale and figures: docs/design/adaptive.md.

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
pub(crate) use self::share::ShareId;
use self::share::{IDLE_AFTER_HALVINGS, IDLE_HALVINGS_MAX, StreamEnd, StreamShare, small};
use self::speed::ReadRate;
use super::question::Question;
use crate::sched::Submitter;
use crate::table::FileSlot;
use crate::units::{Nanos, PageIndex, Pages};

/// Shares of all streams.
#[derive(Debug)]
pub(crate) struct MemoryShares {
    shares: Vec<StreamShare>,
    free: Vec<u32>,
    groups: SubmitterGroups,
    far: FarDevices,
    last_pages: LastPages,
    /// Clock hand: the share to recount next, in case its stream has stalled.
    hand: usize,
    /// Streams begun so far.
    begun: u16,
}

/// Allotment of one stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ShareAllotment {
    /// Largest window.
    pub(crate) window: Pages,
    /// Prefetch distance; None for the largest possible, when memory is not short.
    pub(crate) distance: Option<Pages>,
    /// Smallest window worth requesting.
    pub(crate) least: Pages,
}

impl MemoryShares {
    /// Largest number of submitters with weights.
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

    /// Sets the weight of `submitter`'s streams. 0 moves them to the common group of all submitters
    /// without a weight. Returns false if there are too many weights.
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

    /// Adds a stream that begins with this question, at `position` in its own page numbers.
    pub(crate) fn begin(&mut self, question: &Question<'_>, position: PageIndex) -> ShareId {
        let group = self.groups.of(question.reader.submitter);
        let bounds = &question.bounds;
        self.begun = self.begun.wrapping_add(1);
        let share = StreamShare {
            is_there: true,
            group,
            phase: self.begun.wrapping_mul(GOLDEN),
            ceiling: small(bounds.ceiling.min(bounds.max_unstalled)),
            at_most: small(bounds.common_ceiling),
            read: small(question.ask.count),
            at: question.now,
            page: position,
            begun: position,
            handle_blocked_ns: question.reader.handle_blocked_ns,
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

    /// Removes the share of a forgotten stream.
    pub(crate) fn end(&mut self, id: ShareId) {
        let share = core::mem::take(&mut self.shares[id.0 as usize]);
        assert!(share.is_there, "a share ends once");
        self.groups.change(share.group, share.counted, share.group, ShareDemand::default());
        self.far.change(share.far_counted, FarDemand::default());
        self.free.push(id.0);
    }

    /// Records the pages ahead of a reader, and the last of them if the file ends there.
    pub(crate) fn set_ahead(
        &mut self,
        now: Nanos,
        id: ShareId,
        ahead: Pages,
        last_page: Option<(FileSlot, PageIndex)>,
    ) {
        let index = id.0 as usize;
        let end =
            last_page.map_or(StreamEnd::Behind, |(file, page)| self.last_pages.add(id, file, page));
        let share = &mut self.shares[index];
        debug_assert!(share.is_there, "{id:?} has ended");
        let changes = end != StreamEnd::Behind || share.end != StreamEnd::Behind;
        (share.ahead, share.end) = (small(ahead), end);
        if changes {
            self.recount(index, now);
        }
    }

    /// Checks a few streams that have prefetched to the end of their file: they need no memory once
    /// the last page is no longer unread.
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

    /// Returns true if the reader may still come: it has not been idle for several times the period
    /// that its prefetched pages last.
    pub(crate) fn is_live(&self, now: Nanos, id: ShareId) -> bool {
        let share = self.shares.get(id.0 as usize);
        share.is_some_and(|share| share.is_there && share.idle_halvings(now) < IDLE_AFTER_HALVINGS)
    }

    /// Returns true if the reader is active on a remote device.
    pub(crate) fn reads_far(&self, now: Nanos, id: ShareId) -> bool {
        let share = self.shares.get(id.0 as usize);
        share.is_some_and(|share| share.is_there && !share.has_left_far(now))
    }

    /// Returns the allotment of a stream that asks at `position`, in its own page numbers.
    ///
    /// ```text
    ///   memory for two windows each  its ceiling, at the largest distance
    ///   otherwise                    w = 2 x (memory - distances) x sqrt(rate) / sum of sqrt(rate)
    /// ```
    pub(crate) fn ask(
        &mut self,
        id: ShareId,
        question: &Question<'_>,
        position: PageIndex,
        memory: Pages,
    ) -> ShareAllotment {
        debug_assert!(self.has(id), "{id:?} has ended");
        self.look_around(question.now, question.bounds.is_far);
        let index = id.0 as usize;
        let before = self.shares[index].at_most;
        let common = small(question.bounds.common_ceiling);
        if common > before {
            self.lift(before, common, question.now);
        }
        self.shares[index].learn(question, position);
        let group = self.groups.of(question.reader.submitter);
        self.move_to(index, group);
        self.recount(index, question.now);
        let most = question.bounds.ceiling;
        if let Some(window) = self.shares[index].far_window(&self.far, most) {
            let share = &mut self.shares[index];
            share.ceiling = window.min(small(most));
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

    /// Returns the size of a stream's first window, where it could have `most` pages and requests
    /// `size`.
    ///
    /// ```text
    ///   all begin with a whole window  each with another part of it
    ///   |\    |\    |\                 |\  |\   |\          the sums assume half a window each on
    ///   | \   | \   | \                |.\.|.\. |.\..       average: streams that begin together
    ///   |  \  |  \  |  \              \|  \|  \|  \        would stay in step, and the last one
    ///   |   \ |   \ |   \              |   |   |   |        would find no frame
    /// ```
    ///
    /// Phases by the golden section are evenly spread for any number of streams. A stream at its
    /// ceiling gets its whole window.
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

    /// Keeps the phase for the stream's next question, because this one got nothing.
    pub(crate) fn keep_phase(&mut self, id: ShareId) {
        debug_assert!(self.has(id), "{id:?} has ended");
        self.shares[id.0 as usize].is_staggered = false;
    }

    /// Returns the allotment of a new stream, which is treated as an average one.
    pub(crate) fn ask_new(&mut self, question: &Question<'_>, memory: Pages) -> ShareAllotment {
        let bounds = &question.bounds;
        self.look_around(question.now, bounds.is_far);
        let group = self.groups.of(question.reader.submitter);
        let most = self.far.first_window(question).unwrap_or(bounds.max_unstalled);
        let most = most.min(bounds.ceiling);
        let room = self.groups.room(group, memory).with_one_more(most);
        if !room.is_short() {
            return ShareAllotment { window: most, distance: None, least: Pages(1) };
        }
        let window = room.window_of(room.mean_weight()).min(most).max(Pages(1));
        ShareAllotment { window, distance: None, least: Pages(1) }
    }

    /// Recounts the next few shares: a stalled stream counts less.
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

    /// Raises the ceiling of all streams that had the old one at once, a few times in the life of a
    /// device. Otherwise the first stream to ask would find all others at the old ceiling, and take
    /// memory that they are about to need.
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

    /// Updates a share's contribution to the sums.
    fn recount(&mut self, index: usize, now: Nanos) {
        let share = &self.shares[index];
        debug_assert!(share.is_there, "share {index} has ended, and counts no more");
        let weight = share.speed.root().unwrap_or_else(|| self.groups.mean_weight(share.group));
        let idle_halvings = share.idle_halvings(now);
        let part = ShareDemand {
            // A group with all files read to their end is entitled to its weight again.
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

/// 65536 divided by the golden ratio.
const GOLDEN: u16 = 40503;

/// Shares recounted per question: all of them while half of the streams ask.
const LOOKS: u32 = 2;

/// Last pages checked per question. A question adds one at most, so only the unread ones stay
/// queued, however many files are read.
const LOOKS_AT_ENDS: usize = 2;

/// Shares recounted per question on a remote device, where questions are rare and finished streams
/// would keep their part of the queue depth.
const LOOKS_FAR: u32 = 16;

/// Least part of a window worth requesting, as a divisor: many small requests make an overload
/// worse, and a stream that waits meanwhile consumes its own pages.
const LEAST_DENOM: u64 = 4;
