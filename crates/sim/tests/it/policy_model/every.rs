//! Every small question to a policy, compared with the model: same answer, same state, and exactly
//! the expected patterns.

use std::ops::Range;

use foreread_core::prefetch::{
    Ask, Decision, Pattern, Policy, StreamState, Streams, Trigger, Window, WindowLimits,
};
use foreread_core::units::{ByteCount, PAGE_SIZE, PageIndex, Pages};

use super::EVERY_PATTERN;
use super::model::page_sets::NO_HOLE;
use super::model::{self, Around};

/// Largest windows: all small ones, where roundings and caps interact, and Linux's default.
const MAXES: [u64; 10] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 32];

const PAGES: Range<u64> = 0..13;
const COUNTS: Range<u64> = 1..13;

/// Puts the same questions to model and policy, and checks that the answers agree and that exactly
/// these `patterns` occurred: a table of cases that never exercises a rule proves nothing about it.
///
/// The full product of all inputs has some billions of cases. It is cut where rules cannot meet:
///
/// - a miss sees all histories, positions and counts, but three windows: none, one that ends at the
///   page, one marked there. The pages past a missing one are either all resident or all missing;
/// - a marker sees all distances of the hole, but only policies that compare the history with them
///   see all histories too;
/// - all windows near the page are seen with few counts and few resident pages around it;
/// - the device's largest request is varied for the policies that use it, and rotated otherwise;
/// - likewise the distance, where a policy keeps one, and elsewhere whether a stream has thrashed.
pub(super) fn every_small_case(policy: Policy, patterns: &[Pattern]) {
    let mut bench = Bench { policy, cases: 0, seen: Vec::new() };
    bench.misses();
    bench.markers();
    bench.windows();
    for pattern in EVERY_PATTERN.into_iter().chain([Pattern::Thrash]) {
        assert_eq!(bench.seen.contains(&pattern), patterns.contains(&pattern), "{pattern:?}");
    }
    println!("{}: {} cases", policy.name(), bench.cases);
}

struct Bench {
    policy: Policy,
    cases: u64,
    seen: Vec<Pattern>,
}

impl Bench {
    fn misses(&mut self) {
        for (page, before) in PAGES.flat_map(|page| (0..=page).map(move |before| (page, before))) {
            for (max, count) in MAXES.into_iter().flat_map(|max| COUNTS.map(move |n| (max, n))) {
                let elsewhere = (page + before + count) % 2 == 0;
                for prev_pos in previous_ends(page) {
                    for last in [unopened(), ends_at(page), marked_at(page)] {
                        let ask = miss(page, count, prev_pos);
                        self.compare(last, ask, max, (before, 0, elsewhere));
                    }
                }
            }
        }
    }

    fn markers(&mut self) {
        for (page, before) in PAGES.flat_map(|page| (0..=page).map(move |before| (page, before))) {
            let weighs = ["thrash-2009", "thrash-2010"].contains(&self.policy.name());
            if !weighs && ![0, 1, page].contains(&before) {
                continue;
            }
            for (max, count) in MAXES.into_iter().flat_map(|max| COUNTS.map(move |n| (max, n))) {
                for ahead in (1..=max + 2).chain([NO_HOLE]) {
                    let prev_pos = previous_ends(page)[usize::try_from(count % 9).unwrap()];
                    for last in [unopened(), ends_at(page), marked_at(page)] {
                        let ask = marker(page, count, prev_pos);
                        self.compare(last, ask, max, (before, ahead, count % 2 == 0));
                    }
                }
            }
        }
    }

    /// Every shape of window up to 8 pages, with its start, its marker and its end just before the
    /// page, at it and just after it.
    fn windows(&mut self) {
        for page in PAGES {
            for (size, async_size) in (1..=8).flat_map(|size| (0..=size).map(move |a| (size, a))) {
                let mut starts: Vec<u64> = [0, size - async_size, size]
                    .into_iter()
                    .flat_map(|there| (page..page + 3).map(move |page| (page, there)))
                    .filter_map(|(page, there)| page.checked_sub(there + 1))
                    .collect();
                starts.sort_unstable();
                starts.dedup();
                for start in starts {
                    self.window(page, window(start, size, async_size));
                }
            }
        }
    }

    fn window(&mut self, page: u64, last: Window) {
        let sequential = Some(ByteCount(page * PAGE_SIZE)).filter(|end| end.0 > 0);
        for (max, count) in MAXES.into_iter().flat_map(|max| [(max, 1), (max, 6)]) {
            for before in [0, page.min(3)] {
                for prev_pos in [None, sequential] {
                    self.compare(last, miss(page, count, prev_pos), max, (before, 0, false));
                }
                self.compare(last, marker(page, count, None), max, (before, 3, false));
            }
        }
    }

    fn compare(&mut self, last: Window, ask: Ask, max: u64, around: (u64, u64, bool)) {
        let every = match self.policy {
            Policy::Linux6 => &[0, 4, 16][..],
            Policy::None | Policy::Adaptive | Policy::Custom(_) => {
                let turn = usize::try_from(self.cases % 3).unwrap();
                &[0, 4, 16][turn..=turn]
            }
        };
        let (before, ahead, elsewhere) = around;
        let has_waited = ask.has_waited || self.cases.is_multiple_of(7);
        let ask = Ask { has_waited, ..ask };
        for io_pages in every {
            let limits = WindowLimits { max: Pages(max), io_pages: Pages(*io_pages) };
            let around = Around::new(self.policy, limits, ask, before, ahead, elsewhere);
            let is_resident = |page| around.is_resident(page);
            let distances = [[0, 0], [1, 5], [3, 0], [7, 8], [32, 1]];
            let distance = distances[usize::try_from(self.cases % 5).unwrap()];
            let memories = match self.policy.name() {
                "thrash-2010" => &[[0, 0], [1, 0]][..],
                _ => &[distance],
            };
            for memory in memories {
                let state = state_of(last, *memory);
                let (mut asked, mut known) = (state, state);
                let streams = &mut Streams::default();
                let got = self.policy.decide(&mut asked, streams, ask, limits, &around);
                let want = model::decide(self.policy, &mut known, ask, limits, &is_resident);
                let at = || format!("{state:?} {ask:?} {limits:?} {around:?}");
                assert_eq!((got, asked), (want, known), "{}", at());
                self.cases += 1;
                self.note(got);
            }
        }
    }

    fn note(&mut self, got: Option<Decision>) {
        if let Some(Decision { pattern, .. }) = got
            && !self.seen.contains(&pattern)
        {
            self.seen.push(pattern);
        }
    }
}

/// Returns the ends of a previous read that may decide whether `page` follows it: in the two pages
/// before, in the page itself and after it, at page boundaries and inside pages. A read that
/// returned nothing leaves no end, so no end is byte 0.
pub(super) fn previous_ends(page: u64) -> [Option<ByteCount>; 9] {
    let start = page * PAGE_SIZE;
    let before = |bytes| start.checked_sub(bytes).filter(|end| *end > 0).map(ByteCount);
    [
        None,
        before(PAGE_SIZE + 1),
        before(PAGE_SIZE),
        before(PAGE_SIZE - 1),
        before(0),
        Some(ByteCount(start + 1)),
        Some(ByteCount(start + PAGE_SIZE - 1)),
        Some(ByteCount(start + PAGE_SIZE)),
        Some(ByteCount(start + PAGE_SIZE + 1)),
    ]
}

pub(super) fn unopened() -> Window {
    Window::default()
}

/// Returns a window of up to three pages that ends at `page`, its last page marked.
fn ends_at(page: u64) -> Window {
    let size = page.clamp(1, 3);
    window(page.saturating_sub(size), size, 1)
}

/// Returns a window of four pages with `page` marked: the third or, at the start of a file, the
/// first.
pub(super) fn marked_at(page: u64) -> Window {
    let start = page.saturating_sub(2);
    window(start, 4, 4 - (page - start))
}

/// Returns a stream whose last window was also the last one it requested, with the first entries of
/// its policy's memory.
pub(super) fn state_of(last: Window, memory: [u64; 2]) -> StreamState {
    let [first, second] = memory;
    let memory = [first, second, 0, 0, 0, 0, 0, 0];
    StreamState { window: last, fetched: last, memory, ..StreamState::default() }
}

pub(super) fn window(start: u64, size: u64, async_size: u64) -> Window {
    Window { start: PageIndex(start), size: Pages(size), async_size: Pages(async_size) }
}

pub(super) fn miss(page: u64, count: u64, prev_pos: Option<ByteCount>) -> Ask {
    Ask {
        page: PageIndex(page),
        count: Pages(count),
        trigger: Trigger::Miss,
        prev_pos,
        has_waited: true,
    }
}

pub(super) fn marker(page: u64, count: u64, prev_pos: Option<ByteCount>) -> Ask {
    Ask {
        page: PageIndex(page),
        count: Pages(count),
        trigger: Trigger::Marker,
        prev_pos,
        has_waited: false,
    }
}
