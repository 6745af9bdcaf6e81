//! One step: a stream with one window, as short as the measurement allows. No step begins after the
//! aim, or could end after the budget.

use std::time::Duration;

use foreread_core::units::ByteCount;

use super::{StepReading, SweepActivity, SweepProgress, SweepRun, WindowEstimate};
use crate::probe::{ProbeSample, SequentialRead, Stopped};

impl SweepRun<'_> {
    /// Reads with this window; returns false if there is no time left for it.
    pub(super) fn step(&mut self, window: ByteCount) -> Result<bool, Stopped> {
        let needed_ns = self.cost_ns(window);
        if needed_ns > self.left_ns() {
            return Ok(false);
        }
        let speed = self.speed(window);
        let stretch = self.stretch(window);
        let wanted = speed * stretch.as_nanos() as f64 / 1e3;
        let count = (wanted / window.0 as f64).clamp(WINDOWS_MIN, WINDOWS_MAX);
        // An even number, because the kernel requests the next window while the last is in flight.
        // If the device serves two in parallel they arrive in pairs, and an odd one would bias the
        // time.
        let amount = window.0.saturating_mul(2 * whole((count / 2.0).ceil()));
        let ask = SequentialRead {
            window,
            at_least: ByteCount(amount.min((self.settings.size.0 / 4).max(window.0))),
            time: if self.burst.is_some() { stretch } else { Duration::ZERO },
            at_most: nanos(needed_ns * 4.0) + Duration::from_millis(300),
        };
        let sample = self.read(ask, SweepActivity::Window(window))?;
        let mb_per_s = match self.burst {
            Some(_) if self.uses_credit(window) => late(&sample),
            _ => sample.mb_per_s(),
        };
        if self.is_on_credit(mb_per_s) {
            self.fast_again += u32::from(self.is_drained && self.uses_credit(window));
            let is_late = self.left_ns() < 0.5 * self.settings.aim.as_nanos() as f64;
            if self.fast_again >= FAST_AGAIN || (is_late && self.taken.is_empty()) {
                self.was_no_credit();
                return Ok(true);
            }
            // It counts once the credit is drained; until then this window may use credit.
            self.is_drained = false;
            self.sustained_at_most(window);
            return Ok(true);
        }
        if sample.bytes().0 > 0 && mb_per_s > 0.0 {
            let is_again = sample.read_before.0 * 2 > sample.bytes().0;
            let at = self.probe.now();
            self.taken.push(StepReading { window, round: self.round, mb_per_s, at, is_again });
        }
        self.is_drained &= self.uses_credit(window);
        Ok(true)
    }

    /// Executes a read within the budget, and updates speed and cost.
    pub(super) fn read(
        &mut self,
        mut ask: SequentialRead,
        doing: SweepActivity,
    ) -> Result<ProbeSample, Stopped> {
        self.tell(doing);
        self.streams += 1;
        // The budget ends a sweep because streams take time; this limit catches those that take
        // none.
        if self.streams > STREAMS_MAX + self.settings.budget.as_millis() / STREAM_MS_MIN {
            return Err(Stopped::Failed("streams end at once, without reading anything".into()));
        }
        ask.at_most = ask.at_most.min(nanos(self.last_ns(ask.window)));
        let began = self.probe.now();
        let sample = self.probe.sequential(&ask)?;
        let cost_ns = self.probe.now().0.saturating_sub(began.0) as f64;
        if sample.bytes().0 > 0 {
            self.known.insert(ask.window, WindowEstimate { mb_per_s: sample.mb_per_s(), cost_ns });
        }
        Ok(sample)
    }

    pub(super) fn tell(&mut self, doing: SweepActivity) {
        let (seconds, of) = (self.elapsed_ns() / 1e9, self.settings.aim.as_secs_f64());
        (self.tell)(SweepProgress { seconds, of, doing });
    }

    pub(super) fn elapsed_ns(&self) -> f64 {
        self.probe.now().0.saturating_sub(self.began.0) as f64
    }

    /// Returns the time left until the aim.
    pub(super) fn left_ns(&self) -> f64 {
        self.settings.aim.as_nanos() as f64 - self.elapsed_ns()
    }

    /// Returns the longest time for a step with this window. A window in flight is waited for, so
    /// its time is subtracted.
    fn last_ns(&self, window: ByteCount) -> f64 {
        let budget = self.settings.budget.as_nanos() as f64 * 0.97;
        let in_flight = 2.0 * window.0 as f64 * 1e3 / self.speed(window).max(1e-6);
        (budget - self.elapsed_ns() - in_flight).max(1e6)
    }

    /// Returns the predicted cost of a step with this window, including the ramp-up of its stream.
    pub(super) fn cost_ns(&self, window: ByteCount) -> f64 {
        let least = self.stretch(window).as_nanos() as f64;
        if let Some(known) = self.known.get(&window) {
            let all = (WINDOWS_MIN + 2.0) * window.0 as f64 * 1e3 / known.mb_per_s;
            return all.max(least).max(known.cost_ns.min(2.0 * (all + least)));
        }
        let all = (WINDOWS_MIN + 2.0) * window.0 as f64 * 1e3 / self.speed(window);
        all.max(least * 1.2)
    }

    /// Returns its last speed, or an interpolation between its neighbours.
    pub(super) fn speed(&self, window: ByteCount) -> f64 {
        if let Some(known) = self.known.get(&window) {
            return known.mb_per_s;
        }
        let below = self.known.range(..window).next_back();
        let above = self.known.range(window..).next();
        match (below, above) {
            (Some((low, slow)), Some((high, fast))) => {
                let share =
                    (window.0 as f64 / low.0 as f64).ln() / (high.0 as f64 / low.0 as f64).ln();
                slow.mb_per_s * (fast.mb_per_s / slow.mb_per_s).powf(share)
            }
            (Some((_, one)), None) | (None, Some((_, one))) => one.mb_per_s,
            (None, None) => SPEED_UNKNOWN,
        }
    }

    /// Returns the duration of a step. With burst credit it is longer: the device saved some during
    /// the ramp-up, and that has to be gone by half of the step.
    fn stretch(&self, window: ByteCount) -> Duration {
        if self.uses_credit(window) {
            return if self.is_quick() { BURST_STRETCH / 2 } else { BURST_STRETCH };
        }
        STRETCH
    }

    /// Returns whether this exceeds the sustained speed, so that it uses credit saved during a
    /// slower load.
    fn is_on_credit(&self, mb_per_s: f64) -> bool {
        self.burst.is_some_and(|burst| mb_per_s > ON_CREDIT * burst.slow)
    }

    /// Records that its speed was credit: all that is known is that it may use some.
    fn sustained_at_most(&mut self, window: ByteCount) {
        if let (Some(burst), Some(known)) = (self.burst, self.known.get_mut(&window)) {
            known.mb_per_s = burst.slow;
        }
    }

    /// Returns whether credit would make this window appear faster than it is.
    pub(super) fn uses_credit(&self, window: ByteCount) -> bool {
        self.burst.is_some_and(|burst| self.speed(window) >= CREDIT_SHARE * burst.slow)
    }
}

/// Returns the speed of the second half of a sample, by time.
pub(super) fn late(sample: &ProbeSample) -> f64 {
    let half = sample.ns() / 2;
    let (mut passed, mut bytes, mut ns) = (0, 0, 0);
    for slice in &sample.slices {
        passed += slice.ns;
        if passed > half {
            bytes += slice.bytes.0;
            ns += slice.ns;
        }
    }
    bytes as f64 * 1e3 / (ns as f64).max(1.0)
}

pub(super) fn nanos(ns: f64) -> Duration {
    Duration::from_nanos(whole(ns.min(1e12)))
}

/// Converts a computed count.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
pub(super) fn whole(count: f64) -> u64 {
    count as u64
}

/// Short enough for hundreds of steps, and long compared with the overhead of a request.
const STRETCH: Duration = Duration::from_millis(50);

/// Minimum average duration of a stream.
const STREAM_MS_MIN: u128 = 5;

/// Number of streams that may be shorter.
const STREAMS_MAX: u128 = 1000;

/// Drained credit does not return while the device is being read. A device that is fast again this
/// often was slowed down by another process.
const FAST_AGAIN: u32 = 3;

const BURST_STRETCH: Duration = Duration::from_millis(400);

/// Fewest windows of a sample; with fewer it is biased: the reader waits for the first but not for
/// the last, or vice versa.
pub(super) const WINDOWS_MIN: f64 = 3.0;

/// Upper limit of windows in one request, however small they are.
const WINDOWS_MAX: f64 = 1e6;

/// Assumed MB/s of an unknown device.
const SPEED_UNKNOWN: f64 = 1.0;

/// A window slower than this share of the sustained speed lets credit grow.
const CREDIT_SHARE: f64 = 0.9;

/// A speed above the sustained one by this factor is not noise.
const ON_CREDIT: f64 = 1.2;
