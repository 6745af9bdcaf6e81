//! A question to a policy, and its answer: which window is read ahead, and why.
//!
//! In:    one page that a reader needs or a marker that it met ([`Ask`]), what bounds its windows
//!        ([`WindowLimits`], [`Allotment`]), and what is resident ([`Residency`]).
//! Out:   the next [`Window`] and the [`Pattern`] that explains it ([`Decision`]).
//! Never: a rule. Those are the policies'.

use core::fmt;

use crate::units::{ByteCount, PageIndex, Pages};

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
    /// The largest window; no file has more than [`MAX_FILE_PAGES`](crate::units::MAX_FILE_PAGES).
    /// 0 switches read-ahead off.
    pub max: Pages,
    /// The largest request that the device takes, or 0. A read larger than `max` may be one request
    /// of up to this size in the policies that know of it (`linux-6`, `adaptive`).
    pub io_pages: Pages,
}

/// What a stream may have of the memory that all streams share.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Allotment {
    /// Its largest window. 0: it had better wait until there is more.
    pub max: Pages,
    /// How many pages are to be ahead of it when it asks for the next one; None: as many as can be.
    pub distance: Option<Pages>,
    /// The cheapest size of its next window for how long streams run, with what its reader waits
    /// for; None: too little is known, and it grows from the one before.
    pub run: Option<Pages>,
    /// Whether a stream that begins anywhere is likely to go backwards.
    pub begins_backwards: bool,
    /// Whether the requests of a window are served at once: windows grow fourfold up to the
    /// largest.
    pub is_far: bool,
    /// Where the next stream behind this one began that is read now, on such a device: its window
    /// ends there.
    pub next_stream: Option<PageIndex>,
}

impl Allotment {
    /// As much as the limit, for a stream of which nothing is known.
    #[must_use]
    pub const fn whole(max: Pages, distance: Option<Pages>) -> Self {
        Self { max, distance, run: None, begins_backwards: false, is_far: false, next_stream: None }
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
    pub(super) fn clipped(self, end: PageIndex) -> Self {
        let end = self.end().min(end).max(self.start);
        debug_assert!(end <= self.end(), "a clipped window is no longer than it was");
        Self { size: end - self.start, ..self }
    }

    /// The page at which this stream is expected to ask again: where the marker is or, with no
    /// tail, one past the end. A fresh stream expects page 0.
    pub(super) fn expected(self) -> PageIndex {
        self.start + self.size.saturating_sub(self.async_size)
    }
}

impl Decision {
    /// `count` pages from the page asked for, and no marker.
    pub(super) fn random(ask: Ask, count: Pages) -> Self {
        debug_assert!(count > Pages::ZERO, "a read at random reads at least one page");
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
