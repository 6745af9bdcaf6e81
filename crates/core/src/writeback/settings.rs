//! The settings of writeback.
//!
//! In:    a name and a value, as text.
//! Out:   the limits that the flusher keeps to.
//! Never: a value that is corrected in silence.

use alloc::string::{String, ToString as _};

use super::Writeback;
use crate::sched::BadSetting;
use crate::sizes;
use crate::units::{Nanos, PAGE_SIZE};

/// What the flusher keeps to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WritebackSettings {
    /// None for half of the dirty limit.
    pub(super) background: Option<u64>,
    pub(super) age_ns: u64,
    /// How many write requests of a device may be queued or in flight.
    pub(super) queued: u32,
}

impl WritebackSettings {
    /// How many pages may be dirty before any is written that could still wait.
    pub(super) fn background(&self, limit: u64) -> u64 {
        self.background.unwrap_or(limit / 2).min(limit)
    }

    /// After how long a page that failed is tried again without a flush.
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
    /// Changes one setting; `choices` are the names of all settings of a path.
    pub(crate) fn set(
        &mut self,
        name: &str,
        value: &str,
        choices: &'static [&'static str],
    ) -> Result<(), BadSetting> {
        match name {
            "dirty_limit" => self.budget.set_limit(size(name, value)?),
            "dirty_background" if value == "auto" => self.settings.background = None,
            "dirty_background" => self.settings.background = Some(size(name, value)?),
            "dirty_age" => {
                let wants = "milliseconds, 0 or more";
                let age_ms: u64 = value.parse().map_err(|_| bad(name, value, wants))?;
                self.settings.age_ns = age_ms.saturating_mul(MS);
            }
            "writes_queued" => {
                let queued = value.parse().ok().filter(|queued| *queued > 0);
                self.settings.queued =
                    queued.ok_or_else(|| bad(name, value, "a number, 1 or more"))?;
            }
            _ => return Err(BadSetting::Unknown { name: name.to_string(), choices }),
        }
        Ok(())
    }

    /// A setting as it is now.
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

    /// What is due is looked for with the next call that has the time.
    pub(crate) fn look_again(&mut self) {
        self.next_due = Nanos(0);
    }
}

/// A value that makes no sense for a setting.
pub(crate) fn bad(name: &str, value: &str, wants: &'static str) -> BadSetting {
    BadSetting::Value { name: name.into(), value: value.into(), wants }
}

/// A size in whole pages.
pub(crate) fn size(name: &str, value: &str) -> Result<u64, BadSetting> {
    // Small letters are as good.
    let bytes = sizes::parse(&value.to_ascii_uppercase());
    let bytes = bytes.map_err(|_| bad(name, value, "bytes, or a number with K, M or G"))?;
    Ok(bytes.0 / PAGE_SIZE)
}

/// Milliseconds in the core's nanoseconds.
const MS: u64 = 1_000_000;

/// A page that fails is not tried more often than this, however young pages are written.
const LEAST_RETRY_NS: u64 = 100 * MS;
