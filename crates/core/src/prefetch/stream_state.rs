//! What is remembered of one stream between its questions, and what its owner says of it.
//!
//! In:    the last decision; hints of the owner.
//! Out:   the state that a policy decides on.
//! Never: a rule.

use super::decision::{Window, WindowLimits};
use crate::units::{MAX_FILE_PAGES, Pages};

/// What is remembered of one stream.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct StreamState {
    /// Its last window; all zeros before the first.
    pub window: Window,
    /// The last pages that it asked for, at random or not: the rule `backwards` looks at them.
    pub fetched: Window,
    /// Whether it was moved by an explicit seek and has asked for nothing since: the rule `lseek`
    /// looks at it.
    pub seeked: bool,
    /// Whether it met a page on its way, and has asked for nothing since.
    pub has_waited: bool,
    /// Whether it ever lost a page of a window before it came: `thrash-2010` looks at it.
    pub has_thrashed: bool,
    /// How far ahead it asks: `distance` keeps it.
    pub distance: Distance,
    /// What a policy from outside remembers ([`CustomPolicy`]); the others leave it as it is.
    ///
    /// [`CustomPolicy`]: super::CustomPolicy
    pub memory: [u64; 8],
}

/// How far ahead a stream asks for its next window; zeros before its first.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Distance {
    /// So many pages are still ahead when the next window is asked for.
    pub ahead: Pages,
    /// So many pages more must be read without a wait before it becomes less.
    pub holds: Pages,
}

/// What the owner of a stream says of it.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Advice {
    /// Nothing.
    #[default]
    Normal,
    /// It reads from front to back: windows may be twice as large.
    Sequential,
    /// It reads here and there: a miss reads what is left of its read, and nothing is remembered.
    Random,
}

impl Advice {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Normal, Self::Sequential, Self::Random];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Sequential => "sequential",
            Self::Random => "random",
        }
    }

    /// The advice of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|advice| advice.name() == name)
    }

    /// What bounds the windows of a stream with this advice.
    pub(super) fn limits(self, limits: WindowLimits) -> WindowLimits {
        let max = limits.max.min(MAX_FILE_PAGES);
        match self {
            Self::Normal | Self::Random => limits,
            Self::Sequential => WindowLimits { max: max + max, ..limits },
        }
    }
}
