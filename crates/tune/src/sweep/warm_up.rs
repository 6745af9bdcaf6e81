//! How fast the device is, and whether it stays so.
//!
//! In:    streams with growing windows, then a long one with the largest.
//! Out:   the windows that take part; the [`Burst`], if there is one.
//! Never: a reading that counts.
//!
//! Storage with a token bucket (cloud disks, rate filters) saves credit while little is asked of
//! it, and pays it out at full speed: 2 s of its rate is usual. A measurement that never reads so
//! long sees a device that does not exist.

use std::time::Duration;

use foreread_core::units::ByteCount;

use super::step::{WINDOWS_MIN, late, nanos, whole};
use super::throttle::{SpeedDrop, speed_drop};
use super::{Burst, SweepActivity, SweepRun};
use crate::plateau::robust::median;
use crate::probe::{ProbeSample, SampleSlice, SequentialRead, Stopped};

impl SweepRun<'_> {
    /// Short streams with windows as large as what was seen so far allows, until the largest that
    /// fits the time is reached. Says how fast the fastest was, in MB/s.
    ///
    /// A slow device could not even fill its largest window within a look, and a fast one says
    /// nothing with its smallest: so it goes upwards.
    pub(super) fn climb(&mut self) -> Result<f64, Stopped> {
        let mut window = self.settings.smallest;
        let patience = if self.is_quick() { 700 } else { 2_000 };
        let (mut fastest, mut reached) = (0.0_f64, None);
        loop {
            let ask = SequentialRead {
                window,
                at_least: ByteCount(window.0 * 3),
                time: Duration::from_millis(30),
                at_most: Duration::from_millis(patience),
            };
            let sample = self.read(ask, SweepActivity::Climbing(window))?;
            if sample.bytes().0 == 0 {
                break;
            }
            reached = Some(window);
            fastest = fastest.max(sample.mb_per_s());
            // A device that lives on credit is soon much slower than it looks: with a smaller
            // window first, that is found out before a large one takes seconds to fill.
            let (sight, largest) = (self.largest_at(fastest / CAUTION), self.largest_at(fastest));
            window = match (sight > window, largest > window) {
                (true, _) => sight,
                (false, true) => largest,
                (false, false) => break,
            };
        }
        if reached.is_none() {
            return Err(Stopped::Failed(format!(
                "three reads of {} KiB take more than {patience} ms: too slow to measure",
                window.0 / 1024
            )));
        }
        self.take_part(fastest);
        Ok(fastest)
    }

    /// Reads on with the largest window, long enough to see burst credit end.
    pub(super) fn look(&mut self) -> Result<(), Stopped> {
        let Some(largest) = self.largest else { return Ok(()) };
        let sight = self.largest_at(self.speed(largest) / CAUTION);
        let (at_sight, at_largest) = (self.speed(sight), self.speed(largest));
        // The climb may have used up the credit that we are looking for. While the smallest window
        // is read, it comes back.
        let slow = self.settings.smallest;
        if self.speed(slow) < 0.7 * at_largest {
            self.stream(slow, self.settings.look() / 8)?;
        }
        // What is saved may be gone in no time, so the first stream is short, and both are compared
        // with what the climb saw of the same window.
        let short = self.stream(sight, 2 * CONFIRM)?;
        if self.finds_burst(sight, at_sight, &short)? {
            return Ok(());
        }
        let long = self.stream(largest, self.settings.look())?;
        let is_again = long.read_before.0 * 2 > long.bytes().0;
        if !(is_again && self.is_cached(largest, long.mb_per_s())) {
            self.finds_burst(largest, at_largest, &long)?;
        }
        Ok(())
    }

    /// Whether a stream fell, or was slow all along where this window had been fast before.
    fn finds_burst(
        &mut self,
        window: ByteCount,
        before: f64,
        stream: &ProbeSample,
    ) -> Result<bool, Stopped> {
        let speeds: Vec<f64> = stream.slices.iter().map(speed).collect();
        let now = median(&mut speeds[speeds.len() / 2..].to_vec());
        let all_along = SpeedDrop { fast: before, slow: now, index: 0 };
        let all_along = (before > DEEP * now).then_some(all_along);
        let Some(found) = speed_drop(&speeds, SURE, 2).or(all_along) else { return Ok(false) };
        let Some(slow) = self.stays_below(window, found)? else { return Ok(false) };
        let ns: u64 = stream.slices[..found.index].iter().map(|slice| slice.ns).sum();
        let seconds = ns as f64 / 1e9 + BRIEF.as_secs_f64();
        self.found(Burst { fast: found.fast, slow, seconds, is_back: true });
        Ok(true)
    }

    /// Whether it is still slow after a fall, and how slow: a stall ends, credit that is gone is
    /// gone.
    pub(super) fn stays_below(
        &mut self,
        largest: ByteCount,
        found: SpeedDrop,
    ) -> Result<Option<f64>, Stopped> {
        let mut slow = Vec::new();
        for _ in 0..2 {
            let now = late(&self.stream(largest, CONFIRM)?);
            if now > (found.fast * found.slow).sqrt() {
                return Ok(None);
            }
            slow.push(now);
        }
        Ok(Some(median(&mut slow)))
    }

    /// From now on only what is sustained counts.
    pub(super) fn found(&mut self, burst: Burst) {
        self.taken.clear();
        for known in self.known.values_mut() {
            known.mb_per_s = known.mb_per_s.min(burst.slow);
        }
        self.burst = Some(burst);
        self.is_drained = burst.is_back;
        self.take_part(burst.slow);
    }

    /// Reads with the largest window until the device has nothing saved. If it does not get slow
    /// again, it never was credit.
    pub(super) fn drain(&mut self) -> Result<(), Stopped> {
        let (Some(mut burst), Some(largest)) = (self.burst, self.largest) else {
            return Ok(());
        };
        if self.is_drained {
            return Ok(());
        }
        let most_ns = (1.5 * burst.seconds.min(4.0) + 1.2) * 1e9;
        let began_ns = self.elapsed_ns();
        while self.elapsed_ns() - began_ns < most_ns {
            let ask = SequentialRead {
                window: largest,
                at_least: ByteCount(largest.0 * 3),
                time: Duration::from_millis(300),
                at_most: Duration::from_millis(1_500),
            };
            if self.left_ns() < self.cost_ns(largest) {
                return Ok(());
            }
            let sample = self.read(ask, SweepActivity::Draining)?;
            let is_fast =
                |slice: &SampleSlice| speed(slice) > f64::midpoint(burst.fast, burst.slow);
            burst.is_back |= sample.slices.iter().filter(|slice| is_fast(slice)).count() > 1;
            self.is_drained = late(&sample) <= 1.08 * burst.slow;
            if self.is_drained {
                self.burst = Some(burst);
                return Ok(());
            }
        }
        self.was_no_credit();
        Ok(())
    }

    /// The device was slow for a while, for another reason than that it had used up its credit.
    pub(super) fn was_no_credit(&mut self) {
        let Some(burst) = self.burst.take() else { return };
        self.notes.push(format!(
            "for a while it delivered {:.1} instead of {:.1} MB/s: another process was reading or \
             writing",
            burst.slow, burst.fast
        ));
        self.fast_again = 0;
        self.take_part(burst.fast);
    }

    /// The windows up to the largest that fits a step at this speed.
    fn take_part(&mut self, mb_per_s: f64) {
        let largest = self.largest_at(mb_per_s);
        let double = |window: &ByteCount| Some(ByteCount(window.0 * 2));
        let all = std::iter::successors(Some(self.settings.smallest), double);
        self.windows = all.take_while(|window| *window <= largest).collect();
        self.largest = Some(largest);
        // The window in force is compared with what would take its place, so it takes part if a
        // step of it fits at all, in the time and on the device.
        let step_ns = (WINDOWS_MIN + 2.0) * 1e3 / mb_per_s.max(1e-6);
        let is_short = |now: &ByteCount| {
            now.0 as f64 * step_ns <= NOW_SHARE * self.settings.aim.as_nanos() as f64
        };
        let now = self.settings.now.filter(|now| self.settings.fits(*now));
        self.windows.extend(now.filter(|now| *now <= largest || is_short(now)));
        self.windows.sort_unstable();
        self.windows.dedup();
    }

    /// The largest window of which a few fit the time of a step. On a slow device a step may take
    /// longer, as long as four rounds fit the sweep: else it would end below the plateau.
    fn largest_at(&self, mb_per_s: f64) -> ByteCount {
        let moved = self.settings.step_ns() * mb_per_s / 1e3;
        let by_step = moved / (WINDOWS_MIN + 2.0);
        // All windows together are twice the largest: ten times it a round.
        let by_round = (moved * 42.0 * 0.7 / 4.0 / 10.0).min(ENOUGH.0 as f64);
        let fits = whole(by_step.max(by_round)).max(self.settings.smallest.0);
        ByteCount((1 << fits.ilog2()).min(self.settings.largest.0))
    }

    fn stream(&mut self, window: ByteCount, time: Duration) -> Result<ProbeSample, Stopped> {
        let at_least = ByteCount(window.0 * 3);
        let slack = nanos(2.0 * self.cost_ns(window)) + Duration::from_millis(500);
        let ask = SequentialRead { window, at_least, time, at_most: time + slack };
        self.read(ask, SweepActivity::DetectingThrottle)
    }
}

fn speed(slice: &SampleSlice) -> f64 {
    slice.bytes.0 as f64 * 1e3 / (slice.ns as f64).max(1.0)
}

/// A fall has to be so many standard errors deep to be one.
const SURE: f64 = 4.0;

/// Two streams that differ by so much differ by more than noise.
const DEEP: f64 = 1.25;

/// What a device with credit delivers later may be so many times less than at first.
const CAUTION: f64 = 8.0;

/// One step of the window in force may take so much of the time, if it is larger than the largest.
const NOW_SHARE: f64 = 1.0 / 20.0;

/// Credit that was gone before the first look at it.
const BRIEF: Duration = Duration::from_millis(300);

/// How long it is watched, twice, before a fall is believed.
const CONFIRM: Duration = Duration::from_millis(600);

/// Slow devices need no larger windows: of the published ones with less than 1 MB/s the plateau is
/// at 64 KiB.
const ENOUGH: ByteCount = ByteCount(256 << 10);
