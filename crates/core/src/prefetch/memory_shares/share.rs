//! One stream's share of the memory: how fast its reader goes, how far ahead it asks, and what it
//! can use.
//!
//! In:    its questions.
//! Out:   what it adds to its submitter's sums.
//! Never: another stream.

use super::far::FarDemand;
use super::groups::ShareDemand;
use super::speed::ReadRate;
use crate::sched::Submitter;
use crate::units::{Nanos, PageIndex, Pages};

/// Names a share as long as its stream is remembered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ShareId(pub(super) u32);

/// One stream's.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamShare {
    pub(super) is_there: bool,
    pub(super) group: u8,
    /// Whether it gets what it can use, and not a share by its rate.
    pub(super) is_capped: bool,
    /// How often its distance was doubled, in eighths of a doubling.
    pub(super) stall_backoff: u16,
    /// Which part of a window its first one is when memory is short, in 65536ths; whether it had
    /// that.
    pub(super) phase: u16,
    pub(super) is_staggered: bool,
    pub(super) end: StreamEnd,
    /// How much is ahead of its reader when it has just asked.
    pub(super) ahead: u32,
    /// The largest read of late.
    pub(super) read: u32,
    /// The largest window that is of use to it, and to any stream of its device that waits.
    pub(super) ceiling: u32,
    pub(super) at_most: u32,
    /// How many pages its reader takes while a request is on its way, and its next read.
    pub(super) distance: u32,
    pub(super) speed: ReadRate,
    /// When and where it asked last, and where first.
    pub(super) at: Nanos,
    pub(super) page: PageIndex,
    pub(super) begun: PageIndex,
    /// What its reader had waited in all when it asked last.
    pub(super) handle_blocked_ns: u64,
    /// What it would want alone of a device that serves the requests of a window at once.
    pub(super) far: FarDemand,
    /// How long a request takes there.
    pub(super) far_latency_ns: u64,
    /// What it adds to its group's sums.
    pub(super) counted: ShareDemand,
    /// What it adds to the sum of its device.
    pub(super) far_counted: FarDemand,
}

/// How far a stream is from the end of its file.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum StreamEnd {
    /// More lies behind what is ahead of its reader.
    #[default]
    Behind,
    /// Its file ends with what is ahead of its reader: it will not ask again. With its number in
    /// the line of those whose last page is looked at.
    Ahead(u32),
    /// Its last page is not unread: nothing is kept for its reader.
    Reached,
}

/// A question, as far as shares look at it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShareQuestion {
    pub(crate) now: Nanos,
    /// Where its reader is, counted in the stream's own pages.
    pub(crate) page: PageIndex,
    /// The pages that are left of its read.
    pub(crate) count: Pages,
    /// The submitter that it reads for.
    pub(crate) submitter: Submitter,
    /// Whether its reader had to wait, and for how long since it last asked.
    pub(crate) has_waited: bool,
    pub(crate) blocked_ns: u64,
    /// How long its handle has waited in all, for whichever stream.
    pub(crate) handle_blocked_ns: u64,
    /// The largest window that makes sense, and the largest for one whose reader never waits: such
    /// windows need not be more than one request.
    pub(crate) ceiling: Pages,
    /// The ceiling of streams whose reads are no larger than that.
    pub(crate) common_ceiling: Pages,
    pub(crate) max_window_unstalled: Pages,
    /// How long a request takes, from being asked for to its end.
    pub(crate) latency_ns: u64,
    /// The number of the device if that serves the requests of a window at once.
    pub(crate) far: Option<u32>,
}

impl StreamShare {
    /// What a question tells.
    pub(super) fn learn(&mut self, question: ShareQuestion) {
        let ShareQuestion { now, page, count, has_waited, .. } = question;
        let blocked_ns = self.blocked_ns(&question);
        let pages = Pages(page.0.abs_diff(self.page.0));
        let ns = now.0.saturating_sub(self.at.0);
        let ns = ns.saturating_sub(blocked_ns).max(ns / MOST_SPEED_UP);
        self.speed.add(pages, ns);
        (self.at, self.page) = (now, page);
        self.end = StreamEnd::Behind;
        self.read = small(count).max(self.read - self.read.div_ceil(8));
        self.stall_backoff = if has_waited {
            (self.stall_backoff + DOUBLING).min(MOST_STALL_BACKOFF)
        } else {
            self.stall_backoff.saturating_sub(1)
        };
        let is_unstalled = self.stall_backoff == 0;
        let most = if is_unstalled { question.max_window_unstalled } else { question.ceiling };
        self.ceiling = small(most.min(question.ceiling));
        self.learn_far(&question, has_waited, page.0.abs_diff(self.begun.0));
        self.at_most = small(question.common_ceiling);
        let meanwhile = self.speed.pages_in(question.latency_ns.saturating_mul(MARGIN));
        debug_assert!(self.stall_backoff <= MOST_STALL_BACKOFF, "a distance doubles so often");
        let eighths = u64::from(self.stall_backoff % DOUBLING);
        let distance = meanwhile.0.saturating_add(u64::from(self.read));
        let distance = distance.saturating_mul(8 + eighths) / 8;
        self.distance = small(Pages(distance << (self.stall_backoff / DOUBLING))).min(self.ceiling);
    }

    /// How long its reader waited since it asked last. A handle that reads several streams in turns
    /// waits for each of them.
    fn blocked_ns(&mut self, question: &ShareQuestion) -> u64 {
        let before = core::mem::replace(&mut self.handle_blocked_ns, question.handle_blocked_ns);
        if question.far.is_none() {
            return question.blocked_ns;
        }
        question.handle_blocked_ns.saturating_sub(before)
    }

    /// What it can use of the memory: two windows; or, at the end of its file, what it still has
    /// ahead, and less and less of that once its time is over.
    pub(super) fn uses(&self, now: Nanos) -> ShareDemand {
        let rest = match self.end {
            StreamEnd::Behind => None,
            StreamEnd::Ahead(_) => {
                Some(u64::from(self.ahead) >> self.times_over(now).min(IDLE_HALVINGS_MAX))
            }
            StreamEnd::Reached => Some(0),
        };
        if let Some(rest) = rest {
            return ShareDemand {
                demand: rest,
                is_capped: true,
                ceiling: rest,
                ..ShareDemand::default()
            };
        }
        let idle_halvings = self.idle_halvings(now).min(IDLE_HALVINGS_MAX);
        let ceiling = u64::from(self.ceiling) >> idle_halvings;
        let distance = u64::from(self.distance) >> idle_halvings;
        let is_capped = self.is_capped;
        ShareDemand { demand: 2 * ceiling, distance, is_capped, ceiling, ..ShareDemand::default() }
    }

    /// How often what is ahead of its reader could have been used up since it asked, in doublings.
    pub(super) fn times_over(&self, now: Nanos) -> u32 {
        let away_ns = now.0.saturating_sub(self.at.0);
        let Some(lifetime_ns) = self.speed.ns_of(Pages(u64::from(self.ahead))) else {
            return self.idle_halvings(now);
        };
        (away_ns / lifetime_ns.max(1)).checked_ilog2().map_or(0, |doublings| doublings + 1)
    }

    /// How often it counts half: not at all, until its reader has been away for several times what
    /// it takes for what is ahead of it.
    pub(super) fn idle_halvings(&self, now: Nanos) -> u32 {
        let away_ns = now.0.saturating_sub(self.at.0);
        let lifetime_ns = self.speed.ns_of(Pages(u64::from(self.ahead))).unwrap_or(0);
        let idle_timeout_ns = lifetime_ns.max(LIFETIME_MIN_NS).saturating_mul(IDLE_LIFETIMES);
        (away_ns / idle_timeout_ns).checked_ilog2().map_or(0, |doublings| doublings + 1)
    }
}

impl ShareId {
    /// None.
    pub(crate) const NONE: Self = Self(u32::MAX);
}

impl Default for ShareId {
    fn default() -> Self {
        Self::NONE
    }
}

/// Windows and reads fit 32 bits: memory is counted in fewer frames.
pub(super) fn small(pages: Pages) -> u32 {
    u32::try_from(pages.0).unwrap_or(u32::MAX)
}

/// A reader may be late by so many times what it usually takes for what is ahead of it: clients
/// pause, and a guess of its rate may be wrong by two.
pub(super) const IDLE_LIFETIMES: u64 = 4;

/// And by no less than four seconds: no device keeps a reader waiting for so long, and one that
/// reads at full speed waits for nothing else.
pub(super) const LIFETIME_MIN_NS: u64 = 1_000_000_000;

/// Counted a quarter, its pages may be taken: it had eight lives.
pub(super) const IDLE_AFTER_HALVINGS: u32 = 2;

/// From here on it counts nothing.
pub(super) const IDLE_HALVINGS_MAX: u32 = 63;

/// A reader that waits nearly all the time is taken for one that could be eight times as fast: a
/// reader of many streams in turns waits for one of them and not for the others, and all are as
/// fast.
pub(super) const MOST_SPEED_UP: u64 = 8;

/// A request may take twice as long as they take on average before its reader waits.
pub(super) const MARGIN: u64 = 2;

/// A wait doubles the distance; it takes eight questions without one to halve it: a wait costs more
/// than the memory of a distance that is too long.
pub(super) const DOUBLING: u16 = 8;

/// Twice is enough: what it starts from was measured, and after an overload all distances are as
/// long as can be, which takes from the windows.
pub(super) const MOST_STALL_BACKOFF: u16 = DOUBLING;
