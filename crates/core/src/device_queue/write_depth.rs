//! The adaptive write-depth limit: how many writes a device may have beside reads.
//!
//! In:    what a device is doing, its model, whether reads are around.
//! Out:   a limit for its scheduler; when that will change by time alone.
//! Never: a limit for a scheduler that does not ask for one.
//!
//! ```text
//!   reads             R  R  R            .. hold .. |                     R
//!   writes allowed    parallel - 1, at least 1      | parallel + 2        | parallel - 1
//!   a flush waits                        parallel + 1, and more with each write
//! ```
//!
//! Design and figures: docs/deadline.md, "Learnt write-depth limit".

use crate::device_model::DeviceEstimator;
use crate::sched::Op;
use crate::units::Nanos;

/// What a limit follows from, beside the device's model.
#[derive(Debug, Default)]
pub(super) struct WriteDepthLimiter {
    /// At the device, by direction.
    in_flight: [u32; 2],
    expired: [u64; 2],
    /// When the last read ended, if that is not long ago.
    read_ended: Option<Nanos>,
    /// Until when writes are held back because a read has ended and none came since.
    held_until: Option<Nanos>,
    /// How many requests have ended.
    ended: u64,
    /// How many writes have ended since a read was last sent or ended.
    unread: u32,
    calibrations: [Calibration; 2],
    probe: DepthProbe,
}

/// What is asked of a device when a limit is wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteDemand {
    /// How many reads wait for it.
    pub(super) queued_reads: usize,
    /// How long after a read the next one is expected.
    pub(super) hold_ns: u64,
    /// Whether a caller waits for writes, as a flush does.
    pub(super) is_awaited: bool,
}

/// Calibration: a time in which requests of one direction go alone, to measure their cost.
///
/// ```text
///   wanted, and cost is old       8 came alone, or 32 ended      a hundred times as long, or 1 s
///   |------- calibration ---------|------------------------------|---- ..
///   a write goes only to an idle device; while reads are calibrated, no write goes
/// ```
///
/// Without it nothing is learnt of a device that is never idle, and a device that became slower
/// under load would look as if it served fewer at once: its limit would fall, and fall again.
#[derive(Clone, Copy, Debug, Default)]
struct Calibration {
    /// The present one, or None.
    since: Option<CalibrationStart>,
    /// Not before then is the next one.
    next: Nanos,
    /// How many samples there were when it was last known that the cost is not old.
    samples: u64,
}

#[derive(Clone, Copy, Debug)]
struct CalibrationStart {
    at: Nanos,
    samples: u64,
    ended: u64,
}

/// Probing: a time in which a few more writes than usual go beside reads, to see whether the
/// device serves them.
///
/// Beside reads there are never more requests than the device was thought to serve: it could not
/// show that it serves more.
#[derive(Clone, Copy, Debug, Default)]
struct DepthProbe {
    /// When the present one began, if there is one.
    since: Option<Nanos>,
    /// What was known, and how many requests had ended, when it last learnt something. If less is
    /// known afterwards, the device has changed.
    min_parallel: u32,
    ended: u64,
    /// Not before then is the next one.
    next: Nanos,
}

impl WriteDepthLimiter {
    /// A request went to the device; `is_expired` if it had waited for too long.
    pub(super) fn sent(&mut self, op: Op, is_expired: bool) {
        self.expired[op as usize] += u64::from(is_expired);
        self.in_flight[op as usize] += 1;
        if op == Op::Read {
            self.unread = 0;
        }
    }

    /// A request has ended.
    pub(super) fn ended(&mut self, now: Nanos, op: Op) {
        let in_flight = &mut self.in_flight[op as usize];
        *in_flight = in_flight.checked_sub(1).expect("a request that ends was sent");
        self.ended += 1;
        match op {
            Op::Read => (self.read_ended, self.unread) = (Some(now), 0),
            Op::Write => self.unread = self.unread.saturating_add(1),
        }
    }

    /// How many requests of a direction are at the device.
    pub(super) fn in_flight(&self, op: Op) -> u32 {
        self.in_flight[op as usize]
    }

    /// How many requests of a direction went because they had waited for too long.
    pub(super) fn expired(&self, op: Op) -> u64 {
        self.expired[op as usize]
    }

    /// Until when writes are held back for a read that may come.
    pub(super) fn held_until(&self) -> Option<Nanos> {
        self.held_until
    }

    /// Writes are held back no more, until [`Self::limit`] says so again.
    pub(super) fn clear_hold(&mut self) {
        self.held_until = None;
    }

    /// How many writes the device may have now; `depth` is how many requests it takes.
    pub(super) fn limit(
        &mut self,
        now: Nanos,
        demand: WriteDemand,
        depth: u32,
        estimator: &mut DeviceEstimator,
    ) -> u32 {
        assert!(depth > 0, "a device works on at least one request at a time");
        let has_reads = match self.reads_around(now, demand) {
            ReadsAround::Present => true,
            ReadsAround::Expected => !demand.is_awaited,
            ReadsAround::None => false,
        };
        let mode = if has_reads && self.is_calibrating(now, Op::Read, estimator) {
            WriteDepthMode::ReadsAlone
        } else if demand.is_awaited && !has_reads {
            // Not while costs are learnt, either: one at a time is what a flush would wait for.
            WriteDepthMode::Awaited { unread: self.unread }
        } else if self.is_calibrating(now, Op::Write, estimator) {
            WriteDepthMode::WritesAlone
        } else if has_reads && self.is_probing(now, estimator) {
            WriteDepthMode::Probing
        } else if has_reads {
            WriteDepthMode::Beside
        } else {
            WriteDepthMode::NoReads
        };
        limit(mode, estimator.min_parallel(), depth, self.in_flight)
    }

    /// Whether reads wait, are at the device, or have just ended.
    fn reads_around(&mut self, now: Nanos, demand: WriteDemand) -> ReadsAround {
        if demand.queued_reads > 0 || self.in_flight[Op::Read as usize] > 0 {
            return ReadsAround::Present;
        }
        let held_until = |at: Nanos| Nanos(at.0.saturating_add(demand.hold_ns));
        self.held_until = self.read_ended.map(held_until);
        if self.held_until.is_some_and(|until| until <= now) {
            (self.read_ended, self.held_until) = (None, None);
        }
        if self.held_until.is_some() { ReadsAround::Expected } else { ReadsAround::None }
    }

    /// Whether requests of this direction go alone for a while.
    fn is_calibrating(&mut self, now: Nanos, op: Op, estimator: &mut DeviceEstimator) -> bool {
        let (samples, ended) = (estimator.samples(op), self.ended);
        let in_flight = self.in_flight.iter().sum::<u32>();
        let calibration = &mut self.calibrations[op as usize];
        let Some(since) = calibration.since else {
            if now < calibration.next {
                return false;
            }
            let is_fresh = came_since(samples, calibration.samples) >= CALIBRATION_SAMPLES;
            calibration.samples = samples;
            if is_fresh {
                calibration.next = Nanos(now.0.saturating_add(CALIBRATION_EVERY_NS));
            } else {
                // What is there must end before one can be alone.
                let ended = ended + u64::from(in_flight);
                calibration.since = Some(CalibrationStart { at: now, samples, ended });
                estimator.renew(op);
            }
            return !is_fresh;
        };
        let has_enough = came_since(samples, since.samples) >= CALIBRATION_SAMPLES;
        if !has_enough && ended.saturating_sub(since.ended) < CALIBRATION_ENDED {
            return true;
        }
        let took_ns = now.0.saturating_sub(since.at.0);
        // As long as the load is of sizes whose cost is unknown, nothing else can be learnt.
        let pause_ns = if estimator.is_blind() {
            took_ns.saturating_mul(CALIBRATION_DENOM_BLIND)
        } else {
            took_ns.saturating_mul(CALIBRATION_DENOM).max(CALIBRATION_EVERY_NS)
        };
        let next = Nanos(now.0.saturating_add(pause_ns.min(CALIBRATION_PAUSE_MOST_NS)));
        *calibration = Calibration { since: None, next, samples };
        false
    }

    /// Whether a few more than usual go beside reads.
    fn is_probing(&mut self, now: Nanos, estimator: &DeviceEstimator) -> bool {
        let (min_parallel, ended) = (estimator.min_parallel(), self.ended);
        let probe = &mut self.probe;
        let Some(since) = probe.since else {
            // What they cost must be known, or nothing is learnt.
            let is_due = now >= probe.next || min_parallel < probe.min_parallel;
            let begins = is_due && !estimator.is_blind();
            if begins {
                *probe = DepthProbe { since: Some(now), min_parallel, ended, next: now };
            }
            return begins;
        };
        if min_parallel > probe.min_parallel {
            (probe.min_parallel, probe.ended) = (min_parallel, ended);
        }
        debug_assert!(probe.ended <= ended, "requests that ended are only counted up");
        if ended - probe.ended < PROBE_ENDED + PROBE_ROUNDS * u64::from(min_parallel) {
            return true;
        }
        let took_ns = now.0.saturating_sub(since.0);
        let pause_ns = took_ns.saturating_mul(PROBE_DENOM).max(CALIBRATION_EVERY_NS);
        *probe = DepthProbe {
            since: None,
            min_parallel,
            ended,
            next: Nanos(now.0.saturating_add(pause_ns)),
        };
        false
    }
}

/// Whether a device is read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ReadsAround {
    /// Reads are queued, or at the device.
    Present,
    /// The last one ended less than a hold ago, and there is none now.
    Expected,
    None,
}

/// What goes for the moment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum WriteDepthMode {
    /// Reads are around, and their cost is wanted.
    ReadsAlone,
    /// The cost of writes is wanted.
    WritesAlone,
    /// Reads are around.
    Beside,
    /// Reads are around, and it is tried whether more than usual are served.
    Probing,
    /// No read is there, whether or not one may come, and a caller waits for writes; so many have
    /// ended since the last read.
    Awaited { unread: u32 },
    /// There are no reads.
    NoReads,
}

/// How many writes a device may have.
///
/// ```text
///   reads are around     at least - 1, not below 1      tried: at least + a quarter
///   a caller waits       at least + 1, + 1 for each write since the last read: at most + 15
///   no reads             at least + 2
///   a cost is wanted     of reads: none                 of writes: one, if the device is idle
/// ```
///
/// One less than it serves at once: a read that comes finds a way free. With one way there is none,
/// and the read waits for one write. Two more without reads: one so that a way never waits for
/// its next request, and one so that a device that serves more than was thought can show it. A
/// quarter more, with the read, are enough to see that some wait.
///
/// A write that a caller waits for is not held back for a read that may come: the thread that reads
/// next is often the one that waits. A chain of reads comes back before many writes have ended, and
/// so waits for few; a flush that no read interrupts soon has all its writes at the device.
fn limit(mode: WriteDepthMode, min_parallel: u32, depth: u32, in_flight: [u32; 2]) -> u32 {
    let [reads, writes] = in_flight;
    assert!(min_parallel > 0, "a device serves at least one request at a time");
    // The last place at the device is a read's.
    let beside = |most: u32| most.min(depth.saturating_sub(1)).max(1);
    match mode {
        WriteDepthMode::ReadsAlone => 0,
        WriteDepthMode::WritesAlone => writes + u32::from(reads + writes == 0),
        WriteDepthMode::Beside => beside(min_parallel - 1),
        WriteDepthMode::Probing => beside(min_parallel + min_parallel / 4),
        WriteDepthMode::Awaited { unread } => beside(min_parallel + 1 + unread.min(UNREAD_MOST)),
        WriteDepthMode::NoReads => min_parallel + 2,
    }
}

/// How many samples came; a device that changed begins to count anew.
const fn came_since(samples: u64, before: u64) -> u64 {
    if samples >= before { samples - before } else { samples }
}

/// As many as make a model.
const CALIBRATION_SAMPLES: u64 = 8;

/// If so many ended and still not enough were alone, others keep the device busy: a later
/// calibration may find fewer.
const CALIBRATION_ENDED: u64 = 32;

/// An estimate of how many are served needs sixteen, and the first of them were there before.
const PROBE_ENDED: u64 = 48;

/// And so many times what the device serves at once: eight rounds, and some to get there.
const PROBE_ROUNDS: u64 = 12;

/// Probing takes a twentieth of the time at most, and costs reads a quarter and one request then.
const PROBE_DENOM: u64 = 20;

/// What a read waits for that comes during a flush after a time without reads, beside what the
/// device serves at once: on one head 15 service times, once.
const UNREAD_MOST: u32 = 14;

/// How old a cost may be. A device changes when a cache fills or credits end, which takes seconds.
const CALIBRATION_EVERY_NS: u64 = 1_000_000_000;

/// A calibration includes the idle times and flushes that interrupt it, which may take hours.
const CALIBRATION_PAUSE_MOST_NS: u64 = 600_000_000_000;

/// Calibration takes a hundredth of the time at most.
const CALIBRATION_DENOM: u64 = 100;

/// A tenth, as long as nothing can be learnt without it.
const CALIBRATION_DENOM_BLIND: u64 = 10;

#[cfg(test)]
mod tests {
    use super::{DeviceEstimator, Nanos, Op, WriteDemand, WriteDepthLimiter};

    /// Nothing is known of the device, so that the cost of reads is wanted, and then of writes.
    #[test]
    fn an_awaited_write_gives_way_to_reads_that_are_there_only() {
        let (mut limiter, mut estimator) = (WriteDepthLimiter::default(), DeviceEstimator::new());
        limiter.sent(Op::Read, false);
        limiter.ended(Nanos(1000), Op::Read);
        let mut limit = |queued_reads, is_awaited| {
            let demand = WriteDemand { queued_reads, hold_ns: 50_000_000, is_awaited };
            limiter.limit(Nanos(2000), demand, 256, &mut estimator)
        };
        assert_eq!(limit(0, false), 0, "reads go alone until their cost is known");
        assert_eq!(limit(0, true), 2, "a flush does not wait for that");
        assert_eq!(limit(1, true), 0, "a read is there");
    }

    #[test]
    fn a_flush_gets_more_writes_the_longer_no_read_comes_and_few_after_each_read() {
        let (mut limiter, mut estimator) = (WriteDepthLimiter::default(), DeviceEstimator::new());
        let mut limit = |limiter: &mut WriteDepthLimiter| {
            let demand = WriteDemand { queued_reads: 0, hold_ns: 50_000_000, is_awaited: true };
            limiter.limit(Nanos(2000), demand, 256, &mut estimator)
        };
        let mut writes = |limiter: &mut WriteDepthLimiter, count: usize| {
            let one = |_| {
                limiter.sent(Op::Write, false);
                limiter.ended(Nanos(1000), Op::Write);
                limit(limiter)
            };
            (0..count).map(one).collect::<Vec<_>>()
        };
        let first = writes(&mut limiter, 40);
        assert_eq!((first[0], first[39]), (3, 16), "one more with each, up to the most");
        limiter.sent(Op::Read, false);
        limiter.ended(Nanos(1500), Op::Read);
        assert_eq!(writes(&mut limiter, 3), [3, 4, 5], "one more with each");
    }

    #[test]
    fn an_idle_hour_within_a_calibration_does_not_put_the_next_one_off_for_days() {
        let (mut limiter, mut estimator) = (WriteDepthLimiter::default(), DeviceEstimator::new());
        let demand = WriteDemand { queued_reads: 0, hold_ns: 0, is_awaited: false };
        let mut limit = |limiter: &mut WriteDepthLimiter, second: u64| {
            limiter.limit(Nanos(second * 1_000_000_000), demand, 256, &mut estimator)
        };
        assert_eq!(limit(&mut limiter, 0), 1, "the cost of writes is wanted");
        for _ in 0..32 {
            limiter.sent(Op::Write, false);
            limiter.ended(Nanos(3600 * 1_000_000_000), Op::Write);
        }
        let limits = [3600, 4100, 4200].map(|second| limit(&mut limiter, second));
        assert_eq!(limits, [3, 3, 1], "the next calibration is ten minutes later");
    }
}
