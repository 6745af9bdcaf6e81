//! Errors from changing a setting. A failed change leaves all settings as they were.

use std::error::Error;
use std::fmt;

use foreread_core::path::TooManyWeights;
use foreread_core::sched::InvalidSetting;

use super::engine::{ForkedError, MAKE_ANOTHER};

/// An error from changing a setting. All settings keep their old values.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum SettingError {
    /// Unknown setting, or a value outside its valid range.
    Invalid(InvalidSetting),
    /// Too many submitters already have weights.
    TooManyWeights(TooManyWeights),
    /// The process was forked after the engine was created.
    Forked,
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(why) => why.fmt(f),
            Self::TooManyWeights(why) => why.fmt(f),
            Self::Forked => f.write_str(MAKE_ANOTHER),
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
    fn from(ForkedError: ForkedError) -> Self {
        Self::Forked
    }
}
