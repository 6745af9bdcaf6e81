//! One step: a stream with one window, as long as needed and no longer.
//!
//! In:    the window; what is known of its speed.
//! Out:   a reading, the time that it took.
//! Never: a step that begins after the aim, or could end after the budget.

use std::time::Duration;

use foreread_core::units::ByteCount;

use super::{StepReading, SweepActivity, SweepProgress, SweepRun, WindowEstimate};
use crate::probe::{ProbeSample, SequentialRead, Stopped};

impl SweepRun<'_> {
    /// Reads with this window; false if there is no time left for it.
    pub(super) fn step(&mut self, window: ByteCount) -> Result<bool, Stopped> {
        let needed_ns = self.cost_ns(window);
        if needed_ns > self.left_ns() {
            return Ok(false);
        }
        let speed = self.speed(window);
        let stretch = self.stretch(window);
        let wanted = speed * stretch.as_nanos() as f64 / 1e3;
        let count = (wanted / window.0 as f64).clamp(WINDOWS_MIN, WINDOWS_MAX);
        // Even, because the kernel asks for the next window while the last is on its way: where the
        // device serves two at once they arrive in pairs, and an odd one is too cheap or too dear.
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
            // It counts once the credit is gone; until then it is one that uses credit.
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

    /// Reads as asked, within the budget, and keeps speed and cost.
    pub(super) fn read(
        &mut self,
        mut ask: SequentialRead,
        doing: SweepActivity,
    ) -> Result<ProbeSample, Stopped> {
        self.tell(doing);
        self.streams += 1;
        // A stream takes time, so the budget ends a sweep; what answers without any would not.
        if self.streams > STREAMS_MAX + self.settings.budget.as_millis() / STREAM_MS_MIN {
            return Err(Stopped::Failed("streams end at once, with nothing read".into()));
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

    /// What is left until the aim.
    pub(super) fn left_ns(&self) -> f64 {
        self.settings.aim.as_nanos() as f64 - self.elapsed_ns()
    }

    /// What a step with this window may take at the most. A window that is on its way is waited
    /// for, so that much less.
    fn last_ns(&self, window: ByteCount) -> f64 {
        let budget = self.settings.budget.as_nanos() as f64 * 0.97;
        let in_flight = 2.0 * window.0 as f64 * 1e3 / self.speed(window).max(1e-6);
        (budget - self.elapsed_ns() - in_flight).max(1e6)
    }

    /// What a step with this window costs, with what its stream needs to get going.
    pub(super) fn cost_ns(&self, window: ByteCount) -> f64 {
        let least = self.stretch(window).as_nanos() as f64;
        if let Some(known) = self.known.get(&window) {
            let all = (WINDOWS_MIN + 2.0) * window.0 as f64 * 1e3 / known.mb_per_s;
            return all.max(least).max(known.cost_ns.min(2.0 * (all + least)));
        }
        let all = (WINDOWS_MIN + 2.0) * window.0 as f64 * 1e3 / self.speed(window);
        all.max(least * 1.2)
    }

    /// What it delivered last; before that, what lies between its neighbours.
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

    /// How long a step has to last. With burst credit about, longer: while its stream got going the
    /// device saved some, and that has to be gone by half of it.
    fn stretch(&self, window: ByteCount) -> Duration {
        if self.uses_credit(window) {
            return if self.is_quick() { BURST_STRETCH / 2 } else { BURST_STRETCH };
        }
        STRETCH
    }

    /// Whether this is more than the device sustains: what it saved while less was asked of it.
    fn is_on_credit(&self, mb_per_s: f64) -> bool {
        self.burst.is_some_and(|burst| mb_per_s > ON_CREDIT * burst.slow)
    }

    /// What it delivered was credit: all that is known is that it could use some.
    fn sustained_at_most(&mut self, window: ByteCount) {
        if let (Some(burst), Some(known)) = (self.burst, self.known.get_mut(&window)) {
            known.mb_per_s = burst.slow;
        }
    }

    /// Whether credit would make this window faster than it is.
    pub(super) fn uses_credit(&self, window: ByteCount) -> bool {
        self.burst.is_some_and(|burst| self.speed(window) >= CREDIT_SHARE * burst.slow)
    }
}

/// The speed of the second half of a sample, by time.
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

/// A count that was computed.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
pub(super) fn whole(count: f64) -> u64 {
    count as u64
}

/// A step of this length is short enough for hundreds of them, and long beside what it takes to
/// ask for one.
const STRETCH: Duration = Duration::from_millis(50);

/// A sweep has no more streams than one every so many milliseconds,
const STREAM_MS_MIN: u128 = 5;

/// and so many that may be shorter.
const STREAMS_MAX: u128 = 1000;

/// Used-up credit does not come back while the device is being read. A device that is fast again
/// this often was slowed down by another process.
const FAST_AGAIN: u32 = 3;

const BURST_STRETCH: Duration = Duration::from_millis(400);

/// Fewer windows say too little: the reader waits for the first and not for the last, or the other
/// way round.
pub(super) const WINDOWS_MIN: f64 = 3.0;

/// What can be asked for at once has a bound, however small the window.
const WINDOWS_MAX: f64 = 1e6;

/// MB/s of a device of which nothing is known.
const SPEED_UNKNOWN: f64 = 1.0;

/// A window that is slower than this share of the sustained speed leaves credit to grow.
const CREDIT_SHARE: f64 = 0.9;

/// What is faster than sustained by more than this is no noise.
const ON_CREDIT: f64 = 1.2;
