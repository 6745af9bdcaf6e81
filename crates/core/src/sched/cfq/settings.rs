//! What can be set of `cfq`.
//!
//! In:    a name and a value.
//! Out:   the settings with it.
//! Never: an effect: that is the queue's.

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use crate::sched::{InvalidSetting, setting};

/// The settings of `cfq`. Each may change while requests are queued.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CfqSettings {
    /// How many requests of one queue may be in flight while others wait; four times as many
    /// while none does.
    pub quantum: u32,
    /// How long a slice of reads is, in milliseconds from the end of its first request.
    pub slice_sync_ms: u64,
    /// How long a slice of writes is, in milliseconds from the end of its first request.
    pub slice_async_ms: u64,
    /// How many requests a slice of writes may have. 0: as many as its time allows.
    pub slice_async_rq: u32,
    /// How long the device idles for a submitter's next request, in milliseconds. 0: not at all.
    pub slice_idle_ms: u64,
    /// The age, in milliseconds, at which a read begins the slice of its submitter.
    pub fifo_expire_sync_ms: u64,
    /// The age, in milliseconds, at which a write begins the slice of the writes.
    pub fifo_expire_async_ms: u64,
    /// How far the head goes back for a request, in KiB.
    pub back_seek_max_kib: u64,
    /// How many times as far a way back counts.
    pub back_seek_penalty: u32,
}

impl CfqSettings {
    /// The names of all settings.
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
    /// If there is no such setting, or the value makes no sense for it.
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

    /// All of them, as they are.
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
    /// Those of Linux 2.6.30. Its two expiries are an eighth and a quarter of a second; that the
    /// shorter one is that of reads is our reading.
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
