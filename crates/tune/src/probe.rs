//! The interface between a measurement and the device that it reads.
//!
//! In:    a request: how much to read, and in which pattern.
//! Out:   timings, slice by slice.
//! Never: a decision. The sweep chooses requests and interprets the results.
//!
//! There are three implementations: a real device, a simulated one, and in tests a noisy curve. The
//! sweep's logic is thus tested in virtual time.

mod buffered;
mod direct;
mod intervals;
mod laps;
mod read_offsets;
pub mod real;
mod run;

use std::time::Duration;

use foreread_core::units::{ByteCount, Nanos};

/// A device under measurement.
pub trait Probe {
    /// Returns the current time, from the probe's own origin.
    fn now(&self) -> Nanos;

    /// Reads one stream sequentially, with windows of at most `window`.
    ///
    /// The ramp-up to the full window does not count.
    ///
    /// # Errors
    ///
    /// If it cannot continue.
    fn sequential(&mut self, ask: &SequentialRead) -> Result<ProbeSample, Stopped>;

    /// Reads `size` bytes at random offsets, one read after the other, and returns each latency in
    /// nanoseconds.
    ///
    /// # Errors
    ///
    /// If it cannot continue.
    fn random(&mut self, ask: &RandomReads) -> Result<Vec<u64>, Stopped>;
}

/// A sequential stream to read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SequentialRead {
    /// Largest window.
    pub window: ByteCount,
    /// Minimum to read; the stream ends once this and `time` are reached.
    pub at_least: ByteCount,
    /// Minimum duration, without the ramp-up.
    pub time: Duration,
    /// Maximum duration in any case.
    pub at_most: Duration,
}

/// Random reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomReads {
    /// Size of each read.
    pub size: ByteCount,
    /// Number of reads.
    pub count: u32,
    /// No read begins after this time.
    pub at_most: Duration,
}

/// Result of a stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProbeSample {
    /// Equal parts of the stream, in order; they show a device that slows down.
    pub slices: Vec<SampleSlice>,
    /// Bytes that this run had read before, which a cache below may have kept.
    pub read_before: ByteCount,
}

/// A part of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SampleSlice {
    /// End of the slice.
    pub at: Nanos,
    /// Bytes read.
    pub bytes: ByteCount,
    /// Duration, in nanoseconds.
    pub ns: u64,
}

impl ProbeSample {
    /// Returns the total bytes.
    #[must_use]
    pub fn bytes(&self) -> ByteCount {
        ByteCount(self.slices.iter().map(|slice| slice.bytes.0).sum())
    }

    /// Returns the total duration, in nanoseconds.
    #[must_use]
    pub fn ns(&self) -> u64 {
        self.slices.iter().map(|slice| slice.ns).sum()
    }

    /// Returns the throughput in MB/s, as dd prints it.
    #[must_use]
    pub fn mb_per_s(&self) -> f64 {
        self.bytes().0 as f64 * 1e3 / (self.ns() as f64).max(1.0)
    }
}

/// Reason for an early end of a measurement.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Stopped {
    /// The user interrupted it.
    Interrupted,
    /// A failed operation: `reading /dev/sdb at 4096: Input/output error`.
    Failed(String),
}
