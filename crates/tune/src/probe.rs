//! What a measurement asks of a device, whichever device that is.
//!
//! In:    a question: so much, read in such a way.
//! Out:   what it took, slice by slice.
//! Never: a decision. What is asked next, and what the answers mean, is the sweep's.
//!
//! Three answer: a real device, a simulated one, and in tests a curve with noise. So all of the
//! sweep's judgement is tried in virtual time.

mod buffered;
mod direct;
mod intervals;
mod laps;
mod read_offsets;
pub mod real;
mod run;

use std::time::Duration;

use foreread_core::units::{ByteCount, Nanos};

/// A device that can be asked.
pub trait Probe {
    /// The time now, since a moment of the probe's own.
    fn now(&self) -> Nanos;

    /// Reads one stream in order, with windows of at most `window`.
    ///
    /// What the stream needs to reach its full window does not count.
    ///
    /// # Errors
    ///
    /// If it cannot go on.
    fn sequential(&mut self, ask: &SequentialRead) -> Result<ProbeSample, Stopped>;

    /// Reads of `size` anywhere, one after the other: the latency of each, in nanoseconds.
    ///
    /// # Errors
    ///
    /// If it cannot go on.
    fn random(&mut self, ask: &RandomReads) -> Result<Vec<u64>, Stopped>;
}

/// A stream to read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SequentialRead {
    /// The largest window.
    pub window: ByteCount,
    /// It ends when so much has been read and `time` is over,
    pub at_least: ByteCount,
    /// so long after it began, without what came before the full window,
    pub time: Duration,
    /// but in any case after so much time.
    pub at_most: Duration,
}

/// Reads anywhere.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomReads {
    /// The size of each.
    pub size: ByteCount,
    /// How many.
    pub count: u32,
    /// but in any case no more after so long.
    pub at_most: Duration,
}

/// What a stream took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProbeSample {
    /// Equal parts of it, in order: a device that slows down while it is read is seen here.
    pub slices: Vec<SampleSlice>,
    /// Bytes of it that this run had read from the device before: what a cache below may have kept.
    pub read_before: ByteCount,
}

/// A part of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SampleSlice {
    /// When it ended.
    pub at: Nanos,
    /// How much it read.
    pub bytes: ByteCount,
    /// How long that took, in nanoseconds.
    pub ns: u64,
}

impl ProbeSample {
    /// All of it.
    #[must_use]
    pub fn bytes(&self) -> ByteCount {
        ByteCount(self.slices.iter().map(|slice| slice.bytes.0).sum())
    }

    /// How long all of it took, in nanoseconds.
    #[must_use]
    pub fn ns(&self) -> u64 {
        self.slices.iter().map(|slice| slice.ns).sum()
    }

    /// MB/s, as dd prints them.
    #[must_use]
    pub fn mb_per_s(&self) -> f64 {
        self.bytes().0 as f64 * 1e3 / (self.ns() as f64).max(1.0)
    }
}

/// Why a measurement ends before its end.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Stopped {
    /// The user interrupted it.
    Interrupted,
    /// What could not be done, and why: `reading /dev/sdb at 4096: Input/output error`.
    Failed(String),
}
