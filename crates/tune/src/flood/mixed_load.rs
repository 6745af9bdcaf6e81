//! The mixed load as a trait: a real device, or a model of one.
//!
//! In:    settings to try, how long to run.
//! Out:   [`MixedSample`]: what one reader and the writers beside it got.
//! Never: a setting of its own.

use std::io;
use std::time::Duration;

use foreread_core::units::{ByteCount, Nanos};

use crate::probe::Stopped;
use crate::setting::DeviceSetting;
use crate::sysfs::Queue;

/// A device under the mixed load.
pub trait MixedLoad {
    /// The time now, since a moment of its own.
    fn now(&self) -> Nanos;

    /// What is in force, as sysfs shows it.
    fn queue(&self) -> Queue;

    /// Sets one thing.
    ///
    /// # Errors
    ///
    /// If the system refuses it.
    fn set(&mut self, setting: &DeviceSetting) -> io::Result<()>;

    /// Lets readers and writers run for about `time`, after a start that does not count.
    ///
    /// # Errors
    ///
    /// If it cannot go on.
    fn run(&mut self, time: Duration) -> Result<MixedSample, Stopped>;
}

/// What one run gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MixedSample {
    /// How long each read took, in nanoseconds.
    pub reads_ns: Vec<u64>,
    /// What the writers wrote meanwhile.
    pub written: ByteCount,
    /// How long that was, in nanoseconds.
    pub ns: u64,
}

impl MixedSample {
    /// Reads a second, of a reader that does nothing else.
    #[must_use]
    pub fn reads_per_s(&self) -> f64 {
        let ns: u64 = self.reads_ns.iter().sum();
        self.reads_ns.len() as f64 * 1e9 / (ns as f64).max(1.0)
    }

    /// What the writers wrote, in MB/s.
    #[must_use]
    pub fn written_mb_per_s(&self) -> f64 {
        self.written.0 as f64 * 1e3 / (self.ns as f64).max(1.0)
    }

    /// Writes a second.
    pub(super) fn writes_per_s(&self) -> f64 {
        self.written.0 as f64 / WRITE.0 as f64 * 1e9 / (self.ns as f64).max(1.0)
    }

    /// Reads and writes a second.
    pub(super) fn work_per_s(&self) -> f64 {
        self.writes_per_s() + self.reads_ns.len() as f64 * 1e9 / (self.ns as f64).max(1.0)
    }
}

/// Longer than centuries does not occur.
pub(super) fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// One write, as in the published runs that this load follows.
pub(super) const WRITE: ByteCount = ByteCount(64 * 1024);
