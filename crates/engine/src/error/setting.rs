//! Why a setting could not be changed.
//!
//! In:    what the core said of a name and a value; a fork.
//! Out:   one line that says what is right.
//! Never: a setting that was changed in part.

use std::error::Error;
use std::fmt;

use foreread_core::path::TooManyWeights;
use foreread_core::sched::InvalidSetting;

use super::engine::ForkedError;

/// Why a setting could not be changed: nothing has changed then.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum SettingError {
    /// There is no such setting, or the value is not valid for it.
    Invalid(InvalidSetting),
    /// Too many submitters have a weight.
    TooManyWeights(TooManyWeights),
    /// The process was forked after the engine was made.
    Forked(ForkedError),
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(why) => why.fmt(f),
            Self::TooManyWeights(why) => why.fmt(f),
            Self::Forked(why) => why.fmt(f),
        }
    }
}

impl Error for SettingError {}

impl From<InvalidSetting> for SettingError {
    fn from(why: InvalidSetting) -> Self {
        Self::Invalid(why)
    }
}

impl From<TooManyWeights> for SettingError {
    fn from(why: TooManyWeights) -> Self {
        Self::TooManyWeights(why)
    }
}

impl From<ForkedError> for SettingError {
    fn from(why: ForkedError) -> Self {
        Self::Forked(why)
    }
}
