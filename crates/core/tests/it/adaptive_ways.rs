//! `adaptive` with backward streams, strided streams, and reads out of order. The tests check which
//! reads wait and which pages are read in vain, not the rules that lead to it.

use crate::common;

use std::collections::BTreeSet;

use common::{PlainPages, PlainStream};
use foreread_core::prefetch::{Decided, Pattern, Policy, Trigger};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

/// Readers of one file.
struct World {
    pages: PlainPages,
    handles: Vec<PlainStream>,
    wanted: BTreeSet<u64>,
    lines: Vec<Decided>,
    misses: u64,
}

impl World {
    fn new(handles: usize, max: u64) -> Self {
        Self {
            pages: PlainPages::default(),
            handles: vec![PlainStream::new(Policy::Adaptive, max); handles],
            wanted: BTreeSet::new(),
            lines: Vec::new(),
            misses: 0,
        }
    }

    fn read(&mut self, handle: usize, page: u64, count: u64) {
        self.bytes(handle, page * 4096, count * 4096);
    }

    fn bytes(&mut self, handle: usize, pos: u64, len: u64) {
        let handle = handle % self.handles.len();
        let lines = self.handles[handle].read_bytes(&mut self.pages, pos, len);
        let is_miss = |line: &Decided| line.ask.trigger == Trigger::Miss;
        self.misses += u64::from(lines.iter().any(|(line, _)| is_miss(line)));
        self.lines.extend(lines.into_iter().map(|(line, _)| line));
        self.wanted.extend(pos / 4096..(pos + len).div_ceil(4096));
    }

    /// Returns the number of pages read but not wanted.
    fn extra(&self) -> usize {
        self.pages.resident.difference(&self.wanted).count()
    }

    fn windows(&self, first: usize) -> String {
        let text = |line: &Decided| {
            let window = line.decision.window;
            format!("{}+{}-{}", window.start, window.size, window.async_size)
        };
        self.lines[first..].iter().map(text).collect::<Vec<_>>().join(" ")
    }
}

#[test]
fn a_stream_that_goes_backwards_waits_for_its_first_three_reads_only() {
    for (count, max) in [(1, 32), (1, 256), (8, 32), (16, 32), (16, 256), (60, 256), (5, 60)] {
        for handles in [1, 4] {
            let mut world = World::new(handles, max);
            let reads = 4000 / count;
            for read in (1..=reads).rev() {
                world.read(usize::try_from(read).unwrap(), 7 + read * count, count);
            }
            assert_eq!(world.misses, 3, "{count} pages a read, max {max}, {handles} handles");
            assert!(world.extra() <= 2 * usize::try_from(max).unwrap(), "{}", world.extra());
            let windows = world.lines.len() as u64;
            assert!(windows <= 14 + 4000 / max, "{windows} windows of {max}");
        }
    }
}

#[test]
fn backward_windows_grow_as_published_and_each_is_asked_for_before_it_is_needed() {
    let mut world = World::new(1, 1920);
    for page in (0..=1250).rev() {
        world.read(0, 8 * page, 8);
    }
    assert_eq!(
        world.windows(0),
        "10000+8-0 9992+8-0 9960+32-9 9832+128-1 9576+256-1 9064+512-1 8040+1024-1 6120+1920-1 \
         4200+1920-1 2280+1920-1 360+1920-1 0+360-0",
    );
    assert_eq!((world.misses, world.extra()), (3, 0));
}

#[test]
fn backward_streams_take_turns_as_if_each_were_alone() {
    for streams in [2, 8, 32] {
        let mut world = World::new(1, 32);
        for read in (0..400).rev() {
            (0..streams).for_each(|stream| world.read(0, (stream << 20) + 100 + 3 * read, 3));
        }
        assert_eq!(world.misses, 3 * streams);
        assert!(world.extra() as u64 <= 64 * streams);
    }
}

#[test]
fn reads_that_end_inside_a_page_go_backwards_too() {
    let mut world = World::new(1, 32);
    for read in (0..600).rev() {
        world.bytes(0, 1_000_000 + read * 10_000, 10_000);
    }
    assert!(world.misses <= 3, "{}", world.misses);
}

#[test]
fn a_stream_that_leaves_gaps_gets_its_pieces_and_no_page_between() {
    for (count, every, max) in
        [(1, 10, 32), (1, 1000, 256), (4, 9, 32), (16, 64, 32), (16, 100, 256), (2, 4096, 32)]
    {
        for handles in [1, 3] {
            let mut world = World::new(handles, max);
            for read in 0..300 {
                world.read(usize::try_from(read).unwrap(), 50 + read * every, count);
            }
            let at = format!("{count} of {every}, max {max}");
            assert_eq!(world.misses, 3, "{at}");
            let ahead = world.extra() as u64;
            assert!(ahead <= 2 * max, "{at}: {ahead} pages");
            let is_piece = |page: &u64| (page - 50) % every < count;
            assert!(world.pages.resident.iter().all(is_piece), "{at}");
            // A window has as many pieces as fit `max` pages.
            let windows = world.lines.len() as u64;
            assert!(windows <= 10 + 300 / (max / count), "{at}: {windows}");
        }
    }
}

#[test]
fn a_short_gap_is_read_along() {
    for (count, every) in [(3, 5), (4, 8), (16, 20)] {
        let mut world = World::new(1, 64);
        for read in 0..300 {
            world.read(0, 50 + read * every, count);
        }
        assert_eq!(world.misses, 3, "{count} of {every}");
        let all = 150..50 + 200 * every;
        let gaps = all.clone().filter(|page| !world.pages.resident.contains(page)).count();
        // The gap behind the last piece of a window is not read.
        assert!(gaps * 4 < all.count(), "{count} of {every}: {gaps}");
    }
}

#[test]
fn strided_streams_take_turns() {
    for streams in 1..=4 {
        let mut world = World::new(1, 32);
        for read in 0..200 {
            for stream in 0..streams {
                world.read(0, (stream << 30) + 9 + read * (50 + stream), 2);
            }
        }
        assert_eq!(world.misses, 3 * streams, "{streams} in turns");
    }
}

#[test]
fn a_strided_stream_goes_on_behind_a_piece_that_was_evicted() {
    let mut world = World::new(1, 32);
    for read in 0..300 {
        if read == 100 {
            world.pages.resident.remove(&(50 + 103 * 10));
        }
        world.read(0, 50 + read * 10, 1);
    }
    assert_eq!(world.misses, 4);
}

/// Threads submit the reads of one stream, each at most `late - 1` reads after its turn.
#[test]
fn reads_in_the_wrong_order_are_one_stream_wherever_it_begins() {
    for (first, size) in [0, 16, 1000].into_iter().flat_map(|first| [4, 16].map(|n| (first, n))) {
        for (late, handles) in [(2, 1), (2, 8), (3, 8), (4, 1), (4, 8)] {
            for seed in 0..20 {
                let mut world = World::new(handles, 128);
                let mut order: Vec<u64> = (0..600).collect();
                let mut number: u64 = 77 * seed + late;
                order.sort_by_cached_key(|read| {
                    number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    read + (number >> 33) % late
                });
                for read in order {
                    world.read(usize::try_from(read).unwrap(), first + size * read, size);
                }
                let at = format!("from {first}, {size} pages, late {late}, {handles} handles");
                assert!(world.misses <= 10, "{at}: {} misses", world.misses);
                assert!(world.extra() <= 3 * 128, "{at}: {} pages", world.extra());
            }
        }
    }
}

/// Two threads submit every pair of reads in the wrong order, from the first pair on.
#[test]
fn pairs_that_are_swapped_are_a_stream_that_goes_forwards() {
    for size in [1, 4, 16] {
        let mut world = World::new(2, 64);
        for pair in 0..200 {
            world.read(0, 5000 + (2 * pair + 1) * size, size);
            world.read(1, 5000 + 2 * pair * size, size);
        }
        assert!(world.misses <= 8, "{size} pages a read: {} misses", world.misses);
        assert!(world.pages.resident.first() == Some(&5000), "nothing before it is read");
        let turned = world.lines.iter().any(|line| line.decision.pattern == Pattern::Backwards);
        assert!(!turned, "{size} pages a read");
    }
}

#[test]
fn reads_at_random_are_neither_backwards_nor_strided() {
    for (count, reads) in [(1, 40_000), (4, 10_000), (16, 4000)] {
        let (mut world, mut number) = (World::new(1, 32), 1_u64);
        for _ in 0..reads {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            world.read(0, (number >> 33) % (1 << 18) / count * count, count);
        }
        let is_way = |pattern| matches!(pattern, Pattern::Backwards | Pattern::Strided(_));
        let ways = world.lines.iter().filter(|line| is_way(line.decision.pattern)).count();
        assert_eq!(ways, 0, "of {reads} reads of {count} pages");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: Some(Box::new(
            FileFailurePersistence::WithSource("proptest-regressions")
        )),
        ..ProptestConfig::default()
    })]

    /// Arbitrary reads over pages that come and go: windows are bounded, decisions include the
    /// missing page, and resident pages trigger none.
    #[test]
    fn whatever_comes_the_windows_are_within_their_bounds(
        max in proptest::sample::select(vec![1, 2, 7, 32, 256]),
        steps in proptest::collection::vec(
            (0..8_u8, 0..3000_u64, 1..20_u64, 1..200_u64, 2..12_u64), 1..40),
    ) {
        let mut world = World::new(3, max);
        for (number, (what, page, count, every, times)) in steps.into_iter().enumerate() {
            let first = world.lines.len();
            match what {
                0 => world.pages.resident.retain(|at| !(page..page + 10 * count).contains(at)),
                1 | 2 => (0..times).rev().for_each(|i| world.read(number, page + i * count, count)),
                3..=5 => (0..times).for_each(|i| world.read(number, page + i * every, count)),
                _ => (0..times).for_each(|i| world.read(number, page + i * count, count)),
            }
            if what == 0 {
                let resident = world.pages.resident.clone();
                world.pages.markers.retain(|page| resident.contains(page));
            }
            for line in &world.lines[first..] {
                let window = line.decision.window;
                let read = line.ask.page..line.ask.page + line.ask.count;
                if line.ask.trigger == Trigger::Miss {
                    prop_assert!(window.start <= read.start && read.start < window.end(), "{line}");
                }
                let mut all: Vec<u64> = (window.start.0..window.end().0).collect();
                if let Pattern::Strided(stride) = line.decision.pattern {
                    all.retain(|page| (page - window.start.0) % stride.every.0 < stride.read.0);
                }
                let beyond = all.iter().filter(|page| !(read.start.0..read.end.0).contains(page));
                prop_assert!(beyond.count() as u64 <= max, "max {max}: {line}");
                prop_assert!(line.submitted.0 <= all.len() as u64);
                prop_assert!(line.submitted.0 > 0, "nothing that is there: {line}");
            }
        }
    }
}
