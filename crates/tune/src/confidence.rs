//! Confidence levels of findings.

use serde::{Deserialize, Serialize};

/// Confidence in a finding.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// Measured on this machine.
    Measured,
    /// Follows from values that the system reports.
    Computed,
    /// The condition follows from values that the system reports; its cost was measured elsewhere.
    Cited,
    /// True of most devices.
    Likely,
}

impl Confidence {
    /// Returns the level in words.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Measured => "measured here",
            Self::Computed => "computed from values that the system reports",
            Self::Cited => {
                "cited: the cost was measured elsewhere; docs/guide/doctor.md has the sources"
            }
            Self::Likely => "likely: true of most devices, not measured on this one",
        }
    }
}
