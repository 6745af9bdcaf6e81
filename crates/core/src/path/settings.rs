//! Settings of a path that can be changed while it runs, as names and values in text.

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use super::IoPath;
use crate::call_log::steps::PathCall;
use crate::prefetch::Policy;
use crate::sched::InvalidSetting;
use crate::units::{PAGE_SIZE, Pages};
use crate::writeback::settings;

/// # Settings
impl IoPath {
    /// The names of all settings.
    pub const SETTINGS: &'static [&'static str] =
        &["dirty_limit", "dirty_background", "dirty_age", "writes_queued", "max_window", "policy"];

    /// Changes one setting of the path, from its next decision on.
    ///
    /// ```text
    ///   dirty_limit        bytes      memory that writes may hold; at most a quarter of it all
    ///   dirty_background   bytes      more than this is written at once; auto: half of the limit
    ///   dirty_age          ms         pages dirty for longer are written
    ///   writes_queued      a number   write requests of one device, queued or in flight
    ///   max_window         bytes      the largest window; at most an eighth of the memory
    ///                      auto       the largest useful window of its device, as measured
    ///   policy             a name     the read-ahead policy
    /// ```
    ///
    /// Bytes may end in K, M or G. Requests held back by the old value proceed with the next call
    /// that takes the time, for example [`Self::timeout`].
    ///
    /// # Errors
    ///
    /// If there is no such setting, or the value is invalid.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), InvalidSetting> {
        self.did(|| {
            let (name, value) = (name.to_string(), value.to_string());
            PathCall::Set { name, value }
        });
        let Self { read_path, writeback, .. } = self;
        match name {
            "max_window" if value == "auto" => read_path.prefetch.set_max_window(None),
            "max_window" => {
                let window = settings::size(name, value)?;
                read_path.prefetch.set_max_window(Some(Pages(window)));
            }
            "policy" => {
                let policy = Policy::from_name(value)
                    .ok_or_else(|| settings::bad(name, value, "none, linux-6 or adaptive"))?;
                read_path.prefetch.set_policy(policy);
                read_path.apply_policy();
            }
            _ => writeback.set(name, value, Self::SETTINGS)?,
        }
        // The change may make device writes due already.
        writeback.look_again();
        Ok(())
    }

    /// Returns the current values of all settings, in the form that [`Self::set`] takes.
    #[must_use]
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let prefetch = &self.read_path.prefetch;
        Self::SETTINGS
            .iter()
            .map(|&name| {
                let value = match name {
                    "max_window" if prefetch.is_window_learnt() => "auto".to_string(),
                    "max_window" => (prefetch.max_window().0 * PAGE_SIZE).to_string(),
                    "policy" => prefetch.policy().name().to_string(),
                    _ => self.writeback.setting(name),
                };
                (name, value)
            })
            .collect()
    }
}
