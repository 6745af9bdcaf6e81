//! Tools for experiments: slowed-down devices, decision traces and replayable recordings.
//!
//! Requires the feature `lab`. Programs that only read and write do not need it.

use std::error::Error;
use std::fmt;

use foreread_core::replay::Mismatch;

pub use crate::delay::{Delay, DelayModel, ParseDelayError};
pub use foreread_core::prefetch::Rules;
pub use foreread_core::trace::TraceEvent;

use crate::error::ForkedError;
use crate::{Engine, EngineBuilder, EngineError, OpenOptions};

impl EngineBuilder {
    /// Keeps the last `events` events for [`Engine::take_trace`].
    #[must_use]
    pub fn trace(mut self, events: usize) -> Self {
        self.trace = events;
        self
    }

    /// Sets rules that apply in addition to those of the policy; default: none.
    #[must_use]
    pub fn rules(mut self, rules: Rules) -> Self {
        self.rules = rules;
        self
    }

    /// Records up to `steps` calls of the core and their results, for [`Engine::replay`].
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let engine = foreread::Engine::builder().record(100_000).build()?;
    /// engine.open("/var/lib/db/table")?.read_at(&mut [0; 4096], 0)?;
    /// engine.replay()?; // each decision follows from the calls
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn record(mut self, steps: usize) -> Self {
        self.record = steps;
        self
    }
}

impl Engine {
    /// Replays the recording of [`EngineBuilder::record`] on a new core and compares all results:
    /// decisions, requests, frames, completed reads. If they are equal, everything that happened
    /// follows from the calls and their order, independent of threads and device. Consumes the
    /// recording.
    ///
    /// # Errors
    ///
    /// The first step with a different result; in a forked child.
    pub fn replay(&self) -> Result<(), ReplayError> {
        let mut driver = self.state.drive()?;
        let (config, log) = (driver.path.config(), driver.path.take_log());
        drop(driver);
        foreread_core::replay::replay(config, &log).map_err(ReplayError::Mismatch)
    }

    /// Takes the events since the last call, oldest first, if [`EngineBuilder::trace`] keeps them.
    ///
    /// # Errors
    ///
    /// In a forked child.
    pub fn take_trace(&self) -> Result<Vec<TraceEvent>, EngineError> {
        let mut driver = self.state.drive()?;
        Ok(std::iter::from_fn(|| driver.path.poll_trace()).collect())
    }
}

impl OpenOptions {
    /// Slows the device down, for demonstrations and tests: requests are real, their completions
    /// are delayed.
    pub fn delay(mut self, delay: impl Into<Option<Delay>>) -> Self {
        self.delay = delay.into();
        self
    }
}

/// Why a replay failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReplayError {
    /// The first step with a different result.
    Mismatch(Box<Mismatch>),
    /// The process was forked after the engine was created.
    Forked,
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mismatch(mismatch) => mismatch.fmt(f),
            Self::Forked => EngineError::Forked.fmt(f),
        }
    }
}

impl Error for ReplayError {}

impl From<ForkedError> for ReplayError {
    fn from(ForkedError: ForkedError) -> Self {
        Self::Forked
    }
}
