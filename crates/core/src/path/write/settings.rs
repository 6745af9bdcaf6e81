//! What may be changed of a path while it runs.
//!
//! In:    a name and a value, as text.
//! Out:   the same of all settings, as they are now.
//! Never: a value that is corrected in silence.

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use crate::path::{IoPath, largest_read};
use crate::prefetch::Policy;
use crate::replay::PathCall;
use crate::sched::BadSetting;
use crate::sizes;
use crate::units::{ByteCount, Nanos, PAGE_SIZE, Pages};

/// What the flusher keeps to.
#[derive(Clone, Copy, Debug)]
pub(in crate::path) struct WritebackSettings {
    /// None for half of the dirty limit.
    background: Option<u64>,
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

impl IoPath {
    /// The names of all settings.
    pub const SETTINGS: &'static [&'static str] =
        &["dirty_limit", "dirty_background", "dirty_age", "writes_queued", "max_window", "policy"];

    /// Changes one setting of the path, from its next decision on.
    ///
    /// ```text
    ///   dirty_limit        bytes      what writes may hold; at most a quarter of the memory
    ///   dirty_background   bytes      more than this is written at once; auto: half of the limit
    ///   dirty_age          ms         what is dirty for so long is written
    ///   writes_queued      a number   write requests of one device, queued or in flight
    ///   max_window         bytes      the largest read-ahead window; at most an eighth of it
    ///                      auto       what is of use on its device, as measured
    ///   policy             a name     the read-ahead policy
    /// ```
    ///
    /// Bytes may end in K, M or G. What waits for a setting goes on with the next call that has the
    /// time: [`Self::timeout`] will do.
    ///
    /// # Errors
    ///
    /// If there is none of that name, or the value makes no sense.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), BadSetting> {
        self.log().did(|| {
            let (name, value) = (name.to_string(), value.to_string());
            PathCall::Set { name, value }
        });
        let bad = |wants| BadSetting::Value { name: name.into(), value: value.into(), wants };
        // Small letters are as good.
        let size = || sizes::parse(&value.to_ascii_uppercase());
        let size = || size().map_err(|_| bad("bytes, or a number with K, M or G"));
        match name {
            "dirty_limit" => self.room.set_limit(pages(size()?)),
            "dirty_background" if value == "auto" => self.limits.background = None,
            "dirty_background" => self.limits.background = Some(pages(size()?)),
            "dirty_age" => {
                let age_ms: u64 = value.parse().map_err(|_| bad("milliseconds, 0 or more"))?;
                self.limits.age_ns = age_ms.saturating_mul(MS);
            }
            "writes_queued" => {
                let queued = value.parse().ok().filter(|queued| *queued > 0);
                self.limits.queued = queued.ok_or_else(|| bad("a number, 1 or more"))?;
            }
            "max_window" if value == "auto" => {
                self.is_window_learnt = true;
                self.max_window = largest_read(&self.cache);
            }
            "max_window" => {
                self.is_window_learnt = false;
                let window = Pages(pages(size()?));
                self.max_window = window.min(largest_read(&self.cache));
            }
            "policy" => {
                let wants = "none, fixed, linux-2.6.28, linux-2.6.31, thrash-2009, thrash-2010, \
                             linux-6, distance or adaptive";
                self.policy = Policy::from_name(value).ok_or_else(|| bad(wants))?;
                self.keep_unread();
            }
            _ => {
                let (name, choices) = (name.to_string(), Self::SETTINGS);
                return Err(BadSetting::Unknown { name, choices });
            }
        }
        // What it now wants may be due already.
        self.next_due = Nanos(0);
        Ok(())
    }

    /// All settings of the path, as they are now: what [`Self::set`] takes.
    #[must_use]
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let limit = self.room.limit();
        let size = |pages: u64| (pages * PAGE_SIZE).to_string();
        Self::SETTINGS
            .iter()
            .map(|&name| {
                let value = match name {
                    "dirty_limit" => size(limit),
                    "dirty_background" => size(self.limits.background(limit)),
                    "dirty_age" => (self.limits.age_ns / MS).to_string(),
                    "writes_queued" => self.limits.queued.to_string(),
                    "max_window" if self.is_window_learnt => "auto".to_string(),
                    "max_window" => size(self.max_window.0),
                    _ => self.policy.name().to_string(),
                };
                (name, value)
            })
            .collect()
    }
}

/// Whole pages of them.
fn pages(bytes: ByteCount) -> u64 {
    bytes.0 / PAGE_SIZE
}

/// Milliseconds in the core's nanoseconds.
const MS: u64 = 1_000_000;

/// A page that fails is not tried more often than this, however young pages are written.
const LEAST_RETRY_NS: u64 = 100 * MS;
