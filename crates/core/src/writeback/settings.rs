//! Settings of writeback, as names and values in text.

use alloc::string::{String, ToString as _};

use super::Writeback;
use crate::sched::InvalidSetting;
use crate::sizes;
use crate::units::{Nanos, PAGE_SIZE};

/// Limits of the flusher.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WritebackSettings {
    /// None for half of the dirty limit.
    pub(super) background: Option<u64>,
    pub(super) age_ns: u64,
    /// Write requests of one device that may be queued or in flight.
    pub(super) queued: u32,
}

impl WritebackSettings {
    /// Returns the number of dirty pages above which aging pages are written early.
    pub(super) fn background(&self, limit: u64) -> u64 {
        self.background.unwrap_or(limit / 2).min(limit)
    }

    /// Returns the time after which a failed page is retried without a flush.
    pub(super) fn retry_ns(&self) -> u64 {
        self.age_ns.max(LEAST_RETRY_NS)
    }
}

impl Default for WritebackSettings {
    fn default() -> Self {
        Self { background: None, age_ns: 5_000 * MS, queued: 64 }
    }
}

impl Writeback {
    /// Changes a setting; `choices` are the names of all settings of a path.
    pub(crate) fn set(
        &mut self,
        name: &str,
        value: &str,
        choices: &'static [&'static str],
    ) -> Result<(), InvalidSetting> {
        match name {
            "dirty_limit" => self.budget.set_limit(size(name, value)?),
            "dirty_background" if value == "auto" => self.settings.background = None,
            "dirty_background" => self.settings.background = Some(size(name, value)?),
            "dirty_age" => {
                let expected = "a time in milliseconds, 0 or more";
                let age_ms: u64 = value.parse().map_err(|_| bad(name, value, expected))?;
                self.settings.age_ns = age_ms.saturating_mul(MS);
            }
            "writes_queued" => {
                let queued = value.parse().ok().filter(|queued| *queued > 0);
                self.settings.queued =
                    queued.ok_or_else(|| bad(name, value, "a number, 1 or more"))?;
            }
            _ => return Err(InvalidSetting::Unknown { name: name.to_string(), choices }),
        }
        Ok(())
    }

    /// Returns the current value of a setting.
    pub(crate) fn setting(&self, name: &str) -> String {
        let limit = self.budget.limit();
        match name {
            "dirty_limit" => (limit * PAGE_SIZE).to_string(),
            "dirty_background" => (self.settings.background(limit) * PAGE_SIZE).to_string(),
            "dirty_age" => (self.settings.age_ns / MS).to_string(),
            "writes_queued" => self.settings.queued.to_string(),
            _ => panic!("{name} is not a setting of writeback"),
        }
    }

    /// Makes the next call that takes the time look for due pages.
    pub(crate) fn look_again(&mut self) {
        self.next_due = Nanos(0);
    }
}

/// Returns the error for an invalid value of a setting.
pub(crate) fn bad(name: &str, value: &str, expected: &'static str) -> InvalidSetting {
    InvalidSetting::Value { name: name.into(), value: value.into(), expected }
}

/// Parses a size, in whole pages.
pub(crate) fn size(name: &str, value: &str) -> Result<u64, InvalidSetting> {
    // Lower-case units are accepted as well.
    let bytes = sizes::parse(&value.to_ascii_uppercase());
    let bytes =
        bytes.map_err(|_| bad(name, value, "a size in bytes, or a number with K, M or G"))?;
    Ok(bytes.0 / PAGE_SIZE)
}

/// Milliseconds in the core's nanoseconds.
const MS: u64 = 1_000_000;

/// Shortest interval between retries of a failed page, even if `dirty_age` is shorter.
const LEAST_RETRY_NS: u64 = 100 * MS;
