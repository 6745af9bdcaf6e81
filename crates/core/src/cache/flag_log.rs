//! Records reader flags as the cache saw them, and evictions, for the log of a path; in a replay,
//! supplies the recorded values instead. The path takes the events before each of its own steps.
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

/// A flag set by readers, as the path saw it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FlagSeen {
    /// A page at the tail had been used again.
    Referenced,
    /// A page about to be evicted was pinned.
    Pinned,
    /// A page that was evicted, hinted some time ago, or is ahead of a stream that seems to have
    /// ended, had not been used.
    Unused,
    /// A page that was read ahead had been used when the hand looked at it.
    Used,
    /// A page that left other than by eviction was pinned: its frame is an orphan until it is
    /// unpinned.
    Orphaned,
    /// A read met a page that still had its marker.
    Marker,
}

/// An observation or action of the cache that a log keeps.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum CacheEvent {
    /// A flag of a frame's page was set. The number counts the looks since the last event or step
    /// that found their flag clear.
    Saw(FlagSeen, Frame, u32),
    /// A page was evicted because another needed its frame.
    Evicted {
        /// The file of the page.
        file: FileSlot,
        /// The page's index.
        page: PageIndex,
        /// The frame it was evicted from.
        frame: Frame,
    },
}

/// The events of a cache: ignored, recorded, or compared with those of an earlier run.
#[derive(Debug, Default)]
pub(crate) enum FlagLog {
    #[default]
    Off,
    Recording {
        events: Vec<CacheEvent>,
        /// Looks since the last event or step that found their flag clear.
        clear: u32,
    },
    Replaying(EventReplay),
}

/// The recorded events up to the path's next own step.
#[derive(Debug, Default)]
pub(crate) struct EventReplay {
    expected: VecDeque<CacheEvent>,
    /// True if the log was full after these events, so that any event may follow.
    is_open: bool,
    /// Looks since the last event or step that found their flag clear.
    clear: u32,
    /// Number of expected events that occurred.
    came: usize,
    /// The first deviation; after it, events are no longer compared.
    mismatch: Option<EventMismatch>,
    /// Frames that were pinned when their page left the table.
    pinned_orphans: Vec<Frame>,
}

/// The first event of a replay that deviates from the log.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct EventMismatch {
    /// The event of the replay; None if a flag is clear that was set in the log.
    pub(crate) got: Option<CacheEvent>,
}

impl FlagLog {
    pub(crate) const fn recording() -> Self {
        Self::Recording { events: Vec::new(), clear: 0 }
    }

    pub(crate) fn replaying() -> Self {
        Self::Replaying(EventReplay::default())
    }

    /// Records a flag of `frame` as seen. In a replay, returns the recorded value instead.
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

    /// Records an eviction.
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

    /// In a replay, which has no readers: returns true if the recorded run found the frame pinned
    /// here.
    pub(super) fn foretells_pin(&self, frame: Frame) -> bool {
        let Self::Replaying(replay) = self else { return false };
        replay.expected.front() == Some(&CacheEvent::Saw(FlagSeen::Pinned, frame, replay.clear))
    }

    /// In a replay, returns true if the frame was pinned when its page left and has not been
    /// unpinned yet.
    pub(super) fn ends_orphan(&self, frame: Frame) -> bool {
        matches!(self, Self::Replaying(replay) if replay.pinned_orphans.contains(&frame))
    }

    /// Records that an orphan was unpinned.
    pub(super) fn unpinned(&mut self, frame: Frame) {
        if let Self::Replaying(replay) = self {
            replay.pinned_orphans.retain(|&orphan| orphan != frame);
        }
    }

    /// Takes the events since the path's last step; a new step begins.
    pub(crate) fn take_events(&mut self) -> Vec<CacheEvent> {
        let Self::Recording { events, clear } = self else { return Vec::new() };
        *clear = 0;
        mem::take(events)
    }

    /// In a replay, ends a step of the path. `expected` are the events up to its next step; if
    /// `is_open`, any may follow them.
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

    /// In a replay, returns the number of expected events that occurred, and the first deviation.
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

    /// Returns true if events are no longer compared.
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
        // After a deviation the replay's own flags count.
        if self.is_free() {
            return is_so;
        }
        let event = CacheEvent::Saw(what, frame, self.clear);
        let was_so = self.expected.front() == Some(&event);
        // Readers clear `Unused` and `Marker` and set `Referenced` and `Used`. A replay has no
        // readers, so its flag can differ from the recorded one only in the other direction.
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
