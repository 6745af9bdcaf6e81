//! State of one stream between its questions, and the application's advice about it.

use super::decision::{Window, WindowLimits};
use crate::units::{ByteCount, MAX_FILE_PAGES};

/// State of one stream, kept for the policy.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct StreamState {
    /// Last window; all zeros before the first.
    pub window: Window,
    /// Byte after the last one that the stream's previous read returned; None before the first
    /// read. The caller sets it before each read or marker.
    pub prev_pos: Option<ByteCount>,
    /// Pages last requested, at random or not, for the rule `backwards`.
    pub fetched: Window,
    /// The stream was moved by an explicit seek and has requested nothing since; for the rule
    /// `lseek`.
    pub seeked: bool,
    /// The stream met a page in flight and has requested nothing since.
    pub has_waited: bool,
    /// State of a policy from outside ([`CustomPolicy`]); built-in policies leave it alone.
    ///
    /// [`CustomPolicy`]: super::CustomPolicy
    pub memory: [u64; 8],
}

/// Advice of the application about a stream.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Advice {
    /// No advice.
    #[default]
    Normal,
    /// Sequential access: windows may be twice as large.
    Sequential,
    /// Random access: a miss reads the rest of its read, and no state is kept.
    Random,
}

impl Advice {
    /// All variants.
    pub const ALL: [Self; 3] = [Self::Normal, Self::Sequential, Self::Random];

    /// Returns the name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Sequential => "sequential",
            Self::Random => "random",
        }
    }

    /// Returns the advice of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|advice| advice.name() == name)
    }

    /// Returns the window limits of a stream with this advice.
    pub(super) fn limits(self, limits: WindowLimits) -> WindowLimits {
        let max = limits.max.min(MAX_FILE_PAGES);
        match self {
            Self::Normal | Self::Random => limits,
            Self::Sequential => WindowLimits { max: max + max, ..limits },
        }
    }
}
