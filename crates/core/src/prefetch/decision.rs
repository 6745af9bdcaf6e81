//! A question to a policy ([`Ask`]) and its answer ([`Decision`]): which window to read ahead, and
//! why.
//!
//! [`WindowLimits`] and [`Allotment`] bound the answer; [`Residency`] shows the cache's contents.

use core::fmt;

use crate::units::{ByteCount, PageIndex, Pages};

/// Residency of a file's pages, as a policy sees it. Pages in flight count as resident.
pub trait Residency {
    /// Returns the length of the resident run just before `page`, counted up to `limit`.
    fn history(&self, page: PageIndex, limit: Pages) -> Pages;

    /// Returns the first page in `[page, page + limit)` that is not resident, or None.
    fn next_hole(&self, page: PageIndex, limit: Pages) -> Option<PageIndex>;
}

/// Pages of one read-ahead.
///
/// ```text
///                       |<------ async_size -----|
///   |------------------- size ------------------>|
///   |===================#========================|
///   ^start              ^marker                  ^end = start of the next window
/// ```
///
/// The marker is on a page instead of a distance in the window, because two readers of one stream
/// overwrite each other's window, yet each reaches its own marker. The page cache is the only state
/// that they share.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Window {
    /// First page.
    pub start: PageIndex,
    /// Number of pages.
    pub size: Pages,
    /// Number of pages at the tail, from the marker on.
    pub async_size: Pages,
}

/// Reason for asking a policy.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Trigger {
    /// The page is not resident, and the reader waits for it.
    Miss,
    /// The page is resident and carried a marker; no reader waits.
    Marker,
}

/// A question to a policy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ask {
    /// Page that is missing or carried the marker.
    pub page: PageIndex,
    /// Pages left of the read, including this one; not clipped at the end of the file.
    pub count: Pages,
    /// Reason for the question.
    pub trigger: Trigger,
    /// Byte after the last one that the stream's previous read returned; None before the first
    /// read.
    pub prev_pos: Option<ByteCount>,
    /// The handle waited for the device since its last question: for this page, or for one in
    /// flight.
    pub has_waited: bool,
}

/// Limits of a window.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WindowLimits {
    /// Largest window; no file has more than [`MAX_FILE_PAGES`](crate::units::MAX_FILE_PAGES). 0
    /// switches read-ahead off.
    pub max: Pages,
    /// Largest request of the device, or 0. With `linux-6` and `adaptive`, a read larger than `max`
    /// may be one request of up to this size.
    pub io_pages: Pages,
}

/// A stream's part of the memory that all streams share.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Allotment {
    /// Largest window. 0: wait until memory is available.
    pub max: Pages,
    /// Prefetch distance: pages still ahead when the next window is requested; None for the largest
    /// possible.
    pub distance: Option<Pages>,
    /// Cheapest size of the next window given how long streams run, including the pages that the
    /// reader waits for. None while too little is known: the window then grows from the previous
    /// one.
    pub run: Option<Pages>,
    /// A stream that begins in the middle of the file probably goes backwards.
    pub begins_backwards: bool,
    /// The device serves the requests of a window concurrently: windows grow fourfold, up to the
    /// largest.
    pub is_far: bool,
    /// On such a device, the start of the next active stream behind this one: its window ends
    /// there.
    pub next_stream: Option<PageIndex>,
}

impl Allotment {
    /// Returns an allotment of the full limit, for a stream without history.
    #[must_use]
    pub const fn whole(max: Pages, distance: Option<Pages>) -> Self {
        Self { max, distance, run: None, begins_backwards: false, is_far: false, next_stream: None }
    }
}

/// Kind of access that the policy recognised.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Pattern {
    /// Start of a stream at the start of the file.
    Initial0,
    /// Start of a stream elsewhere.
    Initial,
    /// A read larger than the largest window.
    Oversize,
    /// Next window of a known stream.
    Subsequent,
    /// A stream without matching state, recognised by the pages it left in the cache.
    Context,
    /// Marker of a stream whose state was overwritten.
    Interleaved,
    /// A stream towards the start of the file.
    Backwards,
    /// A stream with gaps; only the pieces of its window are read.
    Strided(Stride),
    /// A page of the stream's last window was evicted before its reader used it.
    Thrash,
    /// No stream: only the requested pages are read.
    Random,
}

/// Pieces of a window with gaps.
///
/// ```text
///   |<- every ->|
///   |====|------|====|------|====|     the first `read` pages of each
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Stride {
    /// Distance between the starts of two pieces.
    pub every: Pages,
    /// Pages in a piece.
    pub read: Pages,
}

/// A policy's answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Decision {
    /// Recognised pattern.
    pub pattern: Pattern,
    /// Pages to read. Some may be resident, or past the end of the file.
    pub window: Window,
}

/// A decision and its outcome: one line of a trace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Decided {
    /// Question.
    pub ask: Ask,
    /// Answer. The window of a random read is clipped at the end of the file.
    pub decision: Decision,
    /// Pages requested from the device.
    pub submitted: Pages,
}

impl Window {
    /// Returns the first page after the window.
    #[must_use]
    pub fn end(self) -> PageIndex {
        self.start + self.size
    }

    /// Returns the page whose first use requests the next window. None without a tail, or if the
    /// tail is longer than the window.
    #[must_use]
    pub fn marker(self) -> Option<PageIndex> {
        let marked = self.async_size > Pages::ZERO && self.async_size <= self.size;
        marked.then(|| self.start + (self.size - self.async_size))
    }

    /// Returns the part of the window before `end`, with the same tail length.
    #[must_use]
    pub(super) fn clipped(self, end: PageIndex) -> Self {
        let end = self.end().min(end).max(self.start);
        debug_assert!(end <= self.end(), "a clipped window is no longer than it was");
        Self { size: end - self.start, ..self }
    }

    /// Returns the page at which this stream should ask again: the marker or, without a tail, the
    /// page after the window. A fresh stream expects page 0.
    #[must_use]
    pub fn expected(self) -> PageIndex {
        self.start + self.size.saturating_sub(self.async_size)
    }
}

impl Decision {
    /// Creates a decision to read `count` pages at the requested page, without a marker.
    #[must_use]
    pub fn random(ask: Ask, count: Pages) -> Self {
        debug_assert!(count > Pages::ZERO, "a read at random reads at least one page");
        let window = Window { start: ask.page, size: count, async_size: Pages::ZERO };
        Self { pattern: Pattern::Random, window }
    }

    /// Returns true if the stream remembers this window. A random read leaves the state unchanged,
    /// so that one stray read does not end a stream.
    #[must_use]
    pub fn is_remembered(&self) -> bool {
        self.pattern != Pattern::Random
    }
}

impl Pattern {
    /// Returns the name used in traces.
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
    /// Returns the value printed in traces.
    const fn is_async(self) -> u8 {
        match self {
            Self::Miss => 0,
            Self::Marker => 1,
        }
    }
}

/// Formats a decision as the kernel's trace does, to compare it with one of a real machine:
/// `subsequent(req=64+32, ra=128+256-256, async=1) = 256`.
impl fmt::Display for Decided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.decision.pattern.name(), self.details())
    }
}

impl Decided {
    /// Returns the line without its pattern, for callers that insert the stream's name between the
    /// two.
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
