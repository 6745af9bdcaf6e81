//! The outcome of a sweep, complete or partial. A plateau is reported only if all planned windows
//! were tried.
//!
//! ```text
//!   every window read as often as planned? -- no --> Unfinished
//!   anything left that was not read before? - no --> NothingFresh    a cache below answers
//!   any window left whose side is open? ----- no --> Settled
//!                                        time is over --> OutOfTime  the interval says how sure
//! ```

use foreread_core::units::ByteCount;

use super::{Burst, SweepRun};
use crate::plateau::{Curve, CurvePoint, Plateau, Standing};
use crate::probe::Stopped;
use crate::report::{Latency, WindowResult};

/// End of a sweep that was not stopped.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum SweepEnd {
    /// Every question was answered.
    #[default]
    Settled,
    /// The time ran out after each window had the planned number of readings; the interval states
    /// the uncertainty.
    OutOfTime,
    /// The time ran out before that.
    Unfinished {
        /// Windows with the planned number of readings.
        read: usize,
        /// Planned windows.
        of: usize,
    },
    /// A cache below was detected, and no fresh range was left.
    NothingFresh,
}

/// Outcome of a sweep.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SweepOutcome {
    /// Duration in seconds.
    pub seconds: f64,
    /// Throughput by window, in ascending order.
    pub rows: Vec<WindowResult>,
    /// Rows of fresh ranges only; None if `rows` contain nothing else. A cache below can distort
    /// `rows`, but not these.
    pub fresh_rows: Option<Vec<WindowResult>>,
    /// Smallest sufficient window; None if the sweep was stopped before it was known.
    pub plateau: Option<Plateau>,
    /// Latency by size, in ascending order.
    pub random: Vec<Latency>,
    /// Notes on bursts, caches, drift and skipped steps.
    pub notes: Vec<String>,
    /// Reason for the end of the sweep.
    pub ended: SweepEnd,
    /// True if the figures may be those of a cache below.
    pub may_be_cached: bool,
    /// Relative difference between windows that burst credit, not the window, may cause.
    pub bias: f64,
    /// True if it began with every second window only.
    pub is_quick: bool,
    /// Reason for an early end.
    pub stopped: Option<Stopped>,
}

impl SweepRun<'_> {
    /// Returns the outcome so far.
    pub(super) fn outcome(&self, stopped: Option<Stopped>) -> SweepOutcome {
        let curve = Curve::of(&self.counted());
        let largest = self.largest;
        let has_reference = largest.is_some_and(|largest| curve.at(largest).is_some());
        let plateau = curve.plateau().filter(|_| has_reference && self.is_complete());
        let plateau = plateau.map(|plateau| self.with_untried(&curve, plateau));
        let mut notes = self.notes.clone();
        notes.extend(self.burst.map(note_of_burst));
        notes.extend(self.note_of_cache());
        notes.extend(curve.drift().filter(|_| self.burst.is_none()).map(|share| {
            format!(
                "the speed changed by {:.0} % during the run; windows are compared with others \
                 measured at about the same time",
                share * 100.0
            )
        }));
        notes.extend(largest.filter(|largest| *largest < self.settings.largest).map(|largest| {
            format!(
                "windows larger than {} KiB were left out: too few of them would fit the time",
                largest.0 / 1024
            )
        }));
        notes.extend(plateau.and_then(|plateau| note_of_decline(&curve, plateau)));
        if plateau.is_none() && !curve.points.is_empty() {
            notes.push("not all windows were tried: the plateau is unknown".into());
        }
        SweepOutcome {
            seconds: self.elapsed_ns() / 1e9,
            rows: curve.points.iter().map(row).collect(),
            fresh_rows: self
                .only_fresh()
                .map(|fresh| Curve::of(&fresh).points.iter().map(row).collect()),
            plateau,
            random: self.latencies(),
            notes,
            ended: self.ended(),
            may_be_cached: self.may_be_cached(),
            bias: self.bias(&curve),
            is_quick: self.is_quick(),
            stopped,
        }
    }

    /// Returns how the sweep ended; an unfinished plan has priority.
    fn ended(&self) -> SweepEnd {
        let (read, of) = self.plan();
        if read < of { SweepEnd::Unfinished { read, of } } else { self.ended }
    }

    /// Widens the interval: untried windows between the tried ones may be the plateau, too.
    fn with_untried(&self, curve: &Curve, plateau: Plateau) -> Plateau {
        let standings = curve.standings();
        let mut known = curve.points.iter().zip(&standings).rev();
        let below = known
            .find(|(point, standing)| **standing == Standing::Below && point.window < plateau.low);
        let from = below.map_or(ByteCount(0), |(point, _)| point.window);
        let untried = |window: &&ByteCount| {
            **window > from && **window < plateau.low && curve.at(**window).is_none()
        };
        let low = self.windows.iter().find(untried).copied().unwrap_or(plateau.low);
        Plateau { low, ..plateau }
    }
}

fn note_of_burst(burst: Burst) -> String {
    let Burst { fast, slow, seconds, is_back } = burst;
    if is_back {
        return format!(
            "fast ({fast:.1} MB/s) for the first {seconds:.1} s, then {slow:.1} MB/s: burst \
             credit; the result is the sustained rate"
        );
    }
    format!(
        "throughput fell from {fast:.1} to {slow:.1} MB/s after {seconds:.0} s, because burst \
         credit ran out or the device was busy; the result covers the time after that"
    )
}

/// Notes that larger windows are slower, because most users expect the contrary.
fn note_of_decline(curve: &Curve, plateau: Plateau) -> Option<String> {
    let (best, last) = (curve.at(plateau.best)?, curve.points.last()?);
    let loses = 100.0 * (1.0 - last.mb_per_s() / best.mb_per_s());
    (last.window > best.window && loses >= DECLINE_MIN).then(|| {
        format!(
            "throughput falls again above {} KiB: {} KiB are {loses:.0} % slower",
            best.window.0 / 1024,
            last.window.0 / 1024
        )
    })
}

/// Smallest decline that counts, in percent; a smaller one is within the slack of the rule.
const DECLINE_MIN: f64 = 2.0;

fn row(point: &CurvePoint) -> WindowResult {
    WindowResult {
        window_kib: point.window.0 / 1024,
        mb_per_s: point.mb_per_s(),
        low: point.low(),
        high: point.high(),
        samples: point.readings,
    }
}
