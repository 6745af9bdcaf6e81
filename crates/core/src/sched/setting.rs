//! Parsing of scheduler settings. Invalid values are refused, never corrected silently.

use alloc::string::{String, ToString as _};
use core::fmt;
use core::str::FromStr;

/// Reason for refusing a setting.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum InvalidSetting {
    /// There is no such setting.
    Unknown {
        /// Name as given.
        name: String,
        /// Existing settings.
        choices: &'static [&'static str],
    },
    /// The value is invalid.
    Value {
        /// Name of the setting.
        name: String,
        /// Value as given.
        value: String,
        /// Description of valid values.
        expected: &'static str,
    },
}

impl fmt::Display for InvalidSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name, choices: [] } => {
                write!(f, "no setting {name:?}: this scheduler has none")
            }
            Self::Unknown { name, choices } => {
                write!(f, "no setting {name:?}; there are {}", choices.join(", "))
            }
            Self::Value { name, value, expected } => {
                write!(f, "{name}={value}: must be {expected}")
            }
        }
    }
}

impl core::error::Error for InvalidSetting {}

/// Parses a number or other value.
pub(super) fn number<T: FromStr>(
    name: &str,
    value: &str,
    expected: &'static str,
) -> Result<T, InvalidSetting> {
    value.parse().map_err(|_| bad(name, value, expected))
}

/// Parses `on` or `off`.
pub(super) fn switch(name: &str, value: &str) -> Result<bool, InvalidSetting> {
    match value {
        "on" | "1" => Ok(true),
        "off" | "0" => Ok(false),
        _ => Err(bad(name, value, "on or off")),
    }
}

/// Returns the text that [`switch`] parses.
pub(super) fn on_off(is_on: bool) -> String {
    (if is_on { "on" } else { "off" }).to_string()
}

pub(super) fn bad(name: &str, value: &str, expected: &'static str) -> InvalidSetting {
    InvalidSetting::Value { name: name.to_string(), value: value.to_string(), expected }
}

pub(super) fn unknown(name: &str, choices: &'static [&'static str]) -> InvalidSetting {
    InvalidSetting::Unknown { name: name.to_string(), choices }
}

pub(super) const MS: &str = "a time in milliseconds, 0 or more";
pub(super) const COUNT: &str = "a number from 0 to 4294967295";

/// Converts milliseconds to nanoseconds.
pub(super) const fn ns(ms: u64) -> u64 {
    ms.saturating_mul(1_000_000)
}
