//! Why a recommendation is not set, as a report says it.
//!
//! In:    nothing: the variants carry all figures.
//! Out:   [`Refusal`], and a line for people: what is in doubt, and what to do about it.
//! Never: a judgement; [`crate::advice`] makes it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::plateau::SHARE;
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
    /// The window was measured faster than the one in force, and the error of both leaves open
    /// whether it is.
    ChangeUncertain {
        /// The window that is recommended.
        to_kib: u64,
        /// The window in force.
        now_kib: u64,
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
            Self::ChangeUncertain { to_kib, now_kib } => write!(
                f,
                "the noise leaves open whether {to_kib} KiB keep {:.0} % of what the {now_kib} KiB \
                 in force give: run it again when the device is less busy, or with --seconds 180",
                100.0 * SHARE
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
