//! What the cache saw of flags that readers change, and which pages it evicted.
//!
//! In:    the result of each look at a flag; each eviction.
//! Out:   events, in their order, for the log of a path; in a replay, the results as they were.
//! Never: a call, or the log itself. The path takes the events before each of its own steps.
//!
//! ```text
//!   path      did(read)                          gave(read 7)          did(poll)
//!   cache                saw(..)  evicted  saw(..)           (taken)
//! ```

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::mem;

use crate::table::{FileSlot, Frame};
use crate::units::PageIndex;

/// What the path saw of its readers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FlagSeen {
    /// A page at the tail had been used again.
    Referenced,
    /// A page at the tail was pinned.
    Pinned,
    /// A page that was evicted, that was hinted some time ago, or that lies ahead of a stream that
    /// seems to have ended, had not been used.
    Unused,
    /// A page that was read ahead, and that was looked at before it reached a tail, had been used.
    Used,
    /// A page that left otherwise was pinned: its frame is an orphan until it is unpinned.
    Orphaned,
    /// A read met a page that still had its marker.
    Marker,
}

/// Something that the cache saw or did, and that a log keeps.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum CacheEvent {
    /// A flag of a frame's page was set; so many looks before it, since the last event or step,
    /// found theirs clear.
    Saw(FlagSeen, Frame, u32),
    /// A page left because another needed its frame.
    Evicted {
        /// Of which file.
        file: FileSlot,
        /// Which.
        page: PageIndex,
        /// From where.
        frame: Frame,
    },
}

/// The events of a cache: not kept, kept, or compared with those of an earlier run.
#[derive(Debug, Default)]
pub(crate) enum FlagLog {
    #[default]
    Off,
    Recording {
        events: Vec<CacheEvent>,
        /// How many looks have found a flag clear since the last event or step.
        clear: u32,
    },
    Replaying(EventReplay),
}

/// The events that are to come, until the path's next own step.
#[derive(Debug, Default)]
pub(crate) struct EventReplay {
    expected: VecDeque<CacheEvent>,
    /// Whether anything may come after those: the log was full there.
    is_open: bool,
    /// How many looks have found a flag clear since the last event or step.
    clear: u32,
    /// How many of the expected events came.
    came: usize,
    /// The first that came otherwise; from there on anything may come.
    mismatch: Option<EventMismatch>,
    /// The frames whose pins were seen at the end of their page.
    pinned_orphans: Vec<Frame>,
}

/// Where a replay's events went otherwise.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct EventMismatch {
    /// What came; None if a flag is clear that was set.
    pub(crate) got: Option<CacheEvent>,
}

impl FlagLog {
    pub(crate) const fn recording() -> Self {
        Self::Recording { events: Vec::new(), clear: 0 }
    }

    pub(crate) fn replaying() -> Self {
        Self::Replaying(EventReplay::default())
    }

    /// Records the result of a look at the flags of `frame`. In a replay, returns the recorded one.
    #[inline]
    pub(super) fn saw(&mut self, what: FlagSeen, frame: Frame, is_so: bool) -> bool {
        match self {
            Self::Off => is_so,
            Self::Recording { events, clear } => {
                if is_so {
                    events.push(CacheEvent::Saw(what, frame, mem::take(clear)));
                } else {
                    *clear = clear.wrapping_add(1);
                }
                is_so
            }
            Self::Replaying(replay) => replay.saw(what, frame, is_so),
        }
    }

    /// A page was evicted.
    #[inline]
    pub(super) fn evicted(&mut self, file: FileSlot, page: PageIndex, frame: Frame) {
        let event = CacheEvent::Evicted { file, page, frame };
        match self {
            Self::Off => {}
            Self::Recording { events, clear } => {
                *clear = 0;
                events.push(event);
            }
            Self::Replaying(replay) => replay.compare(event),
        }
    }

    /// In a replay, which has no readers: whether the recorded run found the frame pinned here.
    pub(super) fn foretells_pin(&self, frame: Frame) -> bool {
        let Self::Replaying(replay) = self else { return false };
        replay.expected.front() == Some(&CacheEvent::Saw(FlagSeen::Pinned, frame, replay.clear))
    }

    /// Whether the frame has pins, at the end of its page, that have not ended yet; in a replay.
    pub(super) fn ends_orphan(&self, frame: Frame) -> bool {
        matches!(self, Self::Replaying(replay) if replay.pinned_orphans.contains(&frame))
    }

    /// Those pins have ended.
    pub(super) fn unpinned(&mut self, frame: Frame) {
        if let Self::Replaying(replay) = self {
            replay.pinned_orphans.retain(|&orphan| orphan != frame);
        }
    }

    /// The events since the last step of the path, which makes one now.
    pub(crate) fn take_events(&mut self) -> Vec<CacheEvent> {
        let Self::Recording { events, clear } = self else { return Vec::new() };
        *clear = 0;
        mem::take(events)
    }

    /// In a replay, ends a step of the path: how many of the expected events came, and the first
    /// that came otherwise. `expected` are those until the path's next step.
    pub(crate) fn next_events(
        &mut self,
        expected: impl Iterator<Item = CacheEvent>,
        is_open: bool,
    ) {
        if let Self::Replaying(replay) = self {
            replay.expected.clear();
            replay.expected.extend(expected);
            (replay.is_open, replay.clear, replay.came) = (is_open, 0, 0);
        }
    }

    /// In a replay, how many of the expected events came, and the first that came otherwise.
    pub(crate) fn progress(&self) -> (usize, Option<EventMismatch>) {
        match self {
            Self::Replaying(replay) => (replay.came, replay.mismatch),
            Self::Off | Self::Recording { .. } => (0, None),
        }
    }
}

impl EventReplay {
    fn go_on(&mut self) {
        let expected = self.expected.pop_front();
        debug_assert!(expected.is_some(), "what came was expected");
        self.came += 1;
        self.clear = 0;
    }

    /// Whether nothing is compared from here on.
    fn is_free(&self) -> bool {
        self.mismatch.is_some() || self.is_open && self.expected.is_empty()
    }

    fn compare(&mut self, got: CacheEvent) {
        if self.is_free() {
            return;
        }
        if self.expected.front() == Some(&got) {
            self.go_on();
        } else {
            self.mismatch = Some(EventMismatch { got: Some(got) });
        }
    }

    fn saw(&mut self, what: FlagSeen, frame: Frame, is_so: bool) -> bool {
        // From there on the flags are as the replay has them: anything goes, and nothing counts.
        if self.is_free() {
            return is_so;
        }
        let event = CacheEvent::Saw(what, frame, self.clear);
        let was_so = self.expected.front() == Some(&event);
        // Readers clear the first two and set the next; here are none. So it cannot be otherwise.
        let is_possible = match what {
            FlagSeen::Unused | FlagSeen::Marker => is_so || !was_so,
            FlagSeen::Referenced | FlagSeen::Used => was_so || !is_so,
            FlagSeen::Pinned | FlagSeen::Orphaned => true,
        };
        if !is_possible {
            self.mismatch = Some(EventMismatch { got: is_so.then_some(event) });
            return is_so;
        }
        if was_so {
            self.go_on();
        } else {
            self.clear = self.clear.wrapping_add(1);
        }
        if was_so && what == FlagSeen::Orphaned {
            debug_assert!(!self.pinned_orphans.contains(&frame), "{frame:?} is an orphan already");
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
        let looks = [(1, false), (2, false), (1, true)];
        let mut recording = FlagLog::recording();
        for (frame, is_so) in looks {
            assert_eq!(recording.saw(FlagSeen::Used, Frame(frame), is_so), is_so);
        }
        let events = recording.take_events();
        assert_eq!(events, [CacheEvent::Saw(FlagSeen::Used, Frame(1), 2)]);
        let mut replaying = FlagLog::replaying();
        replaying.next_events(events.into_iter(), false);
        for (frame, was_so) in looks {
            assert_eq!(replaying.saw(FlagSeen::Used, Frame(frame), false), was_so);
        }
        assert_eq!(replaying.progress(), (1, None));
    }

    #[test]
    fn a_pin_that_is_met_at_the_second_look_is_not_foretold_at_the_first() {
        let mut recording = FlagLog::recording();
        assert!(!recording.saw(FlagSeen::Pinned, Frame(1), false));
        assert!(recording.saw(FlagSeen::Pinned, Frame(1), true));
        let mut replaying = FlagLog::replaying();
        replaying.next_events(recording.take_events().into_iter(), false);
        assert!(!replaying.foretells_pin(Frame(1)));
        assert!(!replaying.saw(FlagSeen::Pinned, Frame(1), false));
        assert!(replaying.foretells_pin(Frame(1)));
    }

    #[test]
    fn an_eviction_of_another_page_is_a_mismatch_and_after_it_anything_may_come() {
        let mut replaying = FlagLog::replaying();
        let event = |page| CacheEvent::Evicted {
            file: FileSlot(1),
            page: PageIndex(page),
            frame: Frame(3),
        };
        replaying.next_events([event(7)].into_iter(), false);
        replaying.evicted(FileSlot(1), PageIndex(8), Frame(3));
        assert_eq!(replaying.progress(), (0, Some(EventMismatch { got: Some(event(8)) })));
        assert!(replaying.saw(FlagSeen::Referenced, Frame(9), true));
    }
}
