//! The mixed load as a trait, implemented by a real device and by a model.

use std::io;
use std::time::Duration;

use foreread_core::units::{ByteCount, Nanos};

use crate::probe::Stopped;
use crate::setting::DeviceSetting;
use crate::sysfs::Queue;

/// A device under the mixed load.
pub trait MixedLoad {
    /// Returns the current time, from an arbitrary origin.
    fn now(&self) -> Nanos;

    /// Returns the settings in force, as sysfs shows them.
    fn queue(&self) -> Queue;

    /// Makes one setting.
    ///
    /// # Errors
    ///
    /// If the system refuses it.
    fn set(&mut self, setting: &DeviceSetting) -> io::Result<()>;

    /// Runs readers and writers for about `time`, after a warm-up that does not count.
    ///
    /// # Errors
    ///
    /// If it cannot go on.
    fn run(&mut self, time: Duration) -> Result<MixedSample, Stopped>;
}

/// Result of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MixedSample {
    /// Latency of each read, in nanoseconds.
    pub reads_ns: Vec<u64>,
    /// Bytes written during the run.
    pub written: ByteCount,
    /// Duration of the run, in nanoseconds.
    pub ns: u64,
}

impl MixedSample {
    /// Returns the reads per second of a reader that does nothing else.
    #[must_use]
    pub fn reads_per_s(&self) -> f64 {
        let ns: u64 = self.reads_ns.iter().sum();
        self.reads_ns.len() as f64 * 1e9 / (ns as f64).max(1.0)
    }

    /// Returns the write throughput, in MB/s.
    #[must_use]
    pub fn written_mb_per_s(&self) -> f64 {
        self.written.0 as f64 * 1e3 / (self.ns as f64).max(1.0)
    }

    /// Returns the writes per second.
    pub(super) fn writes_per_s(&self) -> f64 {
        self.written.0 as f64 / WRITE.0 as f64 * 1e9 / (self.ns as f64).max(1.0)
    }

    /// Returns the reads and writes per second.
    pub(super) fn work_per_s(&self) -> f64 {
        self.writes_per_s() + self.reads_ns.len() as f64 * 1e9 / (self.ns as f64).max(1.0)
    }
}

/// Returns nanoseconds. Durations of centuries do not occur.
pub(super) fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Size of one write, as in the published runs that this load follows.
pub(super) const WRITE: ByteCount = ByteCount(64 * 1024);
