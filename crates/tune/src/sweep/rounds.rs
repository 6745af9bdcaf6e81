//! Rounds: which windows are read again.
//!
//! In:    the curve so far.
//! Out:   the windows of the next round, shuffled; none if there is nothing left to learn.
//! Never: a reading for a window that is surely below the line, or behind one that is surely not.

use foreread_core::units::Bytes;

use super::fall::fall;
use super::{Burst, Run};
use crate::plateau::{Curve, Standing};
use crate::probe::Stopped;

impl Run<'_> {
    /// Rounds of all windows, or of every second, until each has `least` readings.
    pub(super) fn first_rounds(&mut self, least: usize) -> Result<(), Stopped> {
        for _ in 0..least {
            let windows = self.base();
            let missing = |window: &Bytes| self.readings_of(*window) < least;
            let missing: Vec<Bytes> = windows.into_iter().filter(missing).collect();
            if missing.is_empty() || !self.round_of(missing)? {
                break;
            }
        }
        Ok(())
    }

    /// Rounds of those windows that still matter.
    pub(super) fn last_rounds(&mut self) -> Result<(), Stopped> {
        let (mut next, mut fitted) = (Vec::new(), 0);
        loop {
            // The more there is, the less does one round change.
            if self.taken.len() * 8 >= fitted * 9 + 8 || fitted == 0 {
                self.notices_fall()?;
                if self.is_all_cached() {
                    return Ok(());
                }
                next = self.that_matter();
                fitted = self.taken.len();
            }
            let mut round = next.clone();
            self.add_reference(&mut round);
            if next.is_empty() || !self.round_of(round)? {
                return Ok(());
            }
        }
    }

    /// One round; false if there was no time for any of it.
    fn round_of(&mut self, mut windows: Vec<Bytes>) -> Result<bool, Stopped> {
        self.round += 1;
        self.rng.shuffle(&mut windows);
        if self.burst.is_some() {
            // What uses credit comes first, while there is none.
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

    /// The windows that each sweep begins with.
    fn base(&self) -> Vec<Bytes> {
        if !self.is_quick() {
            return self.windows.clone();
        }
        let every_second = self.windows.iter().rev().step_by(2).copied();
        let mut base: Vec<Bytes> = every_second.chain(self.windows.first().copied()).collect();
        base.sort_unstable();
        base.dedup();
        base
    }

    /// How many readings each window gets.
    pub(super) fn least(&self) -> usize {
        if self.is_quick() { 2 } else { 3 }
    }

    fn readings_of(&self, window: Bytes) -> usize {
        self.taken.iter().filter(|taken| taken.window == window).count()
    }

    /// Whether every window that it began with was read.
    pub(super) fn is_complete(&self) -> bool {
        !self.windows.is_empty() && self.base().iter().all(|window| self.readings_of(*window) > 0)
    }

    /// What the next round consists of: the largest window, with which all are compared, and those
    /// beside the line of which nobody knows yet on which side they are.
    fn that_matter(&self) -> Vec<Bytes> {
        let base = self.base();
        let too_few = |window: &&Bytes| self.readings_of(**window) < self.least();
        let missing: Vec<Bytes> = base.iter().filter(too_few).copied().collect();
        if !missing.is_empty() {
            return missing;
        }
        let curve = Curve::of(&self.counted());
        let Some(plateau) = curve.plateau() else { return Vec::new() };
        let standings = curve.standings();
        let known = || curve.points.iter().zip(&standings);
        let at = |window: Bytes| self.windows.iter().position(|one| *one == window).unwrap_or(0);
        let chosen = at(plateau.window);
        let mut open: Vec<Bytes> = known()
            .filter(|(point, standing)| {
                // Those far above only matter once those below have turned out to be too slow.
                **standing == Standing::Open && at(point.window) <= chosen + 1
            })
            .map(|(point, _)| point.window)
            .collect();
        // Who was read least is known least, and could turn out to be the one.
        open.sort_by_key(|window| (self.readings_of(*window), at(*window).abs_diff(chosen)));
        open.truncate(AT_ONCE);
        // What was left out at first, from the last that is surely below the line on.
        let below = known().rfind(|(point, standing)| {
            **standing == Standing::Below && point.window < plateau.window
        });
        let from = below.map_or(Bytes(0), |(point, _)| point.window);
        let untried = self.windows.iter().copied().filter(|window| {
            *window > from && *window < plateau.high && self.readings_of(*window) < self.least()
        });
        let mut next: Vec<Bytes> = untried.collect();
        next.append(&mut open);
        next.sort_unstable();
        next.dedup();
        next
    }

    /// Adds what the open windows are compared with. The largest window is in each comparison, and
    /// often the dearest: what its neighbours say of it is nearly as good. Those that cost no more
    /// than others come each time, the dear ones take turns, and the open windows are then read
    /// twice beside one of them.
    fn add_reference(&self, next: &mut Vec<Bytes>) {
        let cheap_ns = 2.0 * next.iter().map(|one| self.cost_ns(*one)).fold(f64::MAX, f64::min);
        let top = self.windows.iter().rev().take(TOP).copied();
        let (cheap, dear): (Vec<Bytes>, Vec<Bytes>) =
            top.partition(|window| self.cost_ns(*window) <= cheap_ns);
        if !dear.is_empty() {
            next.extend_from_within(..);
            next.push(dear[self.round as usize % dear.len()]);
        }
        // The largest stands for itself, so it comes twice where that costs nothing.
        next.extend(cheap.first());
        next.extend(cheap);
    }

    /// Looks whether the largest window has got slower for good. Then there was credit that the
    /// look did not see, or somebody else came; either way what was read before is of another
    /// device.
    fn notices_fall(&mut self) -> Result<(), Stopped> {
        let Some(largest) = self.windows.last().copied() else { return Ok(()) };
        if self.burst.is_some() || self.left_ns() < 0.15 * self.settings.aim.as_nanos() as f64 {
            return Ok(());
        }
        let of_largest: Vec<_> =
            self.taken.iter().filter(|taken| taken.window == largest && !taken.is_again).collect();
        let speeds: Vec<f64> = of_largest.iter().map(|taken| taken.mb_per_s).collect();
        // A few stalls in a row are no end of anything.
        let side = (speeds.len() / 6).max(4);
        let Some(found) = fall(&speeds, SURER, side) else { return Ok(()) };
        let seconds = of_largest[found.index].at.0.saturating_sub(self.began.0) as f64 / 1e9;
        let fast = found.fast;
        let Some(slow) = self.stays_below(largest, found)? else { return Ok(()) };
        self.found(Burst { fast, slow, seconds, is_back: false });
        Ok(())
    }
}

/// So many windows are looked at in one round: the time of the sweep is for those that decide.
const AT_ONCE: usize = 3;

/// So many of the largest windows are the reference.
const TOP: usize = 5;

/// A fall among readings of a whole run: it is looked for again and again, and one found by chance
/// would throw them away.
const SURER: f64 = 6.0;
