//! Selects the windows of each round, in shuffled order; none if no open question is left.
//!
//! A window that is surely below the threshold is not read again, nor one beyond a window that is
//! surely above.

use foreread_core::units::ByteCount;

use super::throttle::speed_drop;
use super::{Burst, SweepEnd, SweepRun};
use crate::plateau::{Certainty, Curve, MeasuredWindow, Standing};
use crate::probe::Stopped;

impl SweepRun<'_> {
    /// Reads all windows, or every second, until each has `least` readings.
    pub(super) fn first_rounds(&mut self, least: usize) -> Result<(), Stopped> {
        for _ in 0..least {
            let windows = self.base();
            let missing = |window: &ByteCount| self.readings_of(*window) < least;
            let missing: Vec<ByteCount> = windows.into_iter().filter(missing).collect();
            if missing.is_empty() || !self.round_of(missing)? {
                break;
            }
        }
        Ok(())
    }

    /// Reads the windows that still matter.
    pub(super) fn last_rounds(&mut self) -> Result<(), Stopped> {
        let (mut next, mut fitted) = (Vec::new(), 0);
        loop {
            // The more readings there are, the less a round changes.
            if self.taken.len() * 8 >= fitted * 9 + 8 || fitted == 0 {
                self.notices_fall()?;
                if self.is_all_cached() {
                    self.ended = SweepEnd::NothingFresh;
                    return Ok(());
                }
                next = self.that_matter();
                fitted = self.taken.len();
            }
            if next.is_empty() {
                self.ended = SweepEnd::Settled;
                return Ok(());
            }
            let mut round = next.clone();
            self.add_reference(&mut round);
            if !self.round_of(round)? {
                self.ended = SweepEnd::OutOfTime;
                return Ok(());
            }
        }
    }

    /// Reads one round; returns false if there was no time for any of it.
    fn round_of(&mut self, mut windows: Vec<ByteCount>) -> Result<bool, Stopped> {
        self.round += 1;
        self.rng.shuffle(&mut windows);
        if self.burst.is_some() {
            // Windows that use credit come first, while there is none.
            windows.sort_by_key(|window| !self.uses_credit(*window));
            if windows.first().is_some_and(|window| self.uses_credit(*window)) {
                self.drain()?;
            }
        }
        let mut is_any = false;
        for window in windows {
            is_any |= self.step(window)?;
        }
        Ok(is_any)
    }

    /// Returns the initial windows of a sweep.
    pub(super) fn base(&self) -> Vec<ByteCount> {
        if !self.is_quick() {
            return self.windows.clone();
        }
        let doubling = self.windows.iter().rev().filter(|window| window.0.is_power_of_two());
        let doubling = doubling.filter(|window| Some(**window) <= self.largest);
        let now = self.settings.now.filter(|now| self.windows.contains(now));
        let ends = self.windows.first().copied().into_iter().chain(now);
        let mut base: Vec<ByteCount> = doubling.step_by(2).copied().chain(ends).collect();
        base.sort_unstable();
        base.dedup();
        base
    }

    /// Returns the planned number of readings for each window.
    pub(super) fn least(&self) -> usize {
        if self.is_quick() { 2 } else { 3 }
    }

    fn readings_of(&self, window: ByteCount) -> usize {
        self.taken.iter().filter(|taken| taken.window == window).count()
    }

    /// Returns the number of initial windows with the planned number of readings, and the number of
    /// initial windows.
    pub(super) fn plan(&self) -> (usize, usize) {
        let base = self.base();
        let is_read = |window: &&ByteCount| self.readings_of(**window) >= self.least();
        (base.iter().filter(is_read).count(), base.len())
    }

    /// Returns whether every initial window was read.
    pub(super) fn is_complete(&self) -> bool {
        !self.windows.is_empty() && self.base().iter().all(|window| self.readings_of(*window) > 0)
    }

    /// Returns the windows of the next round, without the reference:
    ///
    /// ```text
    ///   windows whose side of the 98 % line is open, and skipped ones in between
    ///   the one that could be better than the reference
    ///   the one in force and its replacement, until the cost of the change is certain
    /// ```
    fn that_matter(&mut self) -> Vec<ByteCount> {
        let base = self.base();
        let too_few = |window: &&ByteCount| self.readings_of(**window) < self.least();
        let missing: Vec<ByteCount> = base.iter().filter(too_few).copied().collect();
        if !missing.is_empty() {
            return missing;
        }
        let curve = Curve::of(&self.counted());
        let Some(plateau) = curve.plateau() else { return Vec::new() };
        self.best = curve.best();
        let standings = curve.standings();
        let known = || curve.points.iter().zip(&standings);
        let at =
            |window: ByteCount| self.windows.iter().position(|one| *one == window).unwrap_or(0);
        let chosen = at(plateau.window);
        let mut open: Vec<ByteCount> = known()
            .filter(|(point, standing)| {
                // Windows far above matter only once those below have turned out too slow.
                **standing == Standing::Open && at(point.window) <= chosen + 1
            })
            .map(|(point, _)| point.window)
            .collect();
        // The window with the fewest readings is the least certain, and could turn out to be the
        // plateau.
        open.sort_by_key(|window| (self.readings_of(*window), at(*window).abs_diff(chosen)));
        open.truncate(AT_ONCE);
        // Windows skipped at first, from the last that is surely below the threshold on.
        let below = known().rfind(|(point, standing)| {
            **standing == Standing::Below && point.window < plateau.window
        });
        let from = below.map_or(ByteCount(0), |(point, _)| point.window);
        let untried = self.windows.iter().copied().filter(|window| {
            *window > from && *window < plateau.high && self.readings_of(*window) < self.least()
        });
        let mut next: Vec<ByteCount> = untried.collect();
        next.append(&mut open);
        next.extend(curve.contender());
        next.extend(self.change_that_is_open(&curve, plateau.window));
        next.sort_unstable();
        next.dedup();
        next
    }

    /// Returns the window in force and its replacement, while it is uncertain that the replacement
    /// keeps the throughput: otherwise it will not be set.
    fn change_that_is_open(&self, curve: &Curve, chosen: ByteCount) -> Vec<ByteCount> {
        let measured = |window: ByteCount| curve.at(window).map(MeasuredWindow::from);
        let Some(now) = self.settings.now.filter(|now| *now != chosen) else { return Vec::new() };
        match (measured(chosen), measured(now)) {
            (Some(new), Some(old)) if new.keeps(&old, self.bias(curve)) == Certainty::Unknown => {
                vec![chosen, now]
            }
            _ => Vec::new(),
        }
    }

    /// Returns the relative difference that windows may show although they sustain the same speed.
    /// On a device with credit, a stream starts with the credit saved during a slow predecessor. On
    /// a device with drifting speed, a window with another bottleneck does not follow the drift.
    pub(super) fn bias(&self, curve: &Curve) -> f64 {
        let of_drift = DRIFT_BIAS * curve.drift().unwrap_or(0.0);
        if self.burst.is_some() { CREDIT_BIAS.max(of_drift) } else { of_drift }
    }

    /// Adds the reference for the open windows. The best window is part of each comparison and
    /// often expensive, but its smaller neighbours estimate it nearly as well. Those that cost no
    /// more than others join each round. The expensive ones alternate, and the open windows are
    /// then read twice in a round with one of them.
    fn add_reference(&self, next: &mut Vec<ByteCount>) {
        let cheap_ns = 2.0 * next.iter().map(|one| self.cost_ns(*one)).fold(f64::MAX, f64::min);
        let best = self.best.or(self.largest);
        let upto_best = self.windows.iter().rev().filter(|window| Some(**window) <= best);
        let top = upto_best.take(TOP).copied();
        let (cheap, dear): (Vec<ByteCount>, Vec<ByteCount>) =
            top.partition(|window| self.cost_ns(*window) <= cheap_ns);
        if !dear.is_empty() {
            next.extend_from_within(..);
            next.push(dear[self.round as usize % dear.len()]);
        }
        // The best window is the reference itself, so it is read twice if that is cheap.
        next.extend(cheap.first());
        next.extend(cheap);
    }

    /// Detects whether the largest window has become slower and stays so. Then the device had
    /// credit that the warm-up missed, or other work began; in both cases earlier readings describe
    /// a different device.
    fn notices_fall(&mut self) -> Result<(), Stopped> {
        let Some(largest) = self.largest else { return Ok(()) };
        if self.burst.is_some() || self.left_ns() < 0.15 * self.settings.aim.as_nanos() as f64 {
            return Ok(());
        }
        let of_largest: Vec<_> =
            self.taken.iter().filter(|taken| taken.window == largest && !taken.is_again).collect();
        let speeds: Vec<f64> = of_largest.iter().map(|taken| taken.mb_per_s).collect();
        // A few stalls in a row are not a fall.
        let side = (speeds.len() / 6).max(4);
        let Some(found) = speed_drop(&speeds, SURER, side) else { return Ok(()) };
        let seconds = of_largest[found.index].at.0.saturating_sub(self.began.0) as f64 / 1e9;
        let fast = found.fast;
        let Some(slow) = self.stays_below(largest, found)? else { return Ok(()) };
        self.found(Burst { fast, slow, seconds, is_back: false });
        Ok(())
    }
}

/// Open windows in one round: the time is spent on those that decide.
const AT_ONCE: usize = 3;

/// From the simulator: a window below the rate of a token bucket seems up to 10 % faster than one
/// that has exhausted its credit.
const CREDIT_BIAS: f64 = 0.12;

/// Share of the device's drift that may remain between two windows.
const DRIFT_BIAS: f64 = 0.25;

/// Number of windows up to the best that form the reference.
const TOP: usize = 5;

/// Required certainty of a fall within a whole run. The test repeats, and a false detection would
/// discard all readings.
const SURER: f64 = 6.0;
