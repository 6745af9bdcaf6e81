//! Window of a stream on a device that serves the requests of a window concurrently.
//!
//! Memory may reduce it further.

use super::far::{FarDemand, FarDevices, LEAST};
use super::share::{IDLE_LIFETIMES, MARGIN, StreamShare, small};
use crate::prefetch::question::Question;
use crate::units::{Nanos, Pages};

impl StreamShare {
    /// Computes the window for a lone stream: the whole reads that the reader consumes during one
    /// request, and after a stall twice the previous window.
    ///
    /// ```text
    ///   a reader that stalls     1, 2, 4, .. windows     each stall doubles the pages in flight
    ///   one that does not        |read|read|             rate x latency; after a long run more, to
    ///                                                    send fewer requests
    /// ```
    pub(super) fn learn_far(&mut self, question: &Question<'_>, run: u64) {
        let bounds = &question.bounds;
        if !bounds.is_far {
            self.far = FarDemand::default();
            return;
        }
        self.far_latency_ns = bounds.latency_ns;
        let read = self.read.max(1);
        let whole = |pages: Pages| u64::from(small(pages)).next_multiple_of(u64::from(read));
        let latency_ns = bounds.latency_ns.saturating_mul(MARGIN);
        let meanwhile = whole(self.speed.pages_in(latency_ns));
        let grown = if question.ask.has_waited { 2 * u64::from(self.far.wanted()) } else { 0 };
        let long = whole(Pages(run / LONG_DENOM));
        let least = whole(Pages(u64::from(LEAST)));
        let wanted = meanwhile.max(grown).max(long).max(least).min(bounds.ceiling.0);
        self.far = FarDemand::new(question.device, small(Pages(wanted)));
    }

    /// Returns true if the reader seems to have left: it was idle for several times the period that
    /// its prefetched pages last, or for several requests. The queue depth is divided among active
    /// readers; a reader that returns counts again with its first question.
    pub(super) fn has_left_far(&self, now: Nanos) -> bool {
        let away_ns = now.0.saturating_sub(self.at.0);
        let lifetime_ns = self.speed.ns_of(Pages(u64::from(self.ahead))).unwrap_or(0);
        let least_ns = self.far_latency_ns.saturating_mul(MARGIN);
        away_ns > lifetime_ns.max(least_ns).saturating_mul(IDLE_LIFETIMES)
    }

    /// Returns its window next to the other streams of its device.
    pub(super) fn far_window(&self, devices: &FarDevices, ceiling: Pages) -> Option<u32> {
        let is_far = self.far.wanted() > 0;
        is_far.then(|| small(Pages(devices.part(self.far, self.read, ceiling.0))))
    }
}

impl FarDevices {
    /// Returns the largest first window of a stream on a remote device: one request; or two reads,
    /// if they are larger and the other streams leave enough.
    pub(super) fn first_window(&self, question: &Question<'_>) -> Option<Pages> {
        let Question { device, ask, ref bounds, .. } = *question;
        if !bounds.is_far {
            return None;
        }
        let reads = Pages(ask.count.0.saturating_mul(FIRST_READS)).min(bounds.ceiling);
        let newcomer = FarDemand::new(device, small(reads));
        let all = self.wanted(device) + reads.0;
        let part = newcomer.part_of(all, small(ask.count), bounds.ceiling.0);
        Some(Pages(part).max(bounds.max_unstalled))
    }
}

/// Reads in a first window: the one that the reader waits for, and the next.
const FIRST_READS: u64 = 2;

/// A 32nd of the pages read may be wasted: 3 %, the same limit as with known run lengths.
const LONG_DENOM: u64 = 32;
