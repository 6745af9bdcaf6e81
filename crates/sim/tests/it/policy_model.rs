//! The read-ahead policies and their walk against slow and obvious models: every small question,
//! every read of every tiny file, and random large ones. The models were written from a description
//! of the kernels' behaviour, before their author saw the policies; where the two differ, one is
//! wrong.
//!
//! The models are in policy_model/model.rs and rivals.rs; golden traces of real kernels are in
//! golden.rs. Below: decisions, sizes, markers, walks.

mod every;
mod model;
mod questions;
mod rivals;

use std::ops::Range;

use every::{every_small_case, marked_at, marker, miss, previous_ends, state_of, unopened, window};
use foreread_core::prefetch::walk::{PolicyMemory, ReadWalk};
use foreread_core::prefetch::{
    Advice, Ask, Decided, Decision, Pattern, Policy, Rules, StreamState, Streams, Window,
    WindowLimits,
};
use foreread_core::units::{ByteCount, PAGE_SIZE, PageIndex, Pages};
use foreread_sim::policy;
use model::{Around, Sheet, int};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use questions::*;

#[test]
fn none_is_what_the_model_says_in_every_small_case() {
    every_small_case(Policy::None, &[Pattern::Random]);
}

#[test]
fn linux_2_6_28_is_what_the_model_says_in_every_small_case() {
    use Pattern::{Initial, Initial0, Interleaved, Oversize, Random, Subsequent};
    let patterns = [Initial0, Initial, Oversize, Subsequent, Interleaved, Random];
    every_small_case(policy::LINUX_2_6_28, &patterns);
}

#[test]
fn linux_2_6_31_is_what_the_model_says_in_every_small_case() {
    every_small_case(policy::LINUX_2_6_31, &EVERY_PATTERN);
}

#[test]
fn linux_6_is_what_the_model_says_in_every_small_case() {
    every_small_case(Policy::Linux6, &EVERY_PATTERN);
}

#[test]
fn thrash_2009_is_what_the_model_says_in_every_small_case() {
    every_small_case(policy::THRASH_2009, &EVERY_PATTERN);
}

#[test]
fn thrash_2010_is_what_the_model_says_in_every_small_case() {
    use Pattern::{Context, Initial, Initial0, Oversize, Random, Thrash};
    let patterns = [Initial0, Initial, Oversize, Context, Thrash, Random];
    every_small_case(policy::THRASH_2010, &patterns);
}

#[test]
fn fixed_and_distance_are_what_the_model_says_in_every_small_case() {
    use Pattern::{Initial, Initial0, Interleaved, Random, Subsequent};
    for policy in [policy::FIXED, policy::DISTANCE] {
        every_small_case(policy, &[Initial0, Initial, Subsequent, Interleaved, Random]);
    }
}

/// Patterns of the kernels.
const EVERY_PATTERN: [Pattern; 7] = [
    Pattern::Initial0,
    Pattern::Initial,
    Pattern::Oversize,
    Pattern::Subsequent,
    Pattern::Context,
    Pattern::Interleaved,
    Pattern::Random,
];

/// The policies that decide from a stream's last window; `adaptive` has its own test file.
const BY_WINDOW: [Policy; 8] = [
    Policy::None,
    policy::FIXED,
    policy::LINUX_2_6_28,
    policy::LINUX_2_6_31,
    policy::THRASH_2009,
    policy::THRASH_2010,
    Policy::Linux6,
    policy::DISTANCE,
];

const LINUXES: [Policy; 3] = [policy::LINUX_2_6_28, policy::LINUX_2_6_31, Policy::Linux6];

/// Published first windows: the largest window allowed, then the sizes for reads of 1, 2, 3-4, 5-8,
/// 9-16, 17-32, 33-64 and more pages.
const FIRST_SIZES: [(u64, [u64; 8]); 8] = [
    (1, [1, 1, 1, 1, 1, 1, 1, 1]),
    (2, [2, 2, 2, 2, 2, 2, 2, 2]),
    (4, [2, 4, 4, 4, 4, 4, 4, 4]),
    (8, [2, 4, 8, 8, 8, 8, 8, 8]),
    (16, [2, 4, 8, 16, 16, 16, 16, 16]),
    (32, [4, 4, 8, 16, 32, 32, 32, 32]),
    (128, [4, 8, 16, 16, 32, 64, 128, 128]),
    (256, [4, 8, 16, 32, 32, 64, 128, 256]),
];

#[test]
fn first_windows_have_the_sizes_of_the_published_table() {
    for (max, row) in FIRST_SIZES {
        for count in 1..=600 {
            let column = (0..7).find(|column| count <= 1 << column).unwrap_or(7);
            for policy in LINUXES {
                let got = first_size(policy, count, max);
                assert_eq!(got, row[column], "{}: {count} of {max}", policy.name());
            }
        }
    }
}

#[test]
fn first_and_next_windows_have_the_sizes_of_the_formulas_for_every_count_and_maximum_to_600() {
    for max in 1..=600 {
        for number in 1..=600 {
            let first = u64::try_from(model::init(int(number), int(max))).unwrap();
            let next = u64::try_from(model::next(int(number), int(max))).unwrap();
            for policy in LINUXES {
                let at = || format!("{}: {number} of {max}", policy.name());
                assert_eq!(first_size(policy, number, max), first, "first, {}", at());
                if number <= max {
                    assert_eq!(next_size(policy, number, max, next), next, "next, {}", at());
                }
            }
        }
    }
}

/// Returns the size of the first window at the start of a file. 2.6.31 joins the second window to a
/// first one that would meet its own marker at once. Only then is it larger than `max`, and the
/// part before its marker is the first window.
fn first_size(policy: Policy, count: u64, max: u64) -> u64 {
    let Decision { window, .. } = decide_empty(policy, unopened(), miss(0, count, None), max);
    if window.size.0 > max { (window.size - window.async_size).0 } else { window.size.0 }
}

/// Returns the size of the window after one of `size` pages, at its marker. The old window is
/// placed so that the new one should end at a multiple of four pages, where `linux-6` has nothing
/// to round off.
fn next_size(policy: Policy, size: u64, max: u64, expected: u64) -> u64 {
    let start = 1000 - (size + expected) % 4;
    let ask = marker(start + size - 1, 1, None);
    let decision = decide_empty(policy, window(start, size, 1), ask, max);
    assert_eq!(decision.pattern, Pattern::Subsequent);
    decision.window.size.0
}

fn decide_empty(policy: Policy, last: Window, ask: Ask, max: u64) -> Decision {
    let limits = WindowLimits { max: Pages(max), io_pages: Pages::ZERO };
    let around = Around::new(policy, limits, ask, 0, 0, false);
    let state = &mut state_of(last, [0, 0]);
    policy.decide(state, &mut Streams::default(), ask, limits, &around).expect("a decision")
}

#[test]
fn markers_are_counted_in_the_whole_window_or_back_from_the_end_of_the_file() {
    for (start, size, end) in
        (0..8).flat_map(|s| (0..9).flat_map(move |n| (0..20).map(move |e| (s, n, e))))
    {
        for async_size in 0..=size {
            let window = window(start, size, async_size);
            for policy in policy::ALL {
                let got = policy.marker(window, PageIndex(end));
                let want = model::marker(policy, window, end);
                assert_eq!(got, want.map(PageIndex), "{} {window:?} end {end}", policy.name());
                // Only two windows have no unique answer: one cut by the end of the file, and one
                // that reaches it, behind which nothing is left to request.
                let reaches = policy == Policy::Adaptive && start + size == end;
                let is_cut = start + size > end || reaches;
                assert!(is_cut || got == window.marker(), "{window:?} end {end}");
                assert!(got.is_none_or(|page| page.0 < end), "{window:?} end {end}");
            }
        }
    }
}

/// All files of up to five pages, each page missing, resident or marked. Reads start anywhere and
/// end up to one page past the end.
#[test]
fn walks_are_those_of_the_model_for_every_read_of_every_tiny_file() {
    let mut walks = 0_u64;
    for (end, code) in (1..=5_u32).flat_map(|end| (0..3_u64.pow(end)).map(move |c| (end, c))) {
        let digits: Vec<u64> = (0..end).map(|page| code / 3_u64.pow(page) % 3).collect();
        let sheet = Sheet {
            resident: digits.iter().map(|digit| *digit > 0).collect(),
            marked: digits.iter().map(|digit| *digit == 2).collect(),
            ..Sheet::default()
        };
        let end = u64::from(end);
        for (first, count) in (0..end).flat_map(|f| (1..=end + 1 - f).map(move |n| (f, n))) {
            for (policy, max) in BY_WINDOW.into_iter().flat_map(|p| [1, 2, 4].map(|m| (p, m))) {
                let limits = WindowLimits { max: Pages(max), io_pages: Pages::ZERO };
                let prev_pos = previous_ends(first)[if code % 2 == 0 { 0 } else { 4 }];
                let reader = reader(policy, limits, PageIndex(end));
                for window in [unopened(), marked_at(first)] {
                    let state = StreamState { prev_pos, ..state_of(window, [0, 0]) };
                    Pair { state, sheet: sheet.clone() }.read(&reader, first, count);
                    walks += 1;
                }
            }
        }
    }
    println!("{walks} walks");
}

proptest! {
    #![proptest_config(config(4096))]

    #[test]
    fn large_numbers_change_no_rule((last, ask, limits, before, ahead) in question()) {
        for policy in BY_WINDOW {
            let around = Around::new(policy, limits, ask, before, ahead, true);
            let memory = match policy.name() {
                "thrash-2010" => [limits.io_pages.0 % 2, 0],
                _ => [ahead, before],
            };
            let mut state = state_of(last, memory);
            let mut known = state;
            let got = policy.decide(&mut state, &mut Streams::default(), ask, limits, &around);
            let want =
                model::decide(policy, &mut known, ask, limits, &|page| around.is_resident(page));
            prop_assert_eq!((got, state), (want, known), "{}", policy.name());
        }
    }

    #[test]
    fn windows_are_no_larger_than_allowed((last, ask, limits, before, ahead) in question()) {
        let io_pages = limits.io_pages.min(ask.count);
        for policy in policy::ALL {
            let around = Around::new(policy, limits, ask, before, ahead, true);
            let memory = match policy.name() {
                "thrash-2010" => [before % 2, 0],
                _ => [ahead, before],
            };
            let mut state = state_of(last, memory);
            let streams = &mut Streams::default();
            let decision = policy.decide(&mut state, streams, ask, limits, &around);
            let Some(Decision { pattern, window }) = decision else { continue };
            prop_assert!(window.async_size <= window.size);
            match policy.name() {
                "none" => prop_assert_eq!(window.size, ask.count),
                "linux-2.6.28" => prop_assert!(window.size <= limits.max),
                "fixed" | "distance" | "thrash-2010" if pattern == Pattern::Random => {
                    prop_assert_eq!(window.size, ask.count);
                }
                "fixed" | "distance" => prop_assert!(window.size <= limits.max),
                // A window whose first page would be its marker is joined with the next one.
                "linux-2.6.31" | "thrash-2009" | "thrash-2010" => {
                    let is_joined = window.start == ask.page && window.size > limits.max;
                    let (first, second) = (window.size - window.async_size, window.async_size);
                    let largest = if is_joined { first.max(second) } else { window.size };
                    prop_assert!(largest <= limits.max);
                }
                // A large read may be one request of the device, and a window keeps its size. With
                // read-ahead off, a page is still read.
                "linux-6" => {
                    let kept = if pattern == Pattern::Subsequent { last.size } else { Pages(1) };
                    prop_assert!(window.size <= limits.max.max(io_pages).max(kept));
                }
                "adaptive" => {
                    let read_end = ask.page + ask.count;
                    let beyond = window.end().0.saturating_sub(read_end.max(window.start).0);
                    prop_assert!(Pages(beyond) <= limits.max);
                }
                name => unreachable!("{name} is none of policy::ALL"),
            }
        }
    }

    /// After an answer there are no more pages ahead than behind, twice as many at the start of a
    /// file, or the smallest window.
    #[test]
    fn thrash_2010_has_never_more_ahead_than_behind(
        (last, ask, limits, before, ahead) in question(),
    ) {
        let around = Around::new(policy::THRASH_2010, limits, ask, before, ahead, true);
        let mut state = state_of(last, [1, 0]);
        let streams = &mut Streams::default();
        let decision = policy::THRASH_2010.decide(&mut state, streams, ask, limits, &around);
        if let Some(Decision { pattern: Pattern::Context, window }) = decision {
            let behind = if before == ask.page.0 { 2 * before } else { before };
            prop_assert!(window.start - ask.page < Pages(behind));
            let least = window.start + Pages(4).min(limits.max);
            prop_assert!(window.end() <= least.max(ask.page + Pages(behind)));
        }
        prop_assert_eq!(state.memory[0], 1, "once and for all");
    }

    #[test]
    fn thrash_2009_has_never_more_ahead_than_behind_and_one(
        (last, ask, limits, before, ahead) in question(),
    ) {
        let around = Around::new(policy::THRASH_2009, limits, ask, before, ahead, true);
        // With no history, another policy decides.
        let (state, streams) = (&mut state_of(last, [0, 0]), &mut Streams::default());
        if let Some(decision) = policy::THRASH_2009.decide(state, streams, ask, limits, &around)
            && before > 0
        {
            prop_assert!(decision.window.end() - ask.page <= Pages(before + 1));
            prop_assert_eq!(decision.pattern, Pattern::Context);
        }
    }
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn walks_are_those_of_the_model_while_pages_come_and_go(
        policy in proptest::sample::select(BY_WINDOW.to_vec()),
        (max, io_pages) in (0..40_u64, proptest::sample::select(vec![0, 16, 64])),
        bytes in 1..300 * PAGE_SIZE,
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let limits = WindowLimits { max: Pages(max), io_pages: Pages(io_pages) };
        let end = PageIndex(bytes.div_ceil(PAGE_SIZE));
        let mut states = [StreamState::default(); 2];
        let mut ends = [None; 2];
        let mut sheet = Sheet::of(end.0);
        for step in steps {
            let (stream, pos, len) = match step {
                Step::Evict(pages) => {
                    sheet.evict(pages);
                    continue;
                }
                Step::Seek(stream, pos, len) => (stream, pos % bytes, len),
                Step::ReadOn(stream, len) => (stream, ends[stream].unwrap_or(0), len),
            };
            if pos >= bytes {
                continue;
            }
            let reader = reader(policy, limits, end);
            states[stream].prev_pos = ends[stream].map(ByteCount);
            let mut pair = Pair { state: states[stream], sheet };
            let decided = pair.read(
                &reader,
                pos / PAGE_SIZE,
                (pos + len).div_ceil(PAGE_SIZE) - pos / PAGE_SIZE,
            );
            if decided.iter().all(|line| line.decision.pattern == Pattern::Random) {
                let (now, before) = (pair.state.window, states[stream].window);
                prop_assert_eq!(now, before, "random reads are not remembered");
            }
            (states[stream], sheet) = (pair.state, pair.sheet);
            ends[stream] = Some((pos + len).min(bytes));
        }
    }

    /// With any cache contents, a walk takes each page of its read once, in order and resident (the
    /// sheet checks all three) and terminates, even if the cache fetches a page only when the walk
    /// has reached it.
    #[test]
    fn a_walk_takes_every_page_of_a_long_read_from_any_cache(
        policy in proptest::sample::select(policy::ALL.to_vec()),
        max in 0..300_u64,
        pages in proptest::collection::vec((any::<bool>(), any::<bool>()), 1..2500),
        (first, count) in (0..2500_u64, 1..=2000_u64),
        brings_least in any::<bool>(),
    ) {
        let end = pages.len() as u64;
        let first = first % end;
        let mut sheet = Sheet {
            resident: pages.iter().map(|(resident, _)| *resident).collect(),
            marked: pages.iter().map(|(resident, marked)| *resident && *marked).collect(),
            brings_least,
            next: first,
        };
        let limits = WindowLimits { max: Pages(max), io_pages: Pages::ZERO };
        let reader = reader(policy, limits, PageIndex(end));
        let (mut state, mut streams) = (StreamState::default(), Streams::default());
        let memory = PolicyMemory { stream: &mut state, file: &mut streams };
        let mut decisions = 0;
        reader.read(memory, &mut sheet, PageIndex(first), Pages(count), |_| decisions += 1);
        let taken = (first + count).min(end) - first;
        prop_assert_eq!(sheet.next, first + taken);
        // The policy decides when a page is missing and when it is marked.
        prop_assert!(decisions <= 2 * taken);
    }
}
