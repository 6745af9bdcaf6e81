//! Why a recommendation is not set: what was measured does not carry it.
//!
//! In:    how a sweep ended, what it found, what is in force.
//! Out:   [`Refusal`]s, each with the way out of it.
//! Never: a change. `--force` is the caller's to know of.
//!
//! ```text
//!   the sweep --- was stopped, or its time was over before its plan ---> Stopped, Unfinished
//!             --- may have measured a cache below -----------------------> Cached
//!             --- is sure within a factor of four? no ------------------> Uncertain
//!             --- read the window in force? no ---------------------------> NowUnknown
//!   to remember: it was no more than a quick look ----------------------> Quick
//! ```

use std::fmt;

use serde::{Deserialize, Serialize};

use super::DeviceFacts;
use crate::plateau::SHARE;
use crate::probe::Stopped;
use crate::report::{Method, PAGE_KIB, Recommended, WindowResult};
use crate::sweep::{SweepEnd, SweepOutcome};
use crate::target::PAGE_CACHE;

/// Why a recommendation is not set, or not remembered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "refusal", rename_all = "kebab-case")]
pub enum Refusal {
    /// It was stopped in the middle.
    Stopped {
        /// By what.
        why: String,
    },
    /// The time was over before each window had been read as often as planned.
    Unfinished {
        /// So many windows had been,
        read: usize,
        /// of so many.
        of: usize,
        /// The seconds that it took.
        seconds: u64,
    },
    /// The figures may be those of a cache below the device.
    Cached {
        /// What says so.
        why: String,
    },
    /// The window is not known within a factor of four.
    Uncertain {
        /// With 95 % confidence not smaller,
        low_kib: u64,
        /// and not larger.
        high_kib: u64,
    },
    /// The window in force was not measured, so it is not known what a change would cost.
    NowUnknown {
        /// It; None if the device does not tell.
        now_kib: Option<u64>,
    },
    /// A quick look is no reason to set something at each start.
    Quick,
}

impl Refusal {
    /// Whether it keeps a setting from being made until the next boot, too.
    #[must_use]
    pub fn is_of_apply(&self) -> bool {
        *self != Self::Quick
    }
}

/// What stands against setting what is recommended.
#[must_use]
pub(super) fn refusals(
    facts: &DeviceFacts,
    outcome: &SweepOutcome,
    recommended: &Recommended,
) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    refusals.extend(outcome.stopped.as_ref().map(|stopped| Refusal::Stopped {
        why: match stopped {
            Stopped::Interrupted => "interrupted".to_owned(),
            Stopped::Failed(what) => what.clone(),
        },
    }));
    if let (None, SweepEnd::Unfinished { read, of }) = (&outcome.stopped, outcome.ended) {
        refusals.push(Refusal::Unfinished { read, of, seconds: seconds(outcome) });
    }
    let why = cached(facts, outcome).or_else(|| cached_pair(facts, outcome, recommended));
    refusals.extend(why.map(|why| Refusal::Cached { why }));
    if let Some([low_kib, high_kib]) = recommended.between_kib
        && high_kib > SURE_WITHIN * low_kib
    {
        refusals.push(Refusal::Uncertain { low_kib, high_kib });
    }
    let now = facts.now_kib.and_then(|kib| super::guard::row_now(&outcome.rows, kib));
    if now.is_none() && facts.method != Method::Simulated {
        refusals.push(Refusal::NowUnknown { now_kib: facts.now_kib });
    }
    refusals.extend(outcome.is_quick.then_some(Refusal::Quick));
    refusals
}

/// What says that a cache below was measured, and not the device.
fn cached(facts: &DeviceFacts, outcome: &SweepOutcome) -> Option<String> {
    if let Some(why) = &facts.cached_below {
        return Some(why.clone());
    }
    if outcome.ended == SweepEnd::NothingFresh || outcome.may_be_cached {
        let why = "what is read twice comes faster, and too little was left to read for the first \
                   time";
        return Some(why.to_owned());
    }
    let fastest = outcome.rows.iter().map(|row| row.mb_per_s).fold(0.0, f64::max);
    let is_memory = fastest > DEVICE_MB_PER_S && facts.method != Method::Simulated;
    is_memory.then(|| format!("{fastest:.0} MB/s are memory's speed, and no device's"))
}

/// What says that a cache below decided between the recommended window and the one in force: where
/// ranges that were read before count, those that were fresh have to give the same answer.
///
/// ```text
///   MB/s | ============ what the device may deliver at most (a token bucket)
///        | c   o  o  o      c: 4 KiB from the cache below, as fast as every other window
///        | o                o: 4 KiB from the device
///        +---------------> window
/// ```
fn cached_pair(
    facts: &DeviceFacts,
    outcome: &SweepOutcome,
    recommended: &Recommended,
) -> Option<String> {
    let now_kib = facts.now_kib?.max(PAGE_KIB);
    let kib = recommended.read_ahead_kb;
    let fresh = outcome.fresh_rows.as_ref().filter(|_| kib != now_kib)?;
    let row = |kib: u64| fresh.iter().find(|row| row.window_kib == kib);
    let (Some(to), Some(now)) = (row(kib), row(now_kib)) else {
        return Some(format!("{kib} and {now_kib} KiB were not both read for the first time"));
    };
    let interval = |row: &WindowResult| (row.high / row.low).ln() / 2.0;
    let lowest = (to.mb_per_s / now.mb_per_s).ln() - interval(to).hypot(interval(now));
    let keeps = lowest >= SHARE.ln() - 1e-9;
    (!keeps).then(|| {
        format!(
            "it is not sure that {kib} KiB keep {:.0} % of what {now_kib} KiB give where both are \
             read for the first time",
            100.0 * SHARE
        )
    })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most an hour")]
fn seconds(outcome: &SweepOutcome) -> u64 {
    outcome.seconds.clamp(0.0, 1e6).ceil() as u64
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped { why } => write!(f, "it was stopped ({why}): run it again to its end"),
            Self::Unfinished { read, of, seconds } => write!(
                f,
                "its {seconds} s were over when {read} of {of} windows had been read often \
                 enough: run it again with --seconds {}",
                (seconds * 2).clamp(60, 3600)
            ),
            Self::Cached { why } => write!(
                f,
                "a cache below may have been measured ({why}): drop that cache first{}, or give \
                 a larger target",
                if why.contains(PAGE_CACHE) {
                    " (echo 3 > /proc/sys/vm/drop_caches; losetup --direct-io=on)"
                } else {
                    ""
                }
            ),
            Self::Uncertain { low_kib, high_kib } => write!(
                f,
                "the window is only known to lie between {low_kib} and {high_kib} KiB: run it \
                 again when the device is less busy, or with --seconds 180"
            ),
            Self::NowUnknown { now_kib: Some(kib) } => write!(
                f,
                "the {kib} KiB in force could not be measured here, so it is not known what a \
                 change would cost: give a larger target, or more time with --seconds"
            ),
            Self::NowUnknown { now_kib: None } => {
                write!(f, "the device does not say which window is in force")
            }
            Self::Quick => write!(
                f,
                "--quick, or less than 21 s, is a first look and nothing to set at each start: \
                 measure for a minute"
            ),
        }
    }
}

/// The window has to be known within this factor.
const SURE_WITHIN: u64 = 4;

/// No device delivers so much to one reader: sixteen lanes of PCIe 3, four of PCIe 5.
const DEVICE_MB_PER_S: f64 = 16_000.0;
