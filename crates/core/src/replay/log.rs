//! A log while it is written, and while it is followed.
//!
//! In:    each step, as it happens; in a replay, the steps that happened.
//! Out:   the result of a look at a flag, then or now; the first step that went otherwise.
//! Never: a step of its own: what is called, seen and said is its path's.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem;

use super::{Input, Mismatch, Output, Seen, Step};
use crate::table::Frame;

/// What a path does with its log: nothing, write it, or follow it.
#[derive(Debug, Default)]
pub(crate) enum Log {
    #[default]
    Off,
    Recording {
        steps: Vec<Step>,
        limit: usize,
        is_full: bool,
        /// How many looks have found a flag clear since the last step.
        clear: u32,
    },
    Replaying(Box<Replay>),
}

#[derive(Debug)]
pub(crate) struct Replay {
    steps: Vec<Step>,
    at: usize,
    /// How many looks have found a flag clear since the last step.
    clear: u32,
    mismatch: Option<Box<Mismatch>>,
    /// The frames whose pins the log has seen at the end of their page.
    pinned_orphans: Vec<Frame>,
}

impl Log {
    pub(crate) fn recording(limit: usize) -> Self {
        Self::Recording { steps: Vec::new(), limit, is_full: false, clear: 0 }
    }

    pub(super) fn replaying(steps: Vec<Step>) -> Self {
        let replay = Replay { steps, at: 0, clear: 0, mismatch: None, pinned_orphans: Vec::new() };
        Self::Replaying(Box::new(replay))
    }

    /// The steps since the last time. There is room for as many again.
    pub(crate) fn take(&mut self) -> Vec<Step> {
        match self {
            Self::Recording { steps, .. } => mem::take(steps),
            Self::Off | Self::Replaying(_) => Vec::new(),
        }
    }

    /// Notes a call.
    #[inline]
    pub(crate) fn did(&mut self, input: impl FnOnce() -> Input) {
        if let Self::Recording { .. } = self {
            self.push(Step::Did(input()));
        }
    }

    /// Notes what the path says.
    #[inline]
    pub(crate) fn gave(&mut self, output: impl FnOnce() -> Output) {
        match self {
            Self::Off => {}
            Self::Recording { .. } => self.push(Step::Gave(output())),
            Self::Replaying(replay) => replay.compare(Step::Gave(output())),
        }
    }

    /// Records the result of a look at the flags of `frame`. In a replay, returns the recorded one.
    #[inline]
    pub(crate) fn saw(&mut self, what: Seen, frame: Frame, is_so: bool) -> bool {
        match self {
            Self::Off => is_so,
            Self::Recording { clear, .. } => {
                if is_so {
                    let step = Step::Saw(what, frame, *clear);
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
        replay.next() == Some(&Step::Saw(Seen::Pinned, frame, replay.clear))
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

    fn push(&mut self, step: Step) {
        let Self::Recording { steps, limit, is_full, clear } = self else { return };
        *clear = 0;
        if *is_full {
            return;
        }
        *is_full = steps.len() >= *limit;
        steps.push(if *is_full { Step::Full } else { step });
    }

    pub(super) fn at(&self) -> usize {
        match self {
            Self::Replaying(replay) => replay.at,
            Self::Off | Self::Recording { .. } => 0,
        }
    }

    pub(super) fn next_input(&mut self) -> Result<Option<Input>, Box<Mismatch>> {
        match self {
            Self::Replaying(replay) => replay.next_input(),
            Self::Off | Self::Recording { .. } => Ok(None),
        }
    }
}

impl Replay {
    fn next(&self) -> Option<&Step> {
        self.steps.get(self.at)
    }

    fn go_on(&mut self) {
        self.at += 1;
        self.clear = 0;
    }

    fn next_input(&mut self) -> Result<Option<Input>, Box<Mismatch>> {
        if let Some(mismatch) = self.mismatch.take() {
            return Err(mismatch);
        }
        match self.next().cloned() {
            None | Some(Step::Full) => Ok(None),
            Some(Step::Did(input)) => {
                self.go_on();
                Ok(Some(input))
            }
            wanted @ Some(Step::Saw(..) | Step::Gave(_)) => {
                Err(Box::new(Mismatch { at: self.at, wanted, got: None }))
            }
        }
    }

    fn compare(&mut self, got: Step) {
        let wanted = self.next();
        if self.mismatch.is_some() || wanted == Some(&Step::Full) {
            return;
        }
        if wanted == Some(&got) {
            self.go_on();
        } else {
            let wanted = wanted.cloned();
            self.mismatch = Some(Box::new(Mismatch { at: self.at, wanted, got: Some(got) }));
        }
    }

    fn saw(&mut self, what: Seen, frame: Frame, is_so: bool) -> bool {
        let step = Step::Saw(what, frame, self.clear);
        // From there on the flags are as the replay has them: anything goes, and nothing counts.
        if self.mismatch.is_some() || self.next() == Some(&Step::Full) {
            return is_so;
        }
        let was_so = self.next() == Some(&step);
        // Readers clear the first two and set the next; here are none. So it cannot be otherwise.
        let is_possible = match what {
            Seen::Unused | Seen::Marker => is_so || !was_so,
            Seen::Referenced | Seen::Used => was_so || !is_so,
            Seen::Pinned | Seen::Orphaned => true,
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
        if was_so && what == Seen::Orphaned {
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
        let looks = [(Seen::Used, 1, false), (Seen::Used, 2, false), (Seen::Used, 1, true)];
        let mut recording = Log::recording(usize::MAX);
        for (what, frame, is_so) in looks {
            assert_eq!(recording.saw(what, Frame(frame), is_so), is_so);
        }
        let steps = recording.take();
        assert_eq!(steps, [Step::Saw(Seen::Used, Frame(1), 2)]);
        let mut replaying = Log::replaying(steps);
        for (what, frame, was_so) in looks {
            assert_eq!(replaying.saw(what, Frame(frame), false), was_so);
        }
    }

    #[test]
    fn a_pin_that_is_met_at_the_second_look_is_not_foretold_at_the_first() {
        let mut recording = Log::recording(usize::MAX);
        assert!(!recording.saw(Seen::Pinned, Frame(1), false));
        assert!(recording.saw(Seen::Pinned, Frame(1), true));
        let mut replaying = Log::replaying(recording.take());
        assert!(!replaying.foretells_pin(Frame(1)));
        assert!(!replaying.saw(Seen::Pinned, Frame(1), false));
        assert!(replaying.foretells_pin(Frame(1)));
    }
}
