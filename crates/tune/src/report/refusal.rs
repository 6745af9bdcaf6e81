//! Refusals as they appear in a report, each with a line on the doubt and its remedy.
//! [`crate::advice`] decides on them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::plateau::SHARE;
use crate::target::PAGE_CACHE;

/// Reason why a recommendation is not applied, or not remembered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "refusal", rename_all = "kebab-case")]
pub enum Refusal {
    /// The measurement was stopped early.
    Stopped {
        /// Reason of the stop.
        why: String,
    },
    /// The time ran out before each window had the planned number of readings.
    Unfinished {
        /// Windows that had them.
        read: usize,
        /// Planned windows.
        of: usize,
        /// Duration in seconds.
        seconds: u64,
    },
    /// The figures may be those of a cache below the device.
    Cached {
        /// Evidence of the cache.
        why: String,
    },
    /// The window is not known to within a factor of four.
    Uncertain {
        /// Lower end of the 95 % confidence interval.
        low_kib: u64,
        /// Upper end of the 95 % confidence interval.
        high_kib: u64,
    },
    /// The window in force was not measured, so the cost of a change is unknown.
    NowUnknown {
        /// Window in force; None if the device does not reveal it.
        now_kib: Option<u64>,
    },
    /// The window was measured faster than the one in force, but the difference is within the error
    /// of both.
    ChangeUncertain {
        /// Recommended window.
        to_kib: u64,
        /// Window in force.
        now_kib: u64,
    },
    /// A quick measurement does not justify a setting for each boot.
    Quick,
}

impl Refusal {
    /// Returns whether it also prevents a setting until the next boot.
    #[must_use]
    pub fn is_of_apply(&self) -> bool {
        *self != Self::Quick
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped { why } => write!(
                f,
                "it was stopped ({why}): run it again and let it \
                                                finish"
            ),
            Self::Unfinished { read, of, seconds } => write!(
                f,
                "after {seconds} s, {read} of {of} windows had enough readings: run it again with \
                 --seconds {}",
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
            Self::ChangeUncertain { to_kib, now_kib } => write!(
                f,
                "because of noise it is uncertain whether {to_kib} KiB keep {:.0} % of the \
                 throughput of the current {now_kib} KiB: run it again when the device is less \
                 busy, or with --seconds 180",
                100.0 * SHARE
            ),
            Self::NowUnknown { now_kib: Some(kib) } => write!(
                f,
                "the current {kib} KiB could not be measured here, so the effect of a change is \
                 unknown: give a larger target, or more time with --seconds"
            ),
            Self::NowUnknown { now_kib: None } => {
                write!(f, "the device does not report its current window")
            }
            Self::Quick => write!(
                f,
                "less than 21 s is a first look and nothing to set at each start: \
                 measure for a minute"
            ),
        }
    }
}
