//! Settings of `cfq`, by name.

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use crate::sched::{InvalidSetting, setting};

/// Settings of `cfq`. Each can be changed while requests are queued.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CfqSettings {
    /// Most requests of one queue in flight while others wait; four times as many while none waits.
    pub quantum: u32,
    /// Length of a slice of reads, in milliseconds from the completion of its first request.
    pub slice_sync_ms: u64,
    /// Length of a slice of writes, in milliseconds from the completion of its first request.
    pub slice_async_ms: u64,
    /// Most requests in a slice of writes. 0: limited by time only.
    pub slice_async_rq: u32,
    /// Idle time for a submitter's next request, in milliseconds. 0: no idling.
    pub slice_idle_ms: u64,
    /// Age in milliseconds at which a read begins the slice of its submitter.
    pub fifo_expire_sync_ms: u64,
    /// Age in milliseconds at which a write begins the slice of the writes.
    pub fifo_expire_async_ms: u64,
    /// Largest backward seek for a request, in KiB.
    pub back_seek_max_kib: u64,
    /// Factor by which a backward seek counts as longer.
    pub back_seek_penalty: u32,
}

impl CfqSettings {
    /// Names of all settings.
    pub const NAMES: &'static [&'static str] = &[
        "quantum",
        "slice_sync",
        "slice_async",
        "slice_async_rq",
        "slice_idle",
        "fifo_expire_sync",
        "fifo_expire_async",
        "back_seek_max",
        "back_seek_penalty",
    ];

    /// Changes one setting.
    ///
    /// # Errors
    ///
    /// If the setting does not exist, or the value is invalid.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), InvalidSetting> {
        let ms = || setting::number(name, value, setting::MS);
        let count = || setting::number(name, value, setting::COUNT);
        match name {
            "quantum" => self.quantum = count()?,
            "slice_sync" => self.slice_sync_ms = ms()?,
            "slice_async" => self.slice_async_ms = ms()?,
            "slice_async_rq" => self.slice_async_rq = count()?,
            "slice_idle" => self.slice_idle_ms = ms()?,
            "fifo_expire_sync" => self.fifo_expire_sync_ms = ms()?,
            "fifo_expire_async" => self.fifo_expire_async_ms = ms()?,
            "back_seek_max" => self.back_seek_max_kib = setting::number(name, value, "KiB")?,
            "back_seek_penalty" => self.back_seek_penalty = count()?,
            _ => return Err(setting::unknown(name, Self::NAMES)),
        }
        Ok(())
    }

    /// Returns all settings.
    #[must_use]
    pub fn list(&self) -> Vec<(&'static str, String)> {
        let value = |name: &str| match name {
            "quantum" => self.quantum.to_string(),
            "slice_sync" => self.slice_sync_ms.to_string(),
            "slice_async" => self.slice_async_ms.to_string(),
            "slice_async_rq" => self.slice_async_rq.to_string(),
            "slice_idle" => self.slice_idle_ms.to_string(),
            "fifo_expire_sync" => self.fifo_expire_sync_ms.to_string(),
            "fifo_expire_async" => self.fifo_expire_async_ms.to_string(),
            "back_seek_max" => self.back_seek_max_kib.to_string(),
            "back_seek_penalty" => self.back_seek_penalty.to_string(),
            _ => unreachable!("{name} is among the names"),
        };
        Self::NAMES.iter().map(|name| (*name, value(name))).collect()
    }
}

impl Default for CfqSettings {
    /// Returns the defaults of Linux 2.6.30. Its two expiries are an eighth and a quarter of a
    /// second; we take the shorter one to be that of reads.
    fn default() -> Self {
        Self {
            quantum: 4,
            slice_sync_ms: 100,
            slice_async_ms: 40,
            slice_async_rq: 2,
            slice_idle_ms: 8,
            fifo_expire_sync_ms: 125,
            fifo_expire_async_ms: 250,
            back_seek_max_kib: 16 * 1024,
            back_seek_penalty: 2,
        }
    }
}
