//! How sure a statement is.
//!
//! In:    nothing.
//! Out:   [`Confidence`], and its words.
//! Never: a statement without one.

use serde::{Deserialize, Serialize};

/// How sure a finding is.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// Measured on this machine.
    Measured,
    /// It follows from what the system says of itself.
    Computed,
    /// What is follows from what the system says; what it costs was measured elsewhere.
    Cited,
    /// It is so on most devices.
    Likely,
}

impl Confidence {
    /// For people.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Measured => "measured here",
            Self::Computed => "computed from what the system says",
            Self::Cited => "cited: the cost was measured elsewhere, docs/doctor.md says where",
            Self::Likely => "likely: true of most devices, not measured on this one",
        }
    }
}
