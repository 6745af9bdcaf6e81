//! Call log of an `IoPath`, while it is written and while it is replayed.
//!
//! It contains the path's steps, and the events of the cache between them ([`FlagLog`]).

pub(crate) mod steps;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem;

use self::steps::{LogStep, Mismatch, PathCall, PathOutput};
use crate::cache::{CacheEvent, FlagLog};

/// Log of a path: off, being written, or being replayed.
#[derive(Debug, Default)]
pub(crate) enum CallLog {
    #[default]
    Off,
    Recording {
        steps: Vec<LogStep>,
        limit: usize,
        is_full: bool,
    },
    Replaying(Box<LogReplay>),
}

#[derive(Debug)]
pub(crate) struct LogReplay {
    steps: Vec<LogStep>,
    at: usize,
    mismatch: Option<Box<Mismatch>>,
}

impl CallLog {
    pub(crate) fn recording(limit: usize) -> Self {
        Self::Recording { steps: Vec::new(), limit, is_full: false }
    }

    pub(crate) fn replaying(steps: Vec<LogStep>) -> Self {
        Self::Replaying(Box::new(LogReplay { steps, at: 0, mismatch: None }))
    }

    /// Takes the recorded steps, and frees their space in the log.
    pub(crate) fn take(&mut self) -> Vec<LogStep> {
        match self {
            Self::Recording { steps, .. } => mem::take(steps),
            Self::Off | Self::Replaying(_) => Vec::new(),
        }
    }

    /// Records a call.
    #[inline]
    pub(crate) fn did(&mut self, flags: &mut FlagLog, input: impl FnOnce() -> PathCall) {
        if let Self::Recording { .. } = self {
            self.push(flags, LogStep::Did(input()));
        }
    }

    /// Records an output.
    #[inline]
    pub(crate) fn gave(&mut self, flags: &mut FlagLog, output: impl FnOnce() -> PathOutput) {
        match self {
            Self::Off => {}
            Self::Recording { .. } => self.push(flags, LogStep::Gave(output())),
            Self::Replaying(replay) => {
                replay.follow(flags);
                replay.compare(LogStep::Gave(output()));
                replay.lead(flags);
            }
        }
    }

    /// Appends a step, after the cache's events before it.
    fn push(&mut self, flags: &mut FlagLog, step: LogStep) {
        let Self::Recording { steps, limit, is_full } = self else { return };
        let events = flags.take_events().into_iter().map(LogStep::from);
        for step in events.chain([step]) {
            if *is_full {
                return;
            }
            *is_full = steps.len() >= *limit;
            steps.push(if *is_full { LogStep::Full } else { step });
        }
    }

    pub(crate) fn at(&self) -> usize {
        match self {
            Self::Replaying(replay) => replay.at,
            Self::Off | Self::Recording { .. } => 0,
        }
    }

    /// Returns the next call to make in a replay.
    pub(crate) fn next_input(
        &mut self,
        flags: &mut FlagLog,
    ) -> Result<Option<PathCall>, Box<Mismatch>> {
        match self {
            Self::Replaying(replay) => replay.next_input(flags),
            Self::Off | Self::Recording { .. } => Ok(None),
        }
    }
}

impl LogReplay {
    fn next(&self) -> Option<&LogStep> {
        self.steps.get(self.at)
    }

    /// Skips the cache's events that happened as recorded.
    fn follow(&mut self, flags: &FlagLog) {
        if self.mismatch.is_some() {
            return;
        }
        let (came, mismatch) = flags.progress();
        self.at += came;
        if let Some(mismatch) = mismatch {
            let got = mismatch.got.map(LogStep::from);
            self.mismatch =
                Some(Box::new(Mismatch { at: self.at, wanted: self.next().cloned(), got }));
        }
    }

    /// Tells the cache which events to expect before the path's next step.
    fn lead(&self, flags: &mut FlagLog) {
        if self.mismatch.is_some() {
            return;
        }
        let rest = &self.steps[self.at..];
        let events = rest.iter().map_while(LogStep::cache_event);
        let is_open = rest.get(events.clone().count()) == Some(&LogStep::Full);
        flags.next_events(events, is_open);
    }

    fn next_input(&mut self, flags: &mut FlagLog) -> Result<Option<PathCall>, Box<Mismatch>> {
        self.follow(flags);
        if let Some(mismatch) = self.mismatch.take() {
            return Err(mismatch);
        }
        match self.next().cloned() {
            None | Some(LogStep::Full) => Ok(None),
            Some(LogStep::Did(input)) => {
                self.at += 1;
                self.lead(flags);
                Ok(Some(input))
            }
            wanted @ Some(LogStep::Saw(..) | LogStep::Gave(_)) => {
                Err(Box::new(Mismatch { at: self.at, wanted, got: None }))
            }
        }
    }

    fn compare(&mut self, got: LogStep) {
        let wanted = self.next();
        if self.mismatch.is_some() || wanted == Some(&LogStep::Full) {
            return;
        }
        if wanted == Some(&got) {
            self.at += 1;
        } else {
            let wanted = wanted.cloned();
            self.mismatch = Some(Box::new(Mismatch { at: self.at, wanted, got: Some(got) }));
        }
    }
}

impl From<CacheEvent> for LogStep {
    fn from(event: CacheEvent) -> Self {
        match event {
            CacheEvent::Saw(what, frame, clear) => Self::Saw(what, frame, clear),
            CacheEvent::Evicted { file, page, frame } => {
                Self::Gave(PathOutput::Evicted { file, page, frame })
            }
        }
    }
}

impl LogStep {
    /// Returns the step as an event of the cache, if it is one.
    fn cache_event(&self) -> Option<CacheEvent> {
        match self {
            Self::Saw(what, frame, clear) => Some(CacheEvent::Saw(*what, *frame, *clear)),
            &Self::Gave(PathOutput::Evicted { file, page, frame }) => {
                Some(CacheEvent::Evicted { file, page, frame })
            }
            Self::Did(_) | Self::Gave(_) | Self::Full => None,
        }
    }
}
