//! What a sweep found, whether or not it came to its end.
//!
//! In:    the readings that count.
//! Out:   [`SweepOutcome`].
//! Never: a plateau of windows that were not all tried.
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

/// How a sweep ended that was not stopped.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum SweepEnd {
    /// Nothing was left to learn.
    #[default]
    Settled,
    /// The time was over; each window had been read as often as planned, and the interval says how
    /// sure the plateau is.
    OutOfTime,
    /// The time was over before that.
    Unfinished {
        /// So many windows were read as often as planned,
        read: usize,
        /// of so many.
        of: usize,
    },
    /// Something below caches, and nothing was left to read for the first time.
    NothingFresh,
}

/// What a sweep found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SweepOutcome {
    /// How long it took.
    pub seconds: f64,
    /// Throughput by window, the smallest first.
    pub rows: Vec<WindowResult>,
    /// The same of ranges that were read for the first time only; None if `rows` are of such ranges
    /// alone. A cache below can move `rows`, and not these.
    pub fresh_rows: Option<Vec<WindowResult>>,
    /// The smallest window that is enough; None if it was stopped before that was known.
    pub plateau: Option<Plateau>,
    /// Latency by size, the smallest first.
    pub random: Vec<Latency>,
    /// Bursts, caches, drift, what was left out and why.
    pub notes: Vec<String>,
    /// How it came to its end.
    pub ended: SweepEnd,
    /// Whether the figures may be those of a cache below.
    pub may_be_cached: bool,
    /// By which share two windows may differ for another reason than the windows: burst credit.
    pub bias: f64,
    /// Whether it began with every second window only.
    pub is_quick: bool,
    /// Why it ended before its end.
    pub stopped: Option<Stopped>,
}

impl SweepRun<'_> {
    /// What is known by now.
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
                "its speed moved by {:.0} % while it was measured; windows are compared with \
                 those that were read beside them",
                share * 100.0
            )
        }));
        notes.extend(largest.filter(|largest| *largest < self.settings.largest).map(|largest| {
            format!(
                "windows of more than {} KiB were left out: few of them would have fitted the time",
                largest.0 / 1024
            )
        }));
        notes.extend(plateau.and_then(|plateau| note_of_decline(&curve, plateau)));
        if plateau.is_none() && !curve.points.is_empty() {
            notes.push("not all windows were tried: the plateau is not known".into());
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

    /// How it ended: a plan that was not carried out is said before anything else.
    fn ended(&self) -> SweepEnd {
        let (read, of) = self.plan();
        if read < of { SweepEnd::Unfinished { read, of } } else { self.ended }
    }

    /// Between windows that were tried it may also be one that was not.
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
             credit; what is given is sustained"
        );
    }
    format!(
        "it fell from {fast:.1} to {slow:.1} MB/s after {seconds:.0} s, by burst credit that was \
         used up or by other work on the device; what is given is from then on"
    )
}

/// That larger windows give less is worth a word: most people expect the contrary.
fn note_of_decline(curve: &Curve, plateau: Plateau) -> Option<String> {
    let (best, last) = (curve.at(plateau.best)?, curve.points.last()?);
    let loses = 100.0 * (1.0 - last.mb_per_s() / best.mb_per_s());
    (last.window > best.window && loses >= DECLINE_MIN).then(|| {
        format!(
            "throughput falls again behind {} KiB: {} KiB give {loses:.0} % less",
            best.window.0 / 1024,
            last.window.0 / 1024
        )
    })
}

/// Percent; less is within what the rule itself gives away.
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
