//! Typed form of the settings that can be changed while an engine runs. The core validates the
//! values.

use std::time::Duration;

use foreread_core::path::IoPath;
use foreread_core::prefetch::Policy;

/// A setting for [`Engine::set`](crate::Engine::set). Sizes are in bytes.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use foreread::{Engine, EngineSetting};
///
/// let engine = Engine::builder().memory(16 << 20).build()?;
/// engine.set(EngineSetting::DirtyLimit(1 << 20))?;
/// engine.set(EngineSetting::DirtyAge(Duration::from_secs(1)))?;
/// assert!(engine.settings()?.contains(&("dirty_age", "1000".to_string())));
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum EngineSetting {
    /// Maximum dirty bytes; at most a quarter of the memory.
    DirtyLimit(u64),
    /// Dirty bytes above which writeback starts at once; None for half of the limit.
    DirtyBackground(Option<u64>),
    /// Age at which dirty pages are written back, in whole milliseconds.
    DirtyAge(Duration),
    /// Maximum write requests of one device, queued or in flight; at least 1.
    WritesQueued(u32),
    /// The largest read-ahead window; at most an eighth of the memory. None for the largest useful
    /// window of each device, as measured.
    MaxWindow(Option<u64>),
    /// The read-ahead policy.
    Policy(Policy),
}

impl EngineSetting {
    /// Returns the name, as [`Engine::set_by_name`](crate::Engine::set_by_name) takes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        let name = match self {
            Self::DirtyLimit(_) => "dirty_limit",
            Self::DirtyBackground(_) => "dirty_background",
            Self::DirtyAge(_) => "dirty_age",
            Self::WritesQueued(_) => "writes_queued",
            Self::MaxWindow(_) => "max_window",
            Self::Policy(_) => "policy",
        };
        debug_assert!(IoPath::SETTINGS.contains(&name), "the core knows {name}");
        name
    }

    /// Returns the value as text.
    pub(crate) fn value(self) -> String {
        match self {
            Self::DirtyLimit(bytes) => bytes.to_string(),
            Self::DirtyBackground(bytes) | Self::MaxWindow(bytes) => {
                bytes.map_or_else(|| "auto".to_string(), |bytes| bytes.to_string())
            }
            Self::DirtyAge(age) => age.as_millis().to_string(),
            Self::WritesQueued(requests) => requests.to_string(),
            Self::Policy(policy) => policy.name().to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use foreread_core::sched::SchedulerKind;
    use foreread_core::sched::deadline::DeadlineSettings;

    use super::*;
    use crate::Engine;

    /// Each setting of the core has a typed form that converts to it and back.
    #[test]
    fn every_setting_has_a_type() {
        let engine = Engine::builder().memory(16 << 20).build().expect("an engine");
        let all = [
            (EngineSetting::DirtyLimit(1 << 20), "1048576"),
            (EngineSetting::DirtyBackground(Some(65536)), "65536"),
            (EngineSetting::DirtyAge(Duration::from_millis(1500)), "1500"),
            (EngineSetting::WritesQueued(3), "3"),
            (EngineSetting::MaxWindow(Some(131_072)), "131072"),
            (EngineSetting::Policy(Policy::Linux6), "linux-6"),
        ];
        for (setting, value) in all {
            engine.set(setting).expect("it is valid");
            let now = engine.settings().expect("no fork");
            assert!(now.contains(&(setting.name(), value.to_string())), "{setting:?} in {now:?}");
        }
        assert_eq!(all.map(|(setting, _)| setting.name()), *IoPath::SETTINGS, "all, in order");
        engine.set(EngineSetting::MaxWindow(None)).expect("learnt");
        engine.set(EngineSetting::DirtyBackground(None)).expect("half of the limit");
        let now = engine.settings().expect("no fork");
        assert!(now.contains(&("max_window", "auto".to_string())), "{now:?}");
        assert!(now.contains(&("dirty_background", "524288".to_string())), "{now:?}");
        assert!(engine.set(EngineSetting::WritesQueued(0)).is_err(), "no request at all");
    }

    #[test]
    fn a_file_gets_another_scheduler_with_all_its_settings() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("file"), [1; 4096]).expect("a file");
        let engine = Engine::builder().memory(16 << 20).build().expect("an engine");
        let file = engine.open(dir.path().join("file")).expect("it is there");
        let has = |name, value: &str| {
            let now = file.device().scheduler_settings().expect("no fork");
            now.contains(&(name, value.to_string()))
        };
        file.device().set_scheduler(&SchedulerKind::Noop).expect("there is one");
        assert!(has("scheduler", "noop"));
        let settings = DeadlineSettings { read_expire_ms: 77, ..DeadlineSettings::default() };
        file.device().set_scheduler(&SchedulerKind::Deadline(settings)).expect("there is one");
        assert!(has("scheduler", "deadline") && has("read_expire", "77"));
        let cfq = SchedulerKind::from_name("cfq").expect("it is the simulator's");
        file.device().set_scheduler(&cfq).expect_err("not for devices");
        assert!(has("read_expire", "77"), "nothing has changed");
    }
}
