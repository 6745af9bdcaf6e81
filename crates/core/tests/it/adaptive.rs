//! `adaptive` over a plain cache: interleaved streams perform like single ones, and random reads
//! bring only the requested pages. The tests assert results for the reader, not the rules that lead
//! to them.

use crate::common;
use crate::random;
mod world;

use std::collections::BTreeSet;

use common::{PlainPages, PlainStream};
use foreread_core::prefetch::{Decided, Pattern, Policy, Streams, Trigger, Window};
use foreread_core::units::Pages;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use random::Random;
use world::*;

#[test]
fn streams_in_turns_cost_exactly_what_they_cost_alone() {
    let sizes = [1000, PAGE, 5 * PAGE, 16 * PAGE, 23 * PAGE + 77, 100 * PAGE];
    let starts = [0, PAGE, 5 * PAGE + 123];
    for (max, streams) in [(8, 8), (32, 2), (32, 8), (60, 3), (256, 2)] {
        for (size, first) in sizes.into_iter().flat_map(|size| starts.map(|first| (size, first))) {
            let reads = (12 * max * PAGE).div_ceil(size).max(10);
            let mut alone = Cost::default();
            for stream in 0..streams {
                let mut world = World::new(1, max);
                for step in 0..reads {
                    world.read(0, (stream << 30) + first + step * size, size);
                }
                alone.misses += world.cost.misses;
                alone.windows += world.cost.windows;
                alone.pages += world.cost.pages;
            }
            // The first read, and the second one of a stream that does not begin at page 0.
            assert_eq!(alone.misses, if first == 0 { 2 * streams - 1 } else { 2 * streams });
            for handles in [1, usize::try_from(streams).unwrap()] {
                let mut world = World::new(handles, max);
                in_turns(&mut world, streams, first, size, reads);
                let at = format!("max {max}, {streams} by {size} from {first}, {handles} handles");
                assert_eq!(world.cost, alone, "{at}");
            }
        }
    }
}

/// Checks the windows of one stream: each begins at the end of the last one, and they ramp up as in
/// linux-6.
#[test]
fn one_stream_has_the_ramp_of_linux_6_and_then_windows_of_the_largest_size() {
    let of = |max, first, count, reads| {
        let mut world = World::new(1, max);
        for read in 0..reads {
            world.read_pages(0, first + read * count, count);
        }
        world.windows().join(" ")
    };
    assert_eq!(of(32, 0, 1, 92), "0+4-3 4+8-8 12+16-16 28+32-32 60+32-32 92+32-32");
    assert_eq!(of(32, 1, 1, 61), "r 1+1 2+4-3 6+8-8 14+16-16 30+32-32 62+32-32");
    assert_eq!(of(256, 0, 1, 117), "0+4-3 4+16-16 20+32-32 52+64-64 116+128-128 244+256-256");
    assert_eq!(of(32, 0, 16, 5), "0+32-16 32+32-32 64+32-32 96+32-32");
    // A read as large as a window, and larger ones: the missing pages and a window behind them at
    // once.
    assert_eq!(of(32, 0, 32, 3), "0+64-32 64+32-32 96+32-32");
    assert_eq!(of(32, 0, 256, 3), "0+288-32 288+256-32 544+256-32");
    assert_eq!(of(32, 1000, 256, 3), "r 1000+256 1256+288-32 1544+256-32");
    // Reads that do not divide a window: no page is requested twice, none is late.
    assert_eq!(of(32, 0, 20, 8), "0+32-12 32+40-32 72+32-32 104+32-32 136+32-32 168+32-32");
}

/// A read larger than a window, but not than a device request, becomes one request. The stream then
/// has windows of that size, and each later read finds all its pages requested.
#[test]
fn a_large_read_is_not_cut_below_its_own_size() {
    let of = |max, io_pages, first, count, reads| {
        let mut world = World::new(1, max);
        world.handles[0].limits.io_pages = Pages(io_pages);
        for read in 0..reads {
            world.read_pages(0, first + read * count, count);
        }
        (world.windows().join(" "), world.cost.misses)
    };
    let windows = |text: &str, misses| (text.to_owned(), misses);
    assert_eq!(of(32, 256, 0, 256, 3), windows("0+512-256 512+256-256 768+256-256", 1));
    assert_eq!(of(32, 256, 0, 100, 4), windows("0+200-100 200+100-100 300+100-100 400+100-100", 1));
    let from_1000 = "r 1000+256 1256+512-256 1768+256-256";
    assert_eq!(of(32, 256, 1000, 256, 3), windows(from_1000, 2));
    // One request covers a part of the read.
    assert_eq!(of(32, 64, 0, 256, 2), windows("0+320-64 320+256-64", 1));
    // Small reads keep their windows, and so does a stream without windows.
    assert_eq!(of(32, 256, 0, 16, 5), of(32, 0, 0, 16, 5));
    assert_eq!(of(256, 256, 0, 256, 3), of(256, 0, 0, 256, 3));
    assert_eq!(of(0, 256, 0, 256, 2), windows("r 0+256 r 256+256", 2));
}

#[test]
fn sixty_four_streams_in_turns_are_found_at_their_third_read_or_each_by_its_own_handle() {
    for (handles, misses) in [(1, 3), (64, 2)] {
        let mut world = World::new(handles, 32);
        in_turns(&mut world, 64, PAGE, PAGE, 40);
        // The last eight, with few others before their second read, at that read.
        assert!(world.cost.misses <= misses * 64, "{:?}", world.cost);
        assert_eq!(world.pages.streams.count(), (64, 0));
    }
}

#[test]
fn reads_at_random_push_out_no_stream_and_change_no_window() {
    let mut world = World::new(1, 32);
    let quiet = {
        in_turns(&mut world, 64, 0, 16 * PAGE, 10);
        world.clone()
    };
    assert_eq!(world.pages.streams.count(), (64, 0));
    let mut numbers = Random(1);
    for _ in 0..10_000 {
        world.read(0, ELSEWHERE + numbers.below(1 << 30) * PAGE, 3 * PAGE);
    }
    let (confirmed, tentative) = world.pages.streams.count();
    assert_eq!((confirmed, tentative), (64, Streams::TENTATIVE_MAX));

    let mut quiet = quiet;
    let misses = quiet.cost.misses;
    for step in 10..30 {
        for stream in 0..64 {
            let pos = (stream << 30) + step * 16 * PAGE;
            let noise = ELSEWHERE + numbers.below(1 << 30) * PAGE;
            assert_eq!(world.read(0, pos, 16 * PAGE), quiet.read(0, pos, 16 * PAGE));
            world.read(0, noise, PAGE);
        }
    }
    assert_eq!(quiet.cost.misses, misses, "no stream missed a page again");
}

#[test]
fn reads_at_random_bring_what_they_ask_for() {
    const GIB: u64 = (1 << 30) / PAGE;
    for (max, count, reads) in [32, 256]
        .into_iter()
        .flat_map(|max| [(1, 30_000), (4, 10_000), (16, 4000)].map(|(n, r)| (max, n, r)))
    {
        for is_aligned in [true, false] {
            let (mut world, mut numbers) = (World::new(1, max), Random(max + count));
            let mut wanted = BTreeSet::new();
            for _ in 0..reads {
                let page = if is_aligned {
                    numbers.below(GIB / count) * count
                } else {
                    numbers.below(GIB - count)
                };
                world.read_pages(0, page, count);
                wanted.extend(page..page + count);
            }
            let extra = world.pages.resident.len() - wanted.len();
            let at = format!("max {max}, {count} pages, aligned {is_aligned}: {extra}");
            assert!(extra * 1000 < wanted.len(), "{at} more than {}", wanted.len());
        }
    }
}

#[test]
fn threads_that_take_the_next_64_kib_in_turn_are_one_stream() {
    for first in [0, 1] {
        let mut alone = World::new(1, 32);
        for read in 0..200 {
            alone.read_pages(0, first + 16 * read, 16);
        }
        for handles in [1, 8] {
            let mut world = World::new(handles, 32);
            for read in 0..200 {
                world.read_pages(usize::try_from(read % 8).unwrap(), first + 16 * read, 16);
            }
            assert_eq!(world.windows(), alone.windows());
            assert_eq!(world.cost, alone.cost);
        }
    }
}

#[test]
fn threads_that_overtake_each_other_are_still_one_stream() {
    for (max, late, handles) in [32, 64, 256]
        .into_iter()
        .flat_map(|max| [(max, 2, 1), (max, 2, 8), (max, 4, 8), (max, 8, 8)])
    {
        let (mut world, mut numbers) = (World::new(handles, max), Random(max + late));
        // Each read is made at most `late - 1` reads after its turn.
        let mut order: Vec<u64> = (0..800).collect();
        order.sort_by_cached_key(|read| read + numbers.below(late));
        for read in order {
            world.read_pages(usize::try_from(read % 8).unwrap(), 16 * read, 16);
        }
        // While the windows ahead exceed the disorder, reads wait only at the start.
        if late * 16 <= max {
            assert!(world.cost.misses <= 8, "max {max}, late {late}: {:?}", world.cost);
        }
        let ahead = world.cost.pages - 800 * 16;
        assert!(ahead <= 2 * max, "max {max}, late {late}: {:?}", world.cost);
        assert!(world.cost.windows * max <= 800 * 16 * 5 / 4, "{:?}", world.cost);
    }
}

#[test]
fn two_streams_that_meet_become_one() {
    let mut world = World::new(2, 32);
    for step in 0..300 {
        world.read_pages(0, step, 1);
        world.read_pages(1, 300 + step, 1);
        assert!(step != 200 || world.pages.streams.count().0 == 2);
    }
    // The first stream continues where the second has been, through its window and beyond.
    let misses = world.cost.misses;
    for page in 300..1000 {
        world.read_pages(0, page, 1);
    }
    assert_eq!(world.cost.misses, misses);
    assert_eq!(world.pages.streams.count().0, 1);
    let last = world.lines.last().unwrap().decision.window;
    assert_eq!(last.size, Pages(32));
    assert_eq!(world.pages.resident.len() as u64, last.end().0, "nothing is left out or beyond");
}

#[test]
fn a_stream_goes_on_behind_what_others_have_read_without_a_second_ramp() {
    // A short resident run: the next window begins behind it, with its marker on a page that is
    // read.
    let mut world = World::new(1, 32);
    world.pages.resident.extend(100..120);
    let windows = {
        (0..200).for_each(|page| drop(world.read_pages(0, page, 1)));
        world.windows()
    };
    assert_eq!(world.cost.misses, 1);
    assert_eq!(windows[4..7], ["60+32-32", "92+32-32", "124+32-32"]);

    // A run longer than a window leaves no page to mark: the reader waits once behind it.
    for end in [92, 93, 107, 155] {
        let mut world = World::new(1, 32);
        world.pages.resident.extend(60..end);
        (0..300).for_each(|page| drop(world.read_pages(0, page, 1)));
        let want = [end, end + 32, end + 64].map(|start| start.to_string() + "+32");
        let windows = world.windows();
        assert!(windows[4..].iter().zip(&want).all(|(got, want)| got.starts_with(want)), "{end}");
        assert_eq!(world.cost.misses, 2);
    }
}

#[test]
fn a_page_that_was_evicted_before_its_reader_came_costs_one_miss_and_no_ramp() {
    let mut world = World::new(1, 32);
    (0..100).for_each(|page| drop(world.read_pages(0, page, 1)));
    (105..110).for_each(|page| {
        world.pages.resident.remove(&page);
    });
    let (lines, misses) = (world.lines.len(), world.cost.misses);
    (100..200).for_each(|page| drop(world.read_pages(0, page, 1)));
    assert_eq!(world.cost.misses, misses + 1);
    assert_eq!(world.windows()[lines], "105+32-31");

    // A page evicted behind its reader belongs to no stream.
    (100..110).for_each(|page| {
        world.pages.resident.remove(&page);
    });
    assert_eq!(world.read_pages(0, 105, 1), ["random(req=105+1, ra=105+1-0, async=0) = 1"]);
}

/// A stream read in a test: its read size, start and position.
#[derive(Clone, Debug)]
struct Course {
    size: u64,
    first: u64,
    reads: u64,
}

impl Course {
    /// Returns the next read of the stream with this number.
    fn next(&mut self, number: u64) -> (u64, u64) {
        self.reads += 1;
        ((number << 30) + self.first + (self.reads - 1) * self.size, self.size)
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: Some(Box::new(
            FileFailurePersistence::WithSource("proptest-regressions")
        )),
        ..ProptestConfig::default()
    })]

    /// A stream gets the same decisions as when it is alone, regardless of the other streams,
    /// interspersed reads and the handle used.
    #[test]
    fn a_stream_decides_as_if_it_were_alone(
        max in proptest::sample::select(vec![1, 4, 20, 32, 256]),
        handles in 1..4_usize,
        courses in proptest::collection::vec(
            (PAGE..200_000_u64, 0..20_000_u64)
                .prop_map(|(size, first)| Course { size, first, reads: 0 }),
            1..10,
        ),
        turns in proptest::collection::vec((any::<usize>(), any::<usize>(), any::<bool>()), 1..150),
    ) {
        let mut world = World::new(handles, max);
        let mut alone: Vec<_> = courses.iter().map(|_| World::new(1, max)).collect();
        let mut courses = courses;
        let mut numbers = Random(0);
        // A few reads in a row establish each stream.
        let starts = (0..courses.len()).flat_map(|which| [(which, 0, false); 4]);
        for (which, handle, is_noisy) in starts.chain(turns) {
            let which = which % courses.len();
            let (pos, len) = courses[which].next(which as u64);
            let got = world.read(handle, pos, len);
            let want = alone[which].read(0, pos, len);
            prop_assert_eq!(got, want);
            if is_noisy {
                world.read(handle, ELSEWHERE + numbers.below(1 << 30) * PAGE, 5000);
            }
        }
        // A request reads at most `max` pages ahead, and no resident one.
        for line in &world.lines {
            let Window { start, .. } = line.decision.window;
            let read_end = (line.ask.page + line.ask.count).max(start);
            let beyond = line.decision.window.end().0.saturating_sub(read_end.0);
            prop_assert!(beyond <= max, "{}", line);
            prop_assert!(line.submitted > Pages(0), "{}", line);
        }
    }

    /// Streams that cross, jump, overlap and lose pages: these properties hold whatever is
    /// remembered of them.
    #[test]
    fn no_decision_breaks_its_promises_while_pages_come_and_go(
        max in proptest::sample::select(vec![1, 4, 20, 32, 256]),
        steps in proptest::collection::vec(
            (0..3_usize, 0..10_u8, 0..2000_u64, 1..60_u64), 1..200,
        ),
    ) {
        let mut world = World::new(3, max);
        let mut ends = [0_u64; 3];
        for (handle, kind, page, count) in steps {
            let page = if kind < 6 { ends[handle] } else { page };
            if kind == 9 {
                world.pages.resident.retain(|resident| !(page..page + count).contains(resident));
                world.pages.markers.retain(|marked| !(page..page + count).contains(marked));
                continue;
            }
            let first = world.lines.len();
            world.read_pages(handle, page, count);
            ends[handle] = page + count;
            let lines = &world.lines[first..];
            for line in lines {
                let Window { start, size, .. } = line.decision.window;
                let read_end = (line.ask.page + line.ask.count).max(start);
                // adaptive_ways.rs checks the pages read by a window with gaps.
                let has_gaps = matches!(line.decision.pattern, Pattern::Strided(_));
                let beyond = (start + size).0.saturating_sub(read_end.0);
                prop_assert!(has_gaps || beyond <= max, "{}", line);
                prop_assert!(line.submitted > Pages(0), "nothing that is there: {}", line);
                let is_random = line.decision.pattern == Pattern::Random;
                prop_assert!(!is_random || size == line.ask.count, "{}", line);
                // A reader waits for a miss: the decision must include its page.
                let is_in = start == line.ask.page
                    || line.decision.pattern == Pattern::Backwards && start < line.ask.page;
                prop_assert!(line.ask.trigger == Trigger::Marker || is_in, "{}", line);
            }
            let now = world.pages.streams.count();
            prop_assert!(now.0 <= Streams::CONFIRMED_MAX && now.1 <= Streams::TENTATIVE_MAX);
        }
    }
}
