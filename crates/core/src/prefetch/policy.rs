//! Read-ahead policies by name, and the function that asks any of them.
//!
//! In:    a question ([`Ask`]), the state of the stream or its file, and residency.
//! Out:   a [`Decision`]; the position of a window's marker.
//! Never: a clock, a lock, a file or page contents. Same inputs, same window everywhere.
//!
//! One file per policy; golden traces in tests/golden; pictures, tables and sources in
//! docs/design/readahead.md.

pub(super) mod adaptive;
pub(super) mod custom;
mod linux_6;
pub(super) mod rules;
pub mod sizes;

use custom::CustomPolicy;

use super::decision::{Allotment, Ask, Decision, Residency, Trigger, Window, WindowLimits};
use super::stream_state::StreamState;
use super::streams::Streams;
use crate::units::{MAX_FILE_PAGES, PageIndex, Pages};

/// Read-ahead policies.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Policy {
    /// No read-ahead: each miss reads the rest of its read.
    None,
    /// Linux 6.16 and later, on mappings without large folios.
    Linux6,
    /// The windows of `linux-6`, for streams found by position instead of by handle.
    #[default]
    Adaptive,
    /// An external policy, without a name here: the simulator has those of old kernels, of the
    /// literature and of other software.
    Custom(&'static dyn CustomPolicy),
}

impl Policy {
    /// All built-in policies.
    pub const ALL: [Self; 3] = [Self::None, Self::Linux6, Self::Adaptive];

    /// Returns the name on the command line and in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Linux6 => "linux-6",
            Self::Adaptive => "adaptive",
            Self::Custom(policy) => policy.name(),
        }
    }

    /// Returns the policy of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// Decides the next window of a stream with this `state`, in a file with these `streams`.
    ///
    /// `adaptive` uses only `streams`, and updates them itself. The others use only `state`, which
    /// the caller keeps for each handle; `linux-6` only looks at the last window in it.
    ///
    /// None means no read-ahead; the page itself may still have to be read alone.
    ///
    /// # Panics
    ///
    /// If `ask.count` is 0.
    #[inline]
    #[must_use]
    pub fn decide(
        self,
        state: &mut StreamState,
        streams: &mut Streams,
        ask: Ask,
        limits: WindowLimits,
        cache: &impl Residency,
    ) -> Option<Decision> {
        self.decide_at(state, streams, ask, limits, None, cache)
    }

    /// Like [`Self::decide`], but a stream of `adaptive` requests its next window only `distance`
    /// pages before the end of this one ([`Allotment`]).
    ///
    /// # Panics
    ///
    /// If `ask.count` is 0.
    #[inline]
    #[must_use]
    pub fn decide_at(
        self,
        state: &mut StreamState,
        streams: &mut Streams,
        ask: Ask,
        limits: WindowLimits,
        distance: Option<Pages>,
        cache: &impl Residency,
    ) -> Option<Decision> {
        let allotment = Allotment::whole(limits.max, distance);
        self.decide_within(state, streams, ask, limits, allotment, cache)
    }

    /// Like [`Self::decide`], for a stream of `adaptive` with this allotment.
    #[inline]
    pub(super) fn decide_within(
        self,
        state: &mut StreamState,
        streams: &mut Streams,
        ask: Ask,
        limits: WindowLimits,
        allotment: Allotment,
        cache: &impl Residency,
    ) -> Option<Decision> {
        assert!(ask.count > Pages::ZERO, "a read of no pages asks nothing");
        let limits = WindowLimits { max: limits.max.min(MAX_FILE_PAGES), ..limits };
        match self {
            Self::None => (ask.trigger == Trigger::Miss).then(|| Decision::random(ask, ask.count)),
            // Switched off, it decides nothing; `linux-6` still reads the missing page.
            Self::Custom(_) if limits.max == Pages::ZERO => None,
            Self::Linux6 => linux_6::decide(state.window, ask, limits, cache),
            Self::Adaptive => {
                let allotment = Allotment { max: limits.max, ..allotment };
                adaptive::decide(streams, ask, allotment, cache)
            }
            Self::Custom(policy) => {
                let decision = policy.decide(state, ask, limits, cache)?;
                let size = decision.window.size.min(policy.largest(ask, limits));
                let window = Window { size, ..decision.window };
                Some(Decision { window, ..decision })
            }
        }
    }

    /// Returns the limits of a window for this question. `adaptive` does not cut a read below its
    /// own size if the device takes it as one request; `linux-6` includes that rule itself.
    pub(super) fn limits_for(self, ask: Ask, limits: WindowLimits) -> WindowLimits {
        if self != Self::Adaptive {
            return limits;
        }
        WindowLimits { max: sizes::largest(ask.count, limits), ..limits }
    }

    /// Returns the page of `window` that gets the marker, in a file that ends at `end`.
    ///
    /// ```text
    ///   window 28+32-32, end 50       linux-6:  |===================|     clipped to 22 pages,
    ///                                           28                  50    22 < 32: no marker
    ///                                 others:   #===================|
    ///                                           28 is marked
    /// ```
    ///
    /// `linux-6` clips the window first and counts the tail back from the clipped end, so near the
    /// end of a file its marker comes earlier, or not at all.
    #[must_use]
    pub fn marker(self, window: Window, end: PageIndex) -> Option<PageIndex> {
        match self {
            Self::None | Self::Custom(_) => window.marker().filter(|marker| *marker < end),
            Self::Linux6 => window.clipped(end).marker(),
            // Nothing follows a window that reaches the end of the file.
            Self::Adaptive => window.marker().filter(|_| window.end() < end),
        }
    }
}
