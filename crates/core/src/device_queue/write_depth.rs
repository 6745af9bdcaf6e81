//! The adaptive write-depth limit: the number of writes a device may have in flight along with
//! reads. Schedulers that want no limit get none.
//!
//! ```text
//!   reads             R  R  R            .. hold .. |                     R
//!   writes allowed    parallel - 1, at least 1      | parallel + 2        | parallel - 1
//!   a flush waits                        parallel + 1, and more with each write
//! ```
//!
//! Design and figures: docs/design/deadline.md, "Learnt write-depth limit".

use crate::device_model::DeviceEstimator;
use crate::sched::Op;
use crate::units::Nanos;

/// State of the limit, apart from the device's model.
#[derive(Debug, Default)]
pub(super) struct WriteDepthLimiter {
    /// Requests at the device, by direction.
    in_flight: [u32; 2],
    expired: [u64; 2],
    /// End of the last read, if it was recent.
    read_ended: Option<Nanos>,
    /// Time until which writes are held back for a read that may follow the last one.
    held_until: Option<Nanos>,
    /// Number of requests that have ended.
    ended: u64,
    /// Writes that have ended since a read was last dispatched or ended.
    unread: u32,
    calibrations: [Calibration; 2],
    probe: DepthProbe,
}

/// State of a device when a limit is needed.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteDemand {
    /// Queued reads.
    pub(super) queued_reads: usize,
    /// Time after a read within which the next one is expected.
    pub(super) hold_ns: u64,
    /// True if a caller waits for writes, as a flush does.
    pub(super) is_awaited: bool,
}

/// Calibration: a period in which requests of one direction are dispatched alone, to measure their
/// cost.
///
/// ```text
///   cost needed, and outdated     8 came alone, or 32 ended      100 times as long, or 1 s
///   |------- calibration ---------|------------------------------|---- ..
///   writes are dispatched only to an idle device; while reads are calibrated, none is dispatched
/// ```
///
/// Without calibration, nothing is learnt about a device that is never idle. A device that became
/// slower under load would seem to serve fewer requests at once, and its limit would keep falling.
#[derive(Clone, Copy, Debug, Default)]
struct Calibration {
    /// The current calibration, if one is in progress.
    since: Option<CalibrationStart>,
    /// Earliest start of the next one.
    next: Nanos,
    /// Number of samples when the cost was last known to be fresh.
    samples: u64,
}

#[derive(Clone, Copy, Debug)]
struct CalibrationStart {
    at: Nanos,
    samples: u64,
    ended: u64,
}

/// Probing: a period in which a few more writes than usual are dispatched along with reads, to find
/// out whether the device serves them.
///
/// Without it, a device in mixed use never has more requests than it is thought to serve, and could
/// not show that it serves more.
#[derive(Clone, Copy, Debug, Default)]
struct DepthProbe {
    /// Start of the current probe, if one is in progress.
    since: Option<Nanos>,
    /// The lower bound of the parallelism, and the number of ended requests, when the bound last
    /// rose. A lower bound afterwards means that the device has changed.
    min_parallel: u32,
    ended: u64,
    /// Earliest start of the next probe.
    next: Nanos,
}

impl WriteDepthLimiter {
    /// Records a dispatch; `is_expired` if the request had expired.
    pub(super) fn sent(&mut self, op: Op, is_expired: bool) {
        self.expired[op as usize] += u64::from(is_expired);
        self.in_flight[op as usize] += 1;
        if op == Op::Read {
            self.unread = 0;
        }
    }

    /// Records the end of a request.
    pub(super) fn ended(&mut self, now: Nanos, op: Op) {
        let in_flight = &mut self.in_flight[op as usize];
        *in_flight = in_flight.checked_sub(1).expect("a request that ends was sent");
        self.ended += 1;
        match op {
            Op::Read => (self.read_ended, self.unread) = (Some(now), 0),
            Op::Write => self.unread = self.unread.saturating_add(1),
        }
    }

    /// Returns the number of requests of a direction at the device.
    pub(super) fn in_flight(&self, op: Op) -> u32 {
        self.in_flight[op as usize]
    }

    /// Returns the number of requests of a direction that were dispatched because they had expired.
    pub(super) fn expired(&self, op: Op) -> u64 {
        self.expired[op as usize]
    }

    /// Returns the time until which writes are held back for an expected read.
    pub(super) fn held_until(&self) -> Option<Nanos> {
        self.held_until
    }

    /// Stops holding writes back until [`Self::limit`] sets a new hold.
    pub(super) fn clear_hold(&mut self) {
        self.held_until = None;
    }

    /// Returns the number of writes that the device may have now; `depth` is its queue depth.
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
            // A calibration would make the flush wait for one write at a time.
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

    /// Determines whether reads are queued or in flight, or have just ended.
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

    /// Returns true while requests of this direction are calibrated; starts and ends calibrations.
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
                // Requests already in flight have to end before one can be alone.
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
        // While the load consists of sizes with unknown cost, nothing else can be learnt.
        let pause_ns = if estimator.is_blind() {
            took_ns.saturating_mul(CALIBRATION_DENOM_BLIND)
        } else {
            took_ns.saturating_mul(CALIBRATION_DENOM).max(CALIBRATION_EVERY_NS)
        };
        let next = Nanos(now.0.saturating_add(pause_ns.min(CALIBRATION_PAUSE_MOST_NS)));
        *calibration = Calibration { since: None, next, samples };
        false
    }

    /// Returns true while more writes than usual are dispatched along with reads.
    fn is_probing(&mut self, now: Nanos, estimator: &DeviceEstimator) -> bool {
        let (min_parallel, ended) = (estimator.min_parallel(), self.ended);
        let probe = &mut self.probe;
        let Some(since) = probe.since else {
            // Without a known cost, a probe teaches nothing.
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

/// Reads of a device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ReadsAround {
    /// Reads are queued or in flight.
    Present,
    /// The last one ended less than a hold ago, and none is present.
    Expected,
    None,
}

/// Current rule for dispatching writes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum WriteDepthMode {
    /// Reads are present or expected, and their cost has to be measured.
    ReadsAlone,
    /// The cost of writes has to be measured.
    WritesAlone,
    /// Reads are present or expected.
    Beside,
    /// Reads are present or expected, and more writes than usual are tried.
    Probing,
    /// No read is present, a caller waits for writes, and `unread` writes have ended since the last
    /// read.
    Awaited { unread: u32 },
    /// No reads are present or expected.
    NoReads,
}

/// Returns the number of writes that a device may have.
///
/// ```text
///   reads                bound - 1, not below 1         probing: bound + a quarter
///   a caller waits       bound + 1, + 1 for each write since the last read: at most + 15
///   no reads             bound + 2
///   calibration          of reads: none                 of writes: one, if the device is idle
/// ```
///
/// The bound is the number of requests that the device serves at once at least. With reads, one
/// fewer leaves room for the next read; on a device that serves one at a time, the read waits for
/// one write. Without reads, two more: one so that the device never idles between requests, and one
/// so that it can show that it serves more. When probing, a quarter more, plus the read, is enough
/// to see that some requests wait.
///
/// A write that a caller waits for is not held back for an expected read, because the waiting
/// thread is often the one that reads next. A chain of dependent reads returns before many writes
/// have ended, so it waits for few of them; a flush without reads soon has them all in flight.
fn limit(mode: WriteDepthMode, min_parallel: u32, depth: u32, in_flight: [u32; 2]) -> u32 {
    let [reads, writes] = in_flight;
    assert!(min_parallel > 0, "a device serves at least one request at a time");
    // The last slot of the device is reserved for a read.
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

/// Returns the number of new samples; a changed device restarts the count.
const fn came_since(samples: u64, before: u64) -> u64 {
    if samples >= before { samples - before } else { samples }
}

/// Enough samples for a model.
const CALIBRATION_SAMPLES: u64 = 8;

/// If this many requests have ended without enough of them being alone, other requests keep the
/// device busy, and a later calibration may find fewer.
const CALIBRATION_ENDED: u64 = 32;

/// Estimating the parallelism takes 16 requests, and the first of them were dispatched before.
const PROBE_ENDED: u64 = 48;

/// Additional rounds of requests, each as large as the parallelism: eight, and some to get there.
const PROBE_ROUNDS: u64 = 12;

/// Probing takes at most a twentieth of the time, during which reads cost a quarter and one request
/// more.
const PROBE_DENOM: u64 = 20;

/// Extra writes that a read may find at the device when it arrives during a flush, after a period
/// without reads; on a device with one head it waits for 15 service times, once.
const UNREAD_MOST: u32 = 14;

/// Maximum age of a cost. A device changes when a cache fills or burst credits end, within seconds.
const CALIBRATION_EVERY_NS: u64 = 1_000_000_000;

/// Upper limit of a pause: a calibration includes idle times and flushes, which may take hours.
const CALIBRATION_PAUSE_MOST_NS: u64 = 600_000_000_000;

/// Calibration takes at most a hundredth of the time.
const CALIBRATION_DENOM: u64 = 100;

/// While nothing can be learnt without calibration, it takes at most a tenth of the time.
const CALIBRATION_DENOM_BLIND: u64 = 10;

#[cfg(test)]
mod tests {
    use super::{DeviceEstimator, Nanos, Op, WriteDemand, WriteDepthLimiter};

    /// The device is unknown, so the cost of reads has to be measured, and then that of writes.
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
