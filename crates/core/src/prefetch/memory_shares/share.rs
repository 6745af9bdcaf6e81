//! One stream's share of the prefetch memory: read rate, prefetch distance and demand.

use super::far::FarDemand;
use super::groups::ShareDemand;
use super::speed::ReadRate;
use crate::prefetch::decision::Ask;
use crate::prefetch::question::Question;
use crate::units::{Nanos, PageIndex, Pages};

/// Identifies the share of a stream while the stream is remembered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ShareId(pub(super) u32);

/// Share of one stream.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamShare {
    pub(super) is_there: bool,
    pub(super) group: u8,
    /// Demand is met in full, instead of in proportion to the read rate.
    pub(super) is_capped: bool,
    /// Doublings of the prefetch distance, in eighths of a doubling.
    pub(super) stall_backoff: u16,
    /// Size of the first window when memory is short, in 65536ths of a full one; streams that begin
    /// together get different ones.
    pub(super) phase: u16,
    /// The stream has had that first window.
    pub(super) is_staggered: bool,
    pub(super) end: StreamEnd,
    /// Pages ahead of the reader just after its last request for more.
    pub(super) ahead: u32,
    /// Largest recent read.
    pub(super) read: u32,
    /// Largest useful window of this stream.
    pub(super) ceiling: u32,
    /// Largest useful window of any stalling stream on its device.
    pub(super) at_most: u32,
    /// Pages that the reader consumes during one request, plus its next read.
    pub(super) distance: u32,
    pub(super) speed: ReadRate,
    /// Time and page of the last question.
    pub(super) at: Nanos,
    pub(super) page: PageIndex,
    /// Page of the first question.
    pub(super) begun: PageIndex,
    /// Total time that the handle had been blocked at the last question.
    pub(super) handle_blocked_ns: u64,
    /// Demand if it were the only stream on a device that serves the requests of a window at once.
    pub(super) far: FarDemand,
    /// Request latency of that device.
    pub(super) far_latency_ns: u64,
    /// Its current contribution to the group's sums.
    pub(super) counted: ShareDemand,
    /// Its current contribution to the device's sum.
    pub(super) far_counted: FarDemand,
}

/// Position of a stream relative to the end of its file.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum StreamEnd {
    /// The file continues behind the prefetched pages.
    #[default]
    Behind,
    /// The prefetched pages reach the end of the file, so the stream will not ask again. Holds its
    /// position in the queue of streams whose last page is checked.
    Ahead(u32),
    /// The last page is no longer unread: nothing is kept for the reader.
    Reached,
}

impl StreamShare {
    /// Updates rate, stall backoff and demand from a question.
    pub(super) fn learn(&mut self, question: &Question<'_>, page: PageIndex) {
        let Question { now, ask: Ask { count, has_waited, .. }, ref bounds, .. } = *question;
        let blocked_ns = self.blocked_ns(question);
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
        let most = if is_unstalled { bounds.max_unstalled } else { bounds.ceiling };
        self.ceiling = small(most.min(bounds.ceiling));
        self.learn_far(question, page.0.abs_diff(self.begun.0));
        self.at_most = small(bounds.common_ceiling);
        let meanwhile = self.speed.pages_in(bounds.latency_ns.saturating_mul(MARGIN));
        debug_assert!(self.stall_backoff <= MOST_STALL_BACKOFF, "a distance doubles so often");
        let eighths = u64::from(self.stall_backoff % DOUBLING);
        let distance = meanwhile.0.saturating_add(u64::from(self.read));
        let distance = distance.saturating_mul(8 + eighths) / 8;
        self.distance = small(Pages(distance << (self.stall_backoff / DOUBLING))).min(self.ceiling);
    }

    /// Returns how long the reader was blocked since its last question. A handle that reads several
    /// streams in turn blocks on each of them.
    fn blocked_ns(&mut self, question: &Question<'_>) -> u64 {
        let reader = &*question.reader;
        let before = core::mem::replace(&mut self.handle_blocked_ns, reader.handle_blocked_ns);
        if !question.bounds.is_far {
            return reader.blocked_ns;
        }
        reader.handle_blocked_ns.saturating_sub(before)
    }

    /// Returns its memory demand: two windows; at the end of its file, the pages still ahead of the
    /// reader, halved repeatedly once they are overdue.
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

    /// Returns how many times over the reader could have consumed its prefetched pages by now, in
    /// doublings.
    pub(super) fn times_over(&self, now: Nanos) -> u32 {
        let away_ns = now.0.saturating_sub(self.at.0);
        let Some(lifetime_ns) = self.speed.ns_of(Pages(u64::from(self.ahead))) else {
            return self.idle_halvings(now);
        };
        (away_ns / lifetime_ns.max(1)).checked_ilog2().map_or(0, |doublings| doublings + 1)
    }

    /// Returns how many times its demand is halved: 0 until the reader has been idle for several
    /// times the period that its prefetched pages last.
    pub(super) fn idle_halvings(&self, now: Nanos) -> u32 {
        let away_ns = now.0.saturating_sub(self.at.0);
        let lifetime_ns = self.speed.ns_of(Pages(u64::from(self.ahead))).unwrap_or(0);
        let idle_timeout_ns = lifetime_ns.max(LIFETIME_MIN_NS).saturating_mul(IDLE_LIFETIMES);
        (away_ns / idle_timeout_ns).checked_ilog2().map_or(0, |doublings| doublings + 1)
    }
}

impl ShareId {
    /// No share.
    pub(crate) const NONE: Self = Self(u32::MAX);
}

impl Default for ShareId {
    fn default() -> Self {
        Self::NONE
    }
}

/// Converts to 32 bits, which are enough: memory has fewer frames.
pub(super) fn small(pages: Pages) -> u32 {
    u32::try_from(pages.0).unwrap_or(u32::MAX)
}

/// Idle time before the first halving, in multiples of the time that the prefetched pages last:
/// clients pause, and an estimated rate may be off by two.
pub(super) const IDLE_LIFETIMES: u64 = 4;

/// Floor of that time: with [`IDLE_LIFETIMES`] the idle time-out is at least four seconds. No
/// device blocks a reader for that long, and a reader at full speed waits for nothing else.
pub(super) const LIFETIME_MIN_NS: u64 = 1_000_000_000;

/// At a quarter of its demand (eight lifetimes idle) its pages become evictable.
pub(super) const IDLE_AFTER_HALVINGS: u32 = 2;

/// Demand is 0 from here on.
pub(super) const IDLE_HALVINGS_MAX: u32 = 63;

/// Upper bound on the correction for blocked time. A reader blocked nearly all the time is assumed
/// to be at most eight times as fast: a reader of many streams in turn blocks on one of them and
/// not on the others, and all have the same rate.
pub(super) const MOST_SPEED_UP: u64 = 8;

/// A request may take twice the mean latency before its reader stalls.
pub(super) const MARGIN: u64 = 2;

/// Eighths in a doubling: one stall doubles the distance, and eight questions without a stall halve
/// it, because a stall costs more than the memory of a distance that is too long.
pub(super) const DOUBLING: u16 = 8;

/// Limit of one doubling. The base distance is measured, and after an overload every stream would
/// sit at the limit, at the expense of window size.
pub(super) const MOST_STALL_BACKOFF: u16 = DOUBLING;
