//! Read-ahead: how far ahead of a reader the device should already be working.
//!
//! In:    one page that a reader needs or a marker that it met ([`Ask`]), the window of its last
//!        read-ahead or what its file remembers ([`Streams`]), the largest window allowed
//!        ([`WindowLimits`]), and what is resident ([`Residency`]).
//! Out:   the next [`Window`] and the [`Pattern`] that explains it; or None, enough lies ahead.
//! Never: a clock, a lock, a file, a page's bytes. Same inputs, same window, on every machine.
//!
//! The words are Linux's: start, size, async_size, marker, history, hole. One file per policy in
//! `prefetch/`; golden traces in tests/golden; pictures, tables and sources in docs/readahead.md.

mod adaptive;
mod distance;
mod fixed;
mod linux_2_6_28;
mod linux_2_6_31;
mod linux_6;
pub(crate) mod memory_shares;
mod rules;
mod sizes;
mod streams;
mod thrash_2009;
mod thrash_2010;
pub mod walk;

use core::fmt;

pub(crate) use self::adaptive::{wants, who};
pub use self::distance::Distance;
pub use self::rules::{Rules, Without};
pub use self::streams::Streams;
use crate::units::{ByteCount, MAX_FILE_PAGES, PageIndex, Pages};

/// What a policy may ask of a cache: which pages of the reader's file are resident.
///
/// A page that is on its way from the device counts as resident.
pub trait Residency {
    /// How many pages just before `page` are resident without a gap, counted to at most `limit`.
    fn history(&self, page: PageIndex, limit: Pages) -> Pages;

    /// The first page in `[page, page + limit)` that is not resident; None if all of them are.
    fn next_hole(&self, page: PageIndex, limit: Pages) -> Option<PageIndex>;
}

/// The pages of one read-ahead.
///
/// ```text
///                       |<------ async_size -----|
///   |------------------- size ------------------>|
///   |===================#========================|
///   ^start              ^marker                  ^end = start of the next window
/// ```
///
/// Why a marker on a page, and not a distance kept in the window: two readers of one stream
/// overwrite each other's window, yet each steps on its own marker. The page cache is the only
/// memory that they share, so the trigger lives there.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Window {
    /// The first page.
    pub start: PageIndex,
    /// How many.
    pub size: Pages,
    /// How many of them, at the tail, lie behind the marker.
    pub async_size: Pages,
}

/// Why a policy is asked.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Trigger {
    /// The page is not resident: the reader waits for it.
    Miss,
    /// The page is resident and carried a marker: no reader waits.
    Marker,
}

/// One question to a policy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ask {
    /// The page that is missing, or that carried the marker.
    pub page: PageIndex,
    /// The pages that are left of the read, this one included; not clipped at the end of the file.
    pub count: Pages,
    /// Why we are asked.
    pub trigger: Trigger,
    /// The byte after the last one that the stream's previous read returned; None before the first.
    pub prev_pos: Option<ByteCount>,
    /// Whether the handle waited for the device since it last asked: for this page, or for one that
    /// was on its way.
    pub has_waited: bool,
}

/// What bounds a window.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WindowLimits {
    /// The largest window; no file has more than [`MAX_FILE_PAGES`]. 0 switches read-ahead off.
    pub max: Pages,
    /// The largest request that the device takes, or 0. A read larger than `max` may be one request
    /// of up to this size in the policies that know of it (`linux-6`).
    pub io_pages: Pages,
}

/// What a stream may have of the memory that all streams share.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Allotment {
    /// Its largest window. 0: it had better wait until there is more.
    pub max: Pages,
    /// How many pages are to be ahead of it when it asks for the next one; None: as many as can be.
    pub lead: Option<Pages>,
}

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
    fn limits(self, limits: WindowLimits) -> WindowLimits {
        let max = limits.max.min(MAX_FILE_PAGES);
        match self {
            Self::Normal | Self::Random => limits,
            Self::Sequential => WindowLimits { max: max + max, ..limits },
        }
    }
}

/// What kind of access the policy believes to see.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Pattern {
    /// The start of a stream, at the start of the file.
    Initial0,
    /// The start of a stream elsewhere.
    Initial,
    /// A read larger than the largest window.
    Oversize,
    /// The next window of a known stream.
    Subsequent,
    /// A stream that its own state does not show, found by the pages it left in the cache.
    Context,
    /// A marker of a stream whose state is lost.
    Interleaved,
    /// A stream that reads towards the start of the file.
    Backwards,
    /// A stream that leaves gaps. Of its window only the pieces are read.
    Strided(Stride),
    /// A page of a stream's last window was evicted before its reader came.
    Thrash,
    /// No stream: what is asked for, and nothing more.
    Random,
}

/// The pieces of a window with gaps.
///
/// ```text
///   |<- every ->|
///   |====|------|====|------|====|     the first `read` pages of each
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Stride {
    /// From the start of a piece to that of the next.
    pub every: Pages,
    /// How many pages a piece has.
    pub read: Pages,
}

/// What a policy decided.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Decision {
    /// Why.
    pub pattern: Pattern,
    /// What to read, whether or not some of it is resident or lies past the end of the file.
    pub window: Window,
}

/// A decision and what came of it: one line of a trace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Decided {
    /// The question.
    pub ask: Ask,
    /// The answer. The window of a random read is clipped at the end of the file.
    pub decision: Decision,
    /// How many pages were really asked from the device.
    pub submitted: Pages,
}

/// The read-ahead policies.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Policy {
    /// No read-ahead: each miss reads what is left of its read.
    None,
    /// Linux 2.6.28: windows by state alone, one stream per open file.
    Linux2_6_28,
    /// Linux 2.6.31: the same, and streams found by their history in the page cache.
    Linux2_6_31,
    /// Linux 6.16 and later, on mappings without large folios.
    Linux6,
    /// Never more ahead than was seen to survive behind; linux-2.6.31 where nothing is behind.
    Thrash2009,
    /// A window as large as what survives behind, and care once a page was lost before it came.
    Thrash2010,
    /// Windows of the largest size, each asked for when the one before it is entered.
    Fixed,
    /// The distance ahead doubles when the reader waited, holds, and decays slowly.
    Distance,
    /// The windows of `linux-6` for streams that are found by position, whatever their handle.
    #[default]
    Adaptive,
}

impl Policy {
    /// All of them, in the order of their age.
    pub const ALL: [Self; 9] = [
        Self::None,
        Self::Fixed,
        Self::Linux2_6_28,
        Self::Linux2_6_31,
        Self::Thrash2009,
        Self::Thrash2010,
        Self::Linux6,
        Self::Distance,
        Self::Adaptive,
    ];

    /// The name on the command line and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Linux2_6_28 => "linux-2.6.28",
            Self::Linux2_6_31 => "linux-2.6.31",
            Self::Linux6 => "linux-6",
            Self::Thrash2009 => "thrash-2009",
            Self::Thrash2010 => "thrash-2010",
            Self::Fixed => "fixed",
            Self::Distance => "distance",
            Self::Adaptive => "adaptive",
        }
    }

    /// The policy of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// Decides the next window of a stream of which `state` is remembered, in a file that remembers
    /// `streams`.
    ///
    /// `adaptive` looks at `streams` alone, and keeps them itself. The others look at `state`
    /// alone, which their caller keeps for each handle: the Linux policies at its last window,
    /// which is all that they know. What a policy learns beside windows it notes there itself.
    ///
    /// None means: nothing to read ahead. The page itself may still have to be read, singly.
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
        self.decide_with_lead(state, streams, ask, limits, None, cache)
    }

    /// The same, where a stream of `adaptive` is to ask for its next window only `lead` pages
    /// before the end of this one ([`Allotment`]).
    #[inline]
    #[must_use]
    pub fn decide_with_lead(
        self,
        state: &mut StreamState,
        streams: &mut Streams,
        ask: Ask,
        limits: WindowLimits,
        lead: Option<Pages>,
        cache: &impl Residency,
    ) -> Option<Decision> {
        assert!(ask.count > Pages::ZERO, "a read of no pages asks nothing");
        let limits = WindowLimits { max: limits.max.min(MAX_FILE_PAGES), ..limits };
        match self {
            Self::None => (ask.trigger == Trigger::Miss).then(|| Decision::random(ask, ask.count)),
            // Switched off, these decide nothing; `linux-6` still reads the page that is missing.
            Self::Linux2_6_28
            | Self::Linux2_6_31
            | Self::Thrash2009
            | Self::Thrash2010
            | Self::Fixed
            | Self::Distance
                if limits.max == Pages::ZERO =>
            {
                None
            }
            Self::Linux2_6_28 => linux_2_6_28::decide(state.window, ask, limits, cache),
            Self::Linux2_6_31 => linux_2_6_31::decide(state.window, ask, limits, cache),
            Self::Linux6 => linux_6::decide(state.window, ask, limits, cache),
            Self::Thrash2009 => thrash_2009::decide(state.window, ask, limits, cache),
            Self::Thrash2010 => thrash_2010::decide(state, ask, limits, cache),
            Self::Fixed => fixed::decide(state.window, ask, limits, cache),
            Self::Distance => distance::decide(state, ask, limits, cache),
            Self::Adaptive => adaptive::decide(streams, ask, limits, lead, cache),
        }
    }

    /// Where the marker of `window` goes in a file that ends at `end`, if it gets one.
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
            Self::None
            | Self::Linux2_6_28
            | Self::Linux2_6_31
            | Self::Thrash2009
            | Self::Thrash2010
            | Self::Fixed
            | Self::Distance => window.marker().filter(|marker| *marker < end),
            Self::Linux6 => window.clipped(end).marker(),
            // Nothing lies behind a window that reaches the end of the file.
            Self::Adaptive => window.marker().filter(|_| window.end() < end),
        }
    }
}

impl Window {
    /// One past the last page.
    #[must_use]
    pub fn end(self) -> PageIndex {
        self.start + self.size
    }

    /// The page whose first use asks for the next window; None when nothing lies behind it, or when
    /// the tail is longer than the window.
    #[must_use]
    pub fn marker(self) -> Option<PageIndex> {
        let marked = self.async_size > Pages::ZERO && self.async_size <= self.size;
        marked.then(|| self.start + (self.size - self.async_size))
    }

    /// The part of the window before `end`, with its tail as long as it was.
    #[must_use]
    fn clipped(self, end: PageIndex) -> Self {
        let end = self.end().min(end).max(self.start);
        Self { size: end - self.start, ..self }
    }

    /// The page at which this stream is expected to ask again: where the marker is or, with no
    /// tail, one past the end. A fresh stream expects page 0.
    fn expected(self) -> PageIndex {
        self.start + self.size.saturating_sub(self.async_size)
    }
}

impl Decision {
    /// `count` pages from the page asked for, and no marker.
    fn random(ask: Ask, count: Pages) -> Self {
        let window = Window { start: ask.page, size: count, async_size: Pages::ZERO };
        Self { pattern: Pattern::Random, window }
    }

    /// Whether the stream remembers this window. A random read leaves it as it was, so that one
    /// stray read does not end a stream.
    #[must_use]
    pub fn is_remembered(&self) -> bool {
        self.pattern != Pattern::Random
    }
}

impl Pattern {
    /// The name in traces.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Initial0 => "initial0",
            Self::Initial => "initial",
            Self::Oversize => "oversize",
            Self::Subsequent => "subsequent",
            Self::Context => "context",
            Self::Interleaved => "interleaved",
            Self::Backwards => "backwards",
            Self::Strided(_) => "strided",
            Self::Thrash => "thrash",
            Self::Random => "random",
        }
    }
}

impl Trigger {
    /// As traces print it.
    const fn is_async(self) -> u8 {
        match self {
            Self::Miss => 0,
            Self::Marker => 1,
        }
    }
}

/// The kernel's own trace format, so that a line can be held next to one of a real machine:
/// `subsequent(req=64+32, ra=128+256-256, async=1) = 256`.
impl fmt::Display for Decided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.decision.pattern.name(), self.details())
    }
}

impl Decided {
    /// The line without its pattern, for callers that put the stream's name between the two.
    #[must_use]
    pub fn details(&self) -> impl fmt::Display {
        Details(*self)
    }
}

struct Details(Decided);

impl fmt::Display for Details {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(Decided { ask, decision: Decision { window, .. }, submitted }) = self;
        write!(
            f,
            "(req={}+{}, ra={}+{}-{}, async={}) = {submitted}",
            ask.page,
            ask.count,
            window.start,
            window.size,
            window.async_size,
            ask.trigger.is_async(),
        )
    }
}
