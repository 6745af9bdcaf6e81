//! The read-ahead policies and their walk, as slow and obvious as possible. The model visits every
//! page itself instead of using [`Residency`], so that a limit that is wrong by one shows.
//!
//! First the walk, then the decisions with each kernel's rules in their order, then the caches that
//! the core queries, which check the queries. Policies of no released kernel are in rivals.rs.

#[path = "page_sets.rs"]
pub(crate) mod page_sets;

use std::ops::Range;

use foreread_core::prefetch::walk::{PageSet, ReadWalk};
use foreread_core::prefetch::{
    Ask, Decided, Decision, Pattern, Policy, Residency, StreamState, Trigger, Window, WindowLimits,
};
use foreread_core::units::{PAGE_SIZE, PageIndex, Pages};
pub(crate) use page_sets::{Around, Sheet};

/// A whole read: the policy decides when a page is missing and when it is marked.
pub(crate) fn read(
    reader: &ReadWalk,
    state: &mut StreamState,
    sheet: &mut Sheet,
    first: u64,
    count: u64,
) -> Vec<Decided> {
    let (mut trace, prev_pos) = (Vec::new(), state.prev_pos);
    for page in first..(first + count).min(reader.end.0) {
        let here = usize::try_from(page).unwrap();
        let ask = |trigger| {
            let (page, count) = (PageIndex(page), Pages(first + count - page));
            let has_waited = trigger == Trigger::Miss;
            Ask { page, count, trigger, prev_pos, has_waited }
        };
        if !sheet.resident[here] {
            trace.extend(answer(reader, state, sheet, ask(Trigger::Miss)));
            sheet.resident[here] = true;
        }
        if sheet.marked[here] {
            sheet.marked[here] = false;
            trace.extend(answer(reader, state, sheet, ask(Trigger::Marker)));
        }
    }
    trace
}

/// Carries out a decision: pages that are resident or past the end of the file are not read, and
/// only a page that is read can be marked.
fn answer(
    reader: &ReadWalk,
    state: &mut StreamState,
    sheet: &mut Sheet,
    ask: Ask,
) -> Option<Decided> {
    let is_resident = |page| sheet.is_there(page);
    let mut decision = decide(reader.policy, state, ask, reader.limits, &is_resident)?;
    let Window { start, size, .. } = decision.window;
    state.fetched = decision.window;
    if decision.pattern == Pattern::Random {
        // A random read is not remembered, so its line shows the pages read.
        decision.window.size = size.min(reader.end - start);
    } else {
        state.window = decision.window;
    }
    let marked = marker(reader.policy, decision.window, reader.end.0);
    let mut submitted = Pages::ZERO;
    for page in start.0..(start + size).0.min(reader.end.0) {
        if !sheet.is_there(page) {
            let here = usize::try_from(page).unwrap();
            sheet.resident[here] = true;
            sheet.marked[here] = marked == Some(page);
            submitted += Pages(1);
        }
    }
    Some(Decided { ask, decision, submitted })
}

/// Returns one decision, and updates the policy's state. `is_resident` is the cache.
pub(crate) fn decide(
    policy: Policy,
    state: &mut StreamState,
    ask: Ask,
    limits: WindowLimits,
    is_resident: &dyn Fn(u64) -> bool,
) -> Option<Decision> {
    let last = state.window;
    let mut q = Question {
        page: int(ask.page.0),
        count: int(ask.count.0),
        prev_pos: ask.prev_pos.map(|end| int(end.0)),
        start: int(last.start.0),
        size: int(last.size.0),
        async_size: int(last.async_size.0),
        max: int(limits.max.0),
        is_resident,
    };
    let is_marker = ask.trigger == Trigger::Marker;
    let answer = match policy.name() {
        "none" => (!is_marker).then_some((Pattern::Random, q.page, q.count, 0)),
        "linux-2.6.28" => q.linux_2_6_28(is_marker),
        "linux-2.6.31" => q.linux_2_6_31(is_marker),
        "thrash-2009" => q.thrash_2009(is_marker),
        "thrash-2010" => q.thrash_2010(is_marker, state),
        "fixed" => q.fixed(is_marker),
        "distance" => q.distance(is_marker, ask.has_waited, state),
        "linux-6" if q.max == 0 => {
            // Read-ahead is off: a missing page is still read alone; a marker brings nothing.
            (!is_marker).then_some((Pattern::Random, q.page, 1, 0))
        }
        "linux-6" => {
            let io_pages = int(limits.io_pages.0);
            if q.count > q.max && io_pages > q.max {
                q.max = q.count.min(io_pages);
            }
            if is_marker { q.linux_6_marker() } else { Some(q.linux_6_miss()) }
        }
        name => unreachable!("{name} decides by more than a window"),
    };
    answer.map(|(pattern, start, size, async_size)| {
        let [start, size, async_size] =
            [start, size, async_size].map(|number| u64::try_from(number).unwrap());
        let (start, size, async_size) = (PageIndex(start), Pages(size), Pages(async_size));
        Decision { pattern, window: Window { start, size, async_size } }
    })
}

/// A question in plain signed numbers, so that the rules can be written as they are described: the
/// page before page 0 is -1, and so is the page of a previous read that does not exist.
pub(super) struct Question<'a> {
    pub(super) page: i64,
    pub(super) count: i64,
    pub(super) prev_pos: Option<i64>,
    pub(super) start: i64,
    pub(super) size: i64,
    pub(super) async_size: i64,
    pub(super) max: i64,
    is_resident: &'a dyn Fn(u64) -> bool,
}

/// Pattern, start, size, async_size.
pub(super) type Answer = (Pattern, i64, i64, i64);

impl Question<'_> {
    fn linux_2_6_28(&self, is_marker: bool) -> Option<Answer> {
        if self.max == 0 {
            return None;
        }
        if self.page != 0 && self.is_expected() {
            return Some(self.advanced());
        }
        if is_marker {
            let hole = self.first_hole(self.page, self.page + self.max)?;
            let size = next(hole - self.page, self.max);
            return Some((Pattern::Interleaved, hole, size, size));
        }
        // There is no rule for the start of a file: its first read follows page -1.
        let is_sequential = self.follows(self.previous_page());
        if !is_sequential && self.count <= self.max {
            return Some((Pattern::Random, self.page, self.count, 0));
        }
        // Nor is a large read oversize if the next page was due anyway.
        Some(self.first(self.count > self.max && !is_sequential))
    }

    fn linux_2_6_31(&self, is_marker: bool) -> Option<Answer> {
        if self.max == 0 {
            return None;
        }
        Some(self.joined(self.linux_2_6_31_unjoined(is_marker)?))
    }

    /// Joins the next window if the read would meet the marker of its own window at once.
    pub(super) fn joined(&self, answer: Answer) -> Answer {
        let (pattern, start, size, async_size) = answer;
        if pattern != Pattern::Random && start == self.page && size == async_size {
            let second = next(size, self.max);
            return (pattern, start, size + second, second);
        }
        answer
    }

    fn linux_2_6_31_unjoined(&self, is_marker: bool) -> Option<Answer> {
        if self.page == 0 {
            return Some(self.first(self.count > self.max));
        }
        if self.is_expected() {
            return Some(self.advanced());
        }
        if is_marker {
            let hole = self.first_hole(self.page + 1, self.page + self.max)?;
            let size = next(hole - self.page + self.count, self.max);
            return Some((Pattern::Interleaved, hole, size, size));
        }
        if self.count > self.max || self.follows(self.previous_page()) {
            return Some(self.first(self.count > self.max));
        }
        let mut history = self.history(self.max);
        if history == 0 {
            return Some((Pattern::Random, self.page, self.count, 0));
        }
        if history >= self.page {
            history *= 2;
        }
        let size = init(history + self.count, self.max);
        Some((Pattern::Context, self.page, size, size))
    }

    fn linux_6_miss(&self) -> Answer {
        if self.page == 0 || self.count > self.max || self.follows_returned_byte() {
            let size = init(self.count, self.max);
            let async_size = if size > self.count { size - self.count } else { size / 2 };
            let pattern = self.first_pattern(self.count > self.max);
            return (pattern, self.page, size, async_size);
        }
        let mut history = self.history(self.max - 1);
        if history <= self.count {
            return (Pattern::Random, self.page, self.count, 0);
        }
        if history >= self.page {
            history *= 2;
        }
        (Pattern::Context, self.page, (history + self.count).min(self.max), 1)
    }

    fn linux_6_marker(&self) -> Option<Answer> {
        let (pattern, start, size) = if self.page == self.start + self.size - self.async_size {
            let size = self.size.max(next(self.size, self.max));
            (Pattern::Subsequent, self.start + self.size, size)
        } else {
            let hole = self.first_hole(self.page + 1, self.page + self.max)?;
            (Pattern::Interleaved, hole, next(hole - self.page + self.count, self.max))
        };
        // A window ends at a multiple of four pages, or of two or one if `max` is no such multiple.
        let align = [4, 2, 1].into_iter().find(|align| self.max % align == 0).unwrap();
        let end = (start + size) / align * align;
        let size = if end > start { end - start } else { size };
        Some((pattern, start, size, size))
    }

    fn thrash_2009(&self, is_marker: bool) -> Option<Answer> {
        if self.history(1) == 0 {
            return self.linux_2_6_31(is_marker);
        }
        let begin = self.first_hole(self.page, self.page + self.max - 1)?;
        let hole_before = self.page - self.history(2 * self.max) - 1;
        let end = self.page + (self.page - hole_before);
        if end <= begin {
            return None;
        }
        let size = (end - begin).min(self.max);
        Some((Pattern::Context, begin, size, size))
    }

    /// Returns the first window of the older two: at the start of a stream, and for a large read. A
    /// read that fills it meets the marker on its first page.
    pub(super) fn first(&self, is_oversize: bool) -> Answer {
        let size = init(self.count, self.max);
        let async_size = if size > self.count { size - self.count } else { size };
        (self.first_pattern(is_oversize), self.page, size, async_size)
    }

    pub(super) fn first_pattern(&self, is_oversize: bool) -> Pattern {
        if self.page == 0 {
            Pattern::Initial0
        } else if is_oversize {
            Pattern::Oversize
        } else {
            Pattern::Initial
        }
    }

    /// Returns the next window of the older two, all of it ahead.
    fn advanced(&self) -> Answer {
        let size = next(self.size, self.max);
        (Pattern::Subsequent, self.start + self.size, size, size)
    }

    /// The marker is one place to request more; if it was lost, the end of the window is another.
    fn is_expected(&self) -> bool {
        let end = self.start + self.size;
        self.page == end - self.async_size || self.page == end
    }

    /// Returns the last page of the previous read, for the older two.
    pub(super) fn previous_page(&self) -> i64 {
        self.prev_pos.map_or(-1, |end| (end - 1) / int(PAGE_SIZE))
    }

    /// Compares with the page in which the previous read ended, not its last page: after a read to
    /// the end of a page, that is one page more.
    pub(super) fn follows_returned_byte(&self) -> bool {
        self.follows(self.prev_pos.map_or(-1, |end| end / int(PAGE_SIZE)))
    }

    /// A negative difference is neither 0 nor 1: a step back is not sequential.
    pub(super) fn follows(&self, previous: i64) -> bool {
        self.page == previous || self.page == previous + 1
    }

    /// Returns the number of resident pages just before the page, at most `most`.
    pub(super) fn history(&self, most: i64) -> i64 {
        let mut count = 0;
        while count < most && self.is_resident(self.page - count - 1) {
            count += 1;
        }
        count
    }

    /// Returns the first missing page from `first` to `last`.
    pub(super) fn first_hole(&self, first: i64, last: i64) -> Option<i64> {
        (first..=last).find(|page| !self.is_resident(*page))
    }

    fn is_resident(&self, page: i64) -> bool {
        page >= 0 && (self.is_resident)(u64::try_from(page).unwrap())
    }
}

/// Returns the size of a first window.
pub(crate) fn init(count: i64, max: i64) -> i64 {
    let mut rounded = 1;
    while rounded < count {
        rounded *= 2;
    }
    if rounded <= max / 32 {
        4 * rounded
    } else if rounded <= max / 4 {
        2 * rounded
    } else {
        max
    }
}

/// Returns the size of the window after one of `size` pages.
pub(crate) fn next(size: i64, max: i64) -> i64 {
    let factor = if size < max / 16 { 4 } else { 2 };
    (factor * size).min(max)
}

/// Returns the marker. The older policies count from the window's start; `linux-6` counts back from
/// the end of the window or file. A marker is never on a page that is not read.
pub(crate) fn marker(policy: Policy, window: Window, end: u64) -> Option<u64> {
    let (start, size) = (int(window.start.0), int(window.size.0));
    let read = size.min(int(end) - start).max(0);
    let index = match policy {
        Policy::None | Policy::Custom(_) => size,
        Policy::Linux6 => read,
        // A window that reaches the end has nothing behind it.
        Policy::Adaptive if read < size || start + size == int(end) => return None,
        Policy::Adaptive => size,
    } - int(window.async_size.0);
    (0..read).contains(&index).then(|| u64::try_from(start + index).unwrap())
}

pub(crate) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap()
}
