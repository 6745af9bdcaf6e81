//! A log while it is written, and while it is followed.
//!
//! In:    each step, as it happens; in a replay, the steps that happened.
//! Out:   the result of a look at a flag, then or now; the first step that went otherwise.
//! Never: a step of its own: what is called, seen and said is its path's.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem;

use super::{FlagSeen, LogStep, Mismatch, PathCall, PathOutput};
use crate::table::Frame;

/// What a path does with its log: nothing, write it, or follow it.
#[derive(Debug, Default)]
pub(crate) enum CallLog {
    #[default]
    Off,
    Recording {
        steps: Vec<LogStep>,
        limit: usize,
        is_full: bool,
        /// How many looks have found a flag clear since the last step.
        clear: u32,
    },
    Replaying(Box<LogReplay>),
}

#[derive(Debug)]
pub(crate) struct LogReplay {
    steps: Vec<LogStep>,
    at: usize,
    /// How many looks have found a flag clear since the last step.
    clear: u32,
    mismatch: Option<Box<Mismatch>>,
    /// The frames whose pins the log has seen at the end of their page.
    pinned_orphans: Vec<Frame>,
}

impl CallLog {
    pub(crate) fn recording(limit: usize) -> Self {
        Self::Recording { steps: Vec::new(), limit, is_full: false, clear: 0 }
    }

    pub(super) fn replaying(steps: Vec<LogStep>) -> Self {
        let replay =
            LogReplay { steps, at: 0, clear: 0, mismatch: None, pinned_orphans: Vec::new() };
        Self::Replaying(Box::new(replay))
    }

    /// The steps since the last time. There is room for as many again.
    pub(crate) fn take(&mut self) -> Vec<LogStep> {
        match self {
            Self::Recording { steps, .. } => mem::take(steps),
            Self::Off | Self::Replaying(_) => Vec::new(),
        }
    }

    /// Notes a call.
    #[inline]
    pub(crate) fn did(&mut self, input: impl FnOnce() -> PathCall) {
        if let Self::Recording { .. } = self {
            self.push(LogStep::Did(input()));
        }
    }

    /// Notes what the path says.
    #[inline]
    pub(crate) fn gave(&mut self, output: impl FnOnce() -> PathOutput) {
        match self {
            Self::Off => {}
            Self::Recording { .. } => self.push(LogStep::Gave(output())),
            Self::Replaying(replay) => replay.compare(LogStep::Gave(output())),
        }
    }

    /// Records the result of a look at the flags of `frame`. In a replay, returns the recorded one.
    #[inline]
    pub(crate) fn saw(&mut self, what: FlagSeen, frame: Frame, is_so: bool) -> bool {
        match self {
            Self::Off => is_so,
            Self::Recording { clear, .. } => {
                if is_so {
                    let step = LogStep::Saw(what, frame, *clear);
                    self.push(step);
                } else {
                    *clear = clear.wrapping_add(1);
                }
                is_so
            }
            Self::Replaying(replay) => replay.saw(what, frame, is_so),
        }
    }

    /// In a replay, which has no readers: whether the recorded run found the frame pinned here.
    pub(crate) fn foretells_pin(&self, frame: Frame) -> bool {
        let Self::Replaying(replay) = self else { return false };
        replay.next() == Some(&LogStep::Saw(FlagSeen::Pinned, frame, replay.clear))
    }

    /// Whether the frame has pins, at the end of its page, that have not ended yet; in a replay.
    pub(crate) fn ends_orphan(&self, frame: Frame) -> bool {
        matches!(self, Self::Replaying(replay) if replay.pinned_orphans.contains(&frame))
    }

    /// Notes that those pins have ended.
    pub(crate) fn unpinned(&mut self, frame: Frame) {
        if let Self::Replaying(replay) = self {
            replay.pinned_orphans.retain(|&orphan| orphan != frame);
        }
    }

    fn push(&mut self, step: LogStep) {
        let Self::Recording { steps, limit, is_full, clear } = self else { return };
        *clear = 0;
        if *is_full {
            return;
        }
        *is_full = steps.len() >= *limit;
        steps.push(if *is_full { LogStep::Full } else { step });
    }

    pub(super) fn at(&self) -> usize {
        match self {
            Self::Replaying(replay) => replay.at,
            Self::Off | Self::Recording { .. } => 0,
        }
    }

    pub(super) fn next_input(&mut self) -> Result<Option<PathCall>, Box<Mismatch>> {
        match self {
            Self::Replaying(replay) => replay.next_input(),
            Self::Off | Self::Recording { .. } => Ok(None),
        }
    }
}

impl LogReplay {
    fn next(&self) -> Option<&LogStep> {
        self.steps.get(self.at)
    }

    fn go_on(&mut self) {
        self.at += 1;
        self.clear = 0;
    }

    fn next_input(&mut self) -> Result<Option<PathCall>, Box<Mismatch>> {
        if let Some(mismatch) = self.mismatch.take() {
            return Err(mismatch);
        }
        match self.next().cloned() {
            None | Some(LogStep::Full) => Ok(None),
            Some(LogStep::Did(input)) => {
                self.go_on();
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
            self.go_on();
        } else {
            let wanted = wanted.cloned();
            self.mismatch = Some(Box::new(Mismatch { at: self.at, wanted, got: Some(got) }));
        }
    }

    fn saw(&mut self, what: FlagSeen, frame: Frame, is_so: bool) -> bool {
        let step = LogStep::Saw(what, frame, self.clear);
        // From there on the flags are as the replay has them: anything goes, and nothing counts.
        if self.mismatch.is_some() || self.next() == Some(&LogStep::Full) {
            return is_so;
        }
        let was_so = self.next() == Some(&step);
        // Readers clear the first two and set the next; here are none. So it cannot be otherwise.
        let is_possible = match what {
            FlagSeen::Unused | FlagSeen::Marker => is_so || !was_so,
            FlagSeen::Referenced | FlagSeen::Used => was_so || !is_so,
            FlagSeen::Pinned | FlagSeen::Orphaned => true,
        };
        if !is_possible {
            let (wanted, got) = (self.next().cloned(), is_so.then_some(step));
            self.mismatch = Some(Box::new(Mismatch { at: self.at, wanted, got }));
            return is_so;
        }
        if was_so {
            self.go_on();
        } else {
            self.clear = self.clear.wrapping_add(1);
        }
        if was_so && what == FlagSeen::Orphaned {
            self.pinned_orphans.push(frame);
        }
        was_so
    }
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_that_is_set_at_the_second_look_is_not_set_at_the_first() {
        let looks =
            [(FlagSeen::Used, 1, false), (FlagSeen::Used, 2, false), (FlagSeen::Used, 1, true)];
        let mut recording = CallLog::recording(usize::MAX);
        for (what, frame, is_so) in looks {
            assert_eq!(recording.saw(what, Frame(frame), is_so), is_so);
        }
        let steps = recording.take();
        assert_eq!(steps, [LogStep::Saw(FlagSeen::Used, Frame(1), 2)]);
        let mut replaying = CallLog::replaying(steps);
        for (what, frame, was_so) in looks {
            assert_eq!(replaying.saw(what, Frame(frame), false), was_so);
        }
    }

    #[test]
    fn a_pin_that_is_met_at_the_second_look_is_not_foretold_at_the_first() {
        let mut recording = CallLog::recording(usize::MAX);
        assert!(!recording.saw(FlagSeen::Pinned, Frame(1), false));
        assert!(recording.saw(FlagSeen::Pinned, Frame(1), true));
        let mut replaying = CallLog::replaying(recording.take());
        assert!(!replaying.foretells_pin(Frame(1)));
        assert!(!replaying.saw(FlagSeen::Pinned, Frame(1), false));
        assert!(replaying.foretells_pin(Frame(1)));
    }
}
