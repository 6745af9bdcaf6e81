//! How many writes a device may have: as many as leave room for reads, by what was learnt of it.
//!
//! In:    what a device is doing, what its completions told, whether reads are around.
//! Out:   a limit for its scheduler; when that will change by time alone.
//! Never: a limit for a scheduler that does not ask for one.
//!
//! ```text
//!   reads             R  R  R            .. hold .. |                     R
//!   writes allowed    parallel - 1, at least 1      | parallel + 2        | parallel - 1
//! ```
//!
//! Design and figures: docs/deadline.md, "Learnt".

use alloc::string::String;
use alloc::vec::Vec;

use super::{DeviceId, DeviceQueue, IoPath};
use crate::device_model::{DeviceEstimator, DeviceModel, ObservedSince, SentRequest};
use crate::sched::{BadSetting, Choice, Op, Origin, Why};
use crate::units::{ByteCount, Nanos, SECTORS_PER_PAGE, Sectors};

/// What a device is doing, and what is known of it.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceState {
    /// The name of its scheduler.
    pub scheduler: &'static str,
    /// Reads that wait to be sent; those that merged are one.
    pub queued_reads: u64,
    /// Writes that wait to be sent; those that merged are one.
    pub queued_writes: u64,
    /// Reads that it works on.
    pub in_flight_reads: u32,
    /// Writes that it works on.
    pub in_flight_writes: u32,
    /// How many writes it may have, set or learnt. None: no limit.
    pub write_limit: Option<u32>,
    /// Reads that went because they had waited for too long, so far.
    pub expired_reads: u64,
    /// Writes that went because they had waited for too long, so far.
    pub expired_writes: u64,
    /// How many requests it was seen to serve at once at least.
    pub at_least: u32,
    /// What reads cost, if enough is known.
    pub reads: Option<DeviceModel>,
    /// What writes cost, if enough is known.
    pub writes: Option<DeviceModel>,
}

/// What a limit follows from, beside the device's fit.
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
    looks: [Calibration; 2],
    tries: DepthProbe,
}

/// A time in which requests of one direction go alone, so that their cost is known.
///
/// ```text
///   wanted, and cost is old       8 came alone, or 32 ended      a hundred times as long, or 1 s
///   |---------- look -------------|------------------------------|---- ..
///   a write goes only to an idle device; while reads are looked at, no write goes
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

/// A time in which a few writes more than usual go beside reads, to see whether they are served.
///
/// Beside reads there are never more requests than the device was thought to serve: it could not
/// show that it serves more.
#[derive(Clone, Copy, Debug, Default)]
struct DepthProbe {
    /// When the present one began, if there is one.
    since: Option<Nanos>,
    /// What was known, and how many requests had ended, when it last learnt something. If less is
    /// known afterwards, the device has changed.
    at_least: u32,
    ended: u64,
    /// Not before then is the next one.
    next: Nanos,
}

impl WriteDepthLimiter {
    /// Reads wait, are at the device, or have just ended.
    fn has_reads(&mut self, now: Nanos, queued: usize, hold_ns: u64) -> bool {
        if queued > 0 || self.in_flight[Op::Read as usize] > 0 {
            return true;
        }
        self.held_until = self.read_ended.map(|at| Nanos(at.0.saturating_add(hold_ns)));
        if self.held_until.is_some_and(|until| until <= now) {
            (self.read_ended, self.held_until) = (None, None);
        }
        self.held_until.is_some()
    }

    /// Whether requests of this direction go alone for a while.
    fn is_looking(&mut self, now: Nanos, op: Op, fit: &mut DeviceEstimator) -> bool {
        let (samples, ended) = (fit.samples(op), self.ended);
        let in_flight = self.in_flight.iter().sum::<u32>();
        let look = &mut self.looks[op as usize];
        let Some(since) = look.since else {
            if now < look.next {
                return false;
            }
            let is_fresh = came_since(samples, look.samples) >= LOOK_SAMPLES;
            look.samples = samples;
            if is_fresh {
                look.next = Nanos(now.0.saturating_add(LOOK_EVERY_NS));
            } else {
                // What is there must end before one can be alone.
                let ended = ended + u64::from(in_flight);
                look.since = Some(CalibrationStart { at: now, samples, ended });
                fit.renew(op);
            }
            return !is_fresh;
        };
        let has_enough = came_since(samples, since.samples) >= LOOK_SAMPLES;
        if !has_enough && ended.saturating_sub(since.ended) < LOOK_ENDED {
            return true;
        }
        let took_ns = now.0.saturating_sub(since.at.0);
        // As long as the load is of sizes whose cost is unknown, nothing else can be learnt.
        let pause_ns = if fit.is_blind() {
            took_ns.saturating_mul(LOOK_SHARE_BLIND)
        } else {
            took_ns.saturating_mul(LOOK_SHARE).max(LOOK_EVERY_NS)
        };
        *look = Calibration { since: None, next: Nanos(now.0.saturating_add(pause_ns)), samples };
        false
    }

    /// Whether a few more than usual go beside reads.
    fn is_trying(&mut self, now: Nanos, fit: &DeviceEstimator) -> bool {
        let (at_least, ended) = (fit.at_least(), self.ended);
        let tries = &mut self.tries;
        let Some(since) = tries.since else {
            // What they cost must be known, or nothing is learnt.
            let is_due = now >= tries.next || at_least < tries.at_least;
            let begins = is_due && !fit.is_blind();
            if begins {
                *tries = DepthProbe { since: Some(now), at_least, ended, next: now };
            }
            return begins;
        };
        if at_least > tries.at_least {
            (tries.at_least, tries.ended) = (at_least, ended);
        }
        if ended - tries.ended < TRY_ENDED + TRY_ROUNDS * u64::from(at_least) {
            return true;
        }
        let took_ns = now.0.saturating_sub(since.0);
        let pause_ns = took_ns.saturating_mul(TRY_SHARE).max(LOOK_EVERY_NS);
        *tries = DepthProbe {
            since: None,
            at_least,
            ended,
            next: Nanos(now.0.saturating_add(pause_ns)),
        };
        false
    }
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
    Trying,
    /// There are no reads.
    NoReads,
}

/// How many writes a device may have.
///
/// ```text
///   reads are around     at least - 1, not below 1      tried: at least + a quarter
///   no reads             at least + 2
///   a cost is wanted     of reads: none                 of writes: one, if the device is idle
/// ```
///
/// One less than it serves at once: a read that comes finds a way free. With one way there is none,
/// and the read waits for one write. Two more without reads: one so that a way never waits for
/// its next request, and one so that a device that serves more than was thought can show it. A
/// quarter more, with the read, are enough to see that some wait.
fn limit(mode: WriteDepthMode, at_least: u32, depth: u32, in_flight: [u32; 2]) -> u32 {
    let [reads, writes] = in_flight;
    // The last place at the device is a read's.
    let beside = |most: u32| most.min(depth.saturating_sub(1)).max(1);
    match mode {
        WriteDepthMode::ReadsAlone => 0,
        WriteDepthMode::WritesAlone => writes + u32::from(reads + writes == 0),
        WriteDepthMode::Beside => beside(at_least - 1),
        WriteDepthMode::Trying => beside(at_least + at_least / 4),
        WriteDepthMode::NoReads => at_least + 2,
    }
}

/// How many samples came; a device that changed begins to count anew.
const fn came_since(samples: u64, before: u64) -> u64 {
    if samples >= before { samples - before } else { samples }
}

impl DeviceQueue {
    /// Tells the scheduler how many writes may go, if it wants to know.
    pub(super) fn limit_writes(&mut self, now: Nanos) {
        self.limiter.held_until = None;
        let Some(hold_ns) = self.queue.wants_limit() else { return };
        if self.queue.queued(Op::Write) == 0 {
            return;
        }
        let fit = self.fit.get_or_insert_default();
        let limiter = &mut self.limiter;
        let around = limiter.has_reads(now, self.queue.queued(Op::Read), hold_ns);
        let mode = if around && limiter.is_looking(now, Op::Read, fit) {
            WriteDepthMode::ReadsAlone
        } else if limiter.is_looking(now, Op::Write, fit) {
            WriteDepthMode::WritesAlone
        } else if around && limiter.is_trying(now, fit) {
            WriteDepthMode::Trying
        } else if around {
            WriteDepthMode::Beside
        } else {
            WriteDepthMode::NoReads
        };
        let limit = limit(mode, fit.at_least(), self.geometry.depth, limiter.in_flight);
        self.queue.limit_writes(Some(limit));
    }

    /// When its scheduler may give something although nothing came or ended: it waits for a time,
    /// or writes are held back for a read that does not come.
    pub(super) fn wake_at(&self) -> Option<Nanos> {
        let held_until = self.limiter.held_until.filter(|_| !self.queue.is_empty());
        self.queue.wake_at().into_iter().chain(held_until).min()
    }

    /// Whether a window that no reader waits for yet is better asked for later, when the device is
    /// idle: its cost is not known.
    pub(super) fn wants_it_alone(&self) -> bool {
        self.limiter.in_flight[Op::Read as usize] > 0 && self.useful.wants_them_alone()
    }

    /// A request was taken for the device.
    pub(super) fn sent(&mut self, now: Nanos, op: Op) -> SentRequest {
        let is_expired = self.queue.why() == Some(Why::Expired);
        self.limiter.expired[op as usize] += u64::from(is_expired);
        self.limiter.in_flight[op as usize] += 1;
        let fit = self.fit.get_or_insert_default();
        let sent = fit.dispatched(now, op, self.in_flight);
        self.in_flight += 1;
        sent
    }

    /// A request has completed; it still counts as in flight. Says whether something was learnt
    /// that other devices on its disk should know.
    pub(super) fn came_back(
        &mut self,
        now: Nanos,
        (origin, arrival): (Origin, Nanos),
        sent: SentRequest,
        result: Result<ByteCount, i32>,
        watched: Option<ObservedSince>,
    ) -> bool {
        self.queue.completed(now, origin, arrival);
        if let Some(fit) = &mut self.fit {
            fit.completed(now, sent, result.ok(), self.in_flight, watched);
        }
        self.limiter.in_flight[origin.op as usize] -= 1;
        self.limiter.ended += 1;
        if origin.op == Op::Write {
            return false;
        }
        self.limiter.read_ended = Some(now);
        // Each file of a disk that has only small ones would begin anew.
        let was_wanted = self.useful.wants_them_alone();
        self.useful.ended(now, arrival, sent.is_seen(now, watched));
        let fit = self.fit.as_ref();
        fit.is_some_and(|fit| self.useful.look(fit, &self.geometry)) || was_wanted
    }
}

impl IoPath {
    /// What a device is doing and what is known of it. None if it is gone.
    #[must_use]
    pub fn device_state(&self, device: DeviceId) -> Option<DeviceState> {
        let state = self.devices.get(device)?;
        let WriteDepthLimiter { in_flight, expired, .. } = state.limiter;
        let fit = |op| state.fit.as_ref().and_then(|fit| fit.fit_of(op));
        Some(DeviceState {
            scheduler: state.queue.tunables().0,
            queued_reads: state.queue.queued(Op::Read) as u64,
            queued_writes: state.queue.queued(Op::Write) as u64,
            in_flight_reads: in_flight[Op::Read as usize],
            in_flight_writes: in_flight[Op::Write as usize],
            write_limit: state.queue.write_limit(),
            expired_reads: expired[Op::Read as usize],
            expired_writes: expired[Op::Write as usize],
            at_least: state.fit.as_ref().map_or(1, |fit| fit.at_least()),
            reads: fit(Op::Read),
            writes: fit(Op::Write),
        })
    }

    /// The settings of a device's scheduler as they are now, its own name first. Each can be given
    /// to [`Self::set_scheduler`]. Of a device that is gone: none.
    #[must_use]
    pub fn scheduler_settings(&self, device: DeviceId) -> Vec<(&'static str, String)> {
        let Some(state) = self.devices.get(device) else { return Vec::new() };
        let (name, mut settings) = state.queue.tunables();
        settings.insert(0, ("scheduler", String::from(name)));
        settings
    }

    /// Gives a device another scheduler while it works: what is queued moves, with its age; what is
    /// at the device will end in the new one. The one that it has already stays as it is set.
    pub(super) fn exchange_scheduler(
        &mut self,
        device: DeviceId,
        name: &str,
    ) -> Result<(), BadSetting> {
        let choice = Choice::for_device(name)?;
        let Self { devices, flying, .. } = self;
        let Some(state) = devices.get_mut(device) else { return Ok(()) };
        if state.queue.tunables().0 == choice.name() {
            return Ok(());
        }
        let mut queue = choice.queue(Sectors(state.geometry.max_io.0 * SECTORS_PER_PAGE));
        for (_, flying) in flying.iter().filter(|(_, flying)| flying.device == device) {
            queue.adopt(flying.request.origin, flying.request.arrival);
        }
        let mut requests = state.queue.drain();
        requests.sort_by_key(|request| request.arrival);
        for request in requests {
            queue.add(request.arrival, request);
        }
        state.queue = queue;
        self.note_busy(device);
        Ok(())
    }
}

/// As many as make a fit.
const LOOK_SAMPLES: u64 = 8;

/// If so many ended and still not enough were alone, others keep the device busy: a look later may
/// find fewer.
const LOOK_ENDED: u64 = 32;

/// A look at how many are served needs sixteen, and the first of them were there before.
const TRY_ENDED: u64 = 48;

/// And so many times what the device serves at once: eight rounds, and some to get there.
const TRY_ROUNDS: u64 = 12;

/// A try takes a twentieth of the time at most, and costs reads a quarter and one request then.
const TRY_SHARE: u64 = 20;

/// How old a cost may be. A device changes when a cache fills or credits end, which takes seconds.
const LOOK_EVERY_NS: u64 = 1_000_000_000;

/// A look takes a hundredth of the time at most.
const LOOK_SHARE: u64 = 100;

/// A tenth, as long as nothing can be learnt without it.
const LOOK_SHARE_BLIND: u64 = 10;
