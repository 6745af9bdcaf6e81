//! An expired read goes soon: within so many dispatches of its device, whatever else is queued.
//!
//! In:    the log of a run, the settings of a device's `deadline`.
//! Out:   nothing; a panic if a read waited longer.
//! Never: a bound where there is none: `writes_starved = 0` may starve reads for ever.
//!
//! Expiry is looked at when a batch begins, and the oldest read that has expired begins it. So,
//! with batches of at most `b` requests and `k` older reads that wait too:
//!
//! ```text
//!   expired                                                  writes_starved = 2, k = 3
//!      |.. rest | W | R: oldest | R | W | R | R: ours
//!       b - 1     b       b       b   b   b       0          dispatches before ours
//!
//!   the rest of the batch that is under way                                 b - 1
//!   a batch of reads for each that is older                                 k b
//!   writes_starved = s > 0: batches of writes, one for s of reads           (1 + k / s) b
//!   writes_starved = -s:    batches of writes, s for one of reads           (k + 1) s b
//! ```
//!
//! The same for all three rules: what counts as one is a request under 4.x and mq, and its cost
//! under 2002, which is at least 1; there `now > expiry` instead of `>=`, and what was moved to the
//! dispatch queue is the rest of a batch, twice if a limit of writes in flight held one back.

use foreread_core::sched::deadline::{DeadlineRule, DeadlineSettings, WriteLimit};
use foreread_core::sched::{Op, SchedulerKind};
use foreread_core::units::Nanos;

use super::log::Log;
use super::scenario::DeviceShape;

/// What is promised of a device.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    settings: DeadlineSettings,
}

/// How many expired reads there were, by rule, and how near the nearest came to its bound.
#[derive(Debug, Default)]
pub(crate) struct Met {
    expired: [u64; 3],
    /// In percent of the bound.
    nearest: [u64; 3],
}

impl Met {
    pub(crate) fn add(&mut self, other: &Self) {
        for rule in 0..self.expired.len() {
            self.expired[rule] += other.expired[rule];
            self.nearest[rule] = self.nearest[rule].max(other.nearest[rule]);
        }
    }

    /// A bound that no read meets proves nothing, and one that none comes near proves little.
    pub(crate) fn check(&self) {
        assert!(self.expired.iter().all(|count| *count >= 50), "{self:?}");
        assert!(self.nearest.iter().all(|percent| *percent >= 60), "{self:?}");
    }
}

impl Limit {
    /// None if nothing is promised: another scheduler, settings that changed meanwhile, classes
    /// that go first, or reads that wait for reads in flight.
    pub(crate) fn of(device: &DeviceShape, turns_knobs: bool) -> Option<Self> {
        let SchedulerKind::Deadline(settings) = &device.scheduler else { return None };
        let is_promised = !turns_knobs
            && !device.has_classes
            && settings.writes_starved != 0
            && settings.reads_in_flight == 0;
        is_promised.then(|| Self { settings: settings.clone() })
    }

    /// How many may be dispatched before an expired read that has so many before it.
    fn dispatches(&self, older: u64) -> u64 {
        let batch = u64::from(self.settings.fifo_batch.max(1));
        let starved = u64::from(self.settings.writes_starved.unsigned_abs());
        let has_limit = self.settings.writes_in_flight != WriteLimit::Fixed(0);
        let is_held_back = self.settings.rule == DeadlineRule::R2002 && has_limit;
        let of_writes = if self.settings.writes_starved > 0 {
            1 + older / starved
        } else {
            (older + 1) * starved
        };
        (batch - 1) + (older + of_writes + u64::from(is_held_back)) * batch
    }

    fn has_expired(&self, arrival: Nanos, now: Nanos) -> bool {
        let expiry = arrival.0 + self.settings.read_expire_ms * 1_000_000;
        if self.settings.rule == DeadlineRule::R2002 { now.0 > expiry } else { now.0 >= expiry }
    }
}

/// Counts for each direct read what was dispatched after it had expired and before it went.
pub(crate) fn check(log: &Log, device: u32, limit: &Limit, met: &mut Met) {
    let dispatches: Vec<_> =
        (0..log.dispatches.len()).filter(|&index| log.dispatches[index].device == device).collect();
    let reads: Vec<_> =
        log.directs.iter().filter(|it| it.device == device && it.op == Op::Read).collect();
    for (number, read) in reads.iter().enumerate() {
        let own = read.dispatch.expect("checked before");
        let late = dispatches.iter().filter(|&&index| {
            let at = log.dispatches[index].at;
            (read.came_after..own).contains(&index) && limit.has_expired(read.arrival, at)
        });
        let late: Vec<_> = late.copied().collect();
        let Some(&first) = late.first() else { continue };
        // Of the cache's reads the log does not tell how old they are: any of them may be older.
        let cached = late.iter().filter(|&&index| {
            let dispatch = &log.dispatches[index];
            dispatch.op == Op::Read && !dispatch.is_direct
        });
        let older = reads[..number].iter().filter(|it| it.dispatch.is_some_and(|it| it >= first));
        let older = (cached.count() + older.count()) as u64;
        let (waited, bound) = (late.len() as u64, limit.dispatches(older));
        assert!(
            waited <= bound,
            "{waited} went before an expired read, at most {bound} may: {read:?}, {older} older, \
             {limit:?}"
        );
        let rule = limit.settings.rule as usize;
        met.expired[rule] += 1;
        met.nearest[rule] = met.nearest[rule].max(waited * 100 / bound.max(1));
    }
}
