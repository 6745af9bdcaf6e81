//! Measures the device's speed, and tests whether it sustains it. Its readings do not count.
//!
//! Storage with a token bucket (cloud disks, rate filters) saves credit under light load and spends
//! it at full speed; 2 s of its rate is usual. A measurement that never reads that long sees a
//! device that does not exist.

use std::time::Duration;

use foreread_core::units::ByteCount;

use super::step::{WINDOWS_MIN, late, nanos, whole};
use super::throttle::{SpeedDrop, speed_drop};
use super::{Burst, SweepActivity, SweepRun};
use crate::plateau::robust::median;
use crate::probe::{ProbeSample, SampleSlice, SequentialRead, Stopped};

impl SweepRun<'_> {
    /// Reads short streams with growing windows, as large as the speed so far allows, up to the
    /// largest that fits the time. Returns the highest speed, in MB/s.
    ///
    /// It grows because a slow device could not even fill its largest window in this time, and the
    /// smallest window reveals nothing about a fast one.
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
            // A device on credit soon becomes much slower. A smaller window first reveals that
            // before a large one takes seconds to fill.
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
        // The climb may have drained the credit. It recovers while the smallest window is read.
        let slow = self.settings.smallest;
        if self.speed(slow) < 0.7 * at_largest {
            self.stream(slow, self.settings.look() / 8)?;
        }
        // Credit may be gone at once, so the first stream is short, and both are compared with the
        // climb's speed for the same window.
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

    /// Detects a stream that dropped, or one that was slow throughout although this window had been
    /// fast.
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

    /// Returns the speed if it is still slow after a drop: a stall ends, but drained credit does
    /// not return.
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

    /// Records a burst; from now on only sustained speed counts.
    pub(super) fn found(&mut self, burst: Burst) {
        self.taken.clear();
        for known in self.known.values_mut() {
            known.mb_per_s = known.mb_per_s.min(burst.slow);
        }
        self.burst = Some(burst);
        self.is_drained = burst.is_back;
        self.take_part(burst.slow);
    }

    /// Reads with the largest window until the device has no credit left. If it does not become
    /// slow again, there never was credit.
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

    /// Discards the burst: the device was slow for a while for another reason.
    pub(super) fn was_no_credit(&mut self) {
        let Some(burst) = self.burst.take() else { return };
        self.notes.push(format!(
            "for a while the device delivered {:.1} instead of {:.1} MB/s: another process was \
             using it",
            burst.slow, burst.fast
        ));
        self.fast_again = 0;
        self.take_part(burst.fast);
    }

    /// Selects the windows up to the largest that fits a step at this speed.
    fn take_part(&mut self, mb_per_s: f64) {
        let largest = self.largest_at(mb_per_s);
        let double = |window: &ByteCount| Some(ByteCount(window.0 * 2));
        let all = std::iter::successors(Some(self.settings.smallest), double);
        self.windows = all.take_while(|window| *window <= largest).collect();
        self.largest = Some(largest);
        // The window in force is compared with its replacement, so it participates if one step of
        // it fits the time and the device at all.
        let step_ns = (WINDOWS_MIN + 2.0) * 1e3 / mb_per_s.max(1e-6);
        let is_short = |now: &ByteCount| {
            now.0 as f64 * step_ns <= NOW_SHARE * self.settings.aim.as_nanos() as f64
        };
        let now = self.settings.now.filter(|now| self.settings.fits(*now));
        self.windows.extend(now.filter(|now| *now <= largest || is_short(now)));
        self.windows.sort_unstable();
        self.windows.dedup();
    }

    /// Returns the largest window of which a few fit the time of a step. On a slow device a step
    /// may take longer, as long as four rounds fit the sweep: otherwise it would end below the
    /// plateau.
    fn largest_at(&self, mb_per_s: f64) -> ByteCount {
        let moved = self.settings.step_ns() * mb_per_s / 1e3;
        let by_step = moved / (WINDOWS_MIN + 2.0);
        // All windows together are twice the largest: ten times it in each round.
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

/// Standard errors by which a drop has to exceed noise.
const SURE: f64 = 4.0;

/// Ratio of two streams that exceeds noise.
const DEEP: f64 = 1.25;

/// A device with credit may later deliver this many times less than at first.
const CAUTION: f64 = 8.0;

/// Share of the time for one step of the window in force, if it is larger than the largest.
const NOW_SHARE: f64 = 1.0 / 20.0;

/// Assumed duration of credit that was exhausted before the first test.
const BRIEF: Duration = Duration::from_millis(300);

/// Duration of each of the two confirmations of a drop.
const CONFIRM: Duration = Duration::from_millis(600);

/// Slow devices need no larger windows: for published ones below 1 MB/s the plateau is at 64 KiB.
const ENOUGH: ByteCount = ByteCount(256 << 10);
