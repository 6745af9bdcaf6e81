//! The path against a world that is simple enough to be obviously right.
//!
//! The world records the page that a device last wrote into each frame. For any order of
//! completions, any failures, and any shortage of memory:
//!
//!   - a read ends exactly once, and its frames hold its pages;
//!   - a page found up to date in the table is in the frame that the table names;
//!   - no page is in two requests at a time; no request is too large, exceeds the depth, or is past
//!     the end;
//!   - when all is done, every frame is free or on a list.

use crate::common;
mod replay;
mod world;

use common::{PlainPages, PlainStream};
use foreread_core::prefetch::Policy;
use foreread_core::units::ByteCount;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use world::{Answer, Op, World};

fn op() -> impl Strategy<Value = Op> {
    let answer = prop_oneof![
        8 => Just(Answer::Good),
        1 => (0..64_u64).prop_map(Answer::Short),
        1 => Just(Answer::Failed),
    ];
    let len = prop_oneof![Just(4096), 1..20_000_u64, 1..600_000_u64];
    let file_len = prop_oneof![Just(0_u64), 0..20_000_u64, 0..3_000_000_u64];
    prop_oneof![
        2 => (0..8_usize, any::<u64>(), len.clone())
            .prop_map(|(stream, pos, len)| Op::Read { stream, pos, len }),
        4 => (0..8_usize, len).prop_map(|(stream, len)| Op::ReadOn { stream, len }),
        3 => (0..4_usize, any::<u64>(), 1..40_u64)
            .prop_map(|(file, start, pages)| Op::ReadPlanned { file, start, pages }),
        1 => any::<usize>().prop_map(|which| Op::Cancel { which }),
        6 => (any::<usize>(), answer).prop_map(|(which, answer)| Op::Complete { which, answer }),
        4 => (any::<usize>(), prop_oneof![1..4096_u64, 4000..40_000_u64])
            .prop_map(|(which, bytes)| Op::Arrive { which, bytes }),
        4 => any::<usize>().prop_map(|which| Op::Release { which }),
        1 => (0..4_usize).prop_map(|file| Op::Reopen { file }),
        1 => (0..4_usize, file_len).prop_map(|(file, len)| Op::SetLen { file, len }),
        1 => (0..4_usize, any::<u64>(), 0..90_u64)
            .prop_map(|(file, start, pages)| Op::Invalidate { file, start, pages }),
        4 => (0..4_usize, any::<u64>()).prop_map(|(file, page)| Op::Pin { file, page }),
        3 => any::<usize>().prop_map(|which| Op::Unpin { which }),
        2 => Just(Op::Report),
    ]
}

fn policy() -> impl Strategy<Value = Policy> {
    proptest::sample::select(Policy::ALL.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 128,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("proptest-regressions"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn whatever_happens_reads_end_once_with_their_own_pages(
        policy in policy(),
        max in 0..64_u64,
        ops in proptest::collection::vec(op(), 1..150),
    ) {
        let mut world =
            World::new(policy, 1 << 20, max, &[1, 4096, 700_001, 3_000_000]);
        for op in &ops {
            world.apply(op);
        }
        world.finish();
    }

    /// With room for everything, the order of completions changes no decision: they are those of
    /// the plain walk over a plain set.
    #[test]
    fn with_enough_memory_decisions_are_those_of_the_plain_walk(
        policy in policy(),
        max in 1..40_u64,
        reads in proptest::collection::vec((0..2_usize, 0..900_u64, 1..40_u64, any::<bool>()), 1..80),
    ) {
        let mut world = World::new(policy, 64 << 20, max, &[1000 * 4096 - 5]);
        let mut pages = PlainPages::default();
        let mut plain = [PlainStream::new(policy, max), PlainStream::new(policy, max)];
        for stream in &mut plain {
            stream.limits.io_pages = world.geometry.max_io;
            stream.file = ByteCount(1000 * 4096 - 5);
        }
        let mut want = Vec::new();
        for (stream, page, count, goes_on) in reads {
            let reader = &world.readers[stream];
            let page = if goes_on { reader.prev_pos.unwrap_or(0) / 4096 } else { page };
            let id = reader.id;
            if page >= 1000 {
                continue;
            }
            world.read(stream, page * 4096, count * 4096);
            world.pump();
            // Its own pages must arrive before it reads on; others may still be in flight.
            while world.pending.values().any(|read| read.stream == stream) {
                let tag = *world.in_flight.keys().next_back().unwrap();
                world.complete(tag, Answer::Good);
                world.pump();
            }
            while !world.ready.is_empty() {
                world.release(0);
            }
            world.pump();
            want.extend(plain[stream].read(&mut pages, page, count).into_iter().map(|(l, _)| (id, l)));
            for (_, decided) in world.decisions.iter_mut().chain(&mut want) {
                decided.ask.has_waited = false;
            }
            prop_assert_eq!(&world.decisions, &want);
        }
        world.finish();
    }
}

/// Two readers of one page: one request serves both.
#[test]
fn a_page_on_its_way_is_joined_and_not_asked_for_again() {
    let mut world = World::new(Policy::None, 1 << 20, 0, &[40_960]);
    world.read(0, 0, 4096);
    world.pump();
    world.read(1, 0, 4096);
    world.pump();
    assert_eq!(world.in_flight.len(), 1);
    assert_eq!(world.path.stats().pages_joined, 1);
    let tag = *world.in_flight.keys().next().unwrap();
    world.complete(tag, Answer::Good);
    world.pump();
    assert_eq!(world.ready.len(), 2);
    world.finish();
}

/// One bad page in a request of many: reads of the other pages succeed at the cost of one more
/// request each; reads of the bad one get the error.
#[test]
fn a_bad_page_is_the_error_of_its_own_readers_only() {
    let mut world = World::new(Policy::Linux6, 1 << 20, 16, &[409_600]);
    // One page is wanted, three are read ahead.
    world.read(0, 0, 4096);
    world.pump();
    let tag = *world.in_flight.keys().next().unwrap();
    world.complete(tag, Answer::Failed);
    world.pump();
    assert_eq!(world.path.stats().retries, 1, "the wanted page, once more");
    let tag = *world.in_flight.keys().next().unwrap();
    assert_eq!(world.in_flight[&tag].2, 1, "alone");
    world.complete(tag, Answer::Good);
    world.pump();
    assert_eq!(world.faults, 0);
    world.release(0);
    // The three others were dropped: page 1 is a miss again, and now it is really bad.
    world.read(0, 4096, 4096);
    world.pump();
    while let Some(tag) = world.in_flight.keys().next().copied() {
        world.complete(tag, Answer::Failed);
        world.pump();
    }
    assert_eq!(world.faults, 1);
    world.finish();
}

/// Pages that arrive one after the other wake their readers one after the other.
#[test]
fn the_reader_of_the_first_page_is_ready_before_the_last_page_has_come() {
    let mut world = World::new(Policy::Linux6, 1 << 20, 16, &[409_600]);
    // Two pages are requested, of which one is wanted; another reader wants the second.
    world.read(0, 0, 4096);
    world.pump();
    let tag = *world.in_flight.keys().next().unwrap();
    assert_eq!(world.in_flight[&tag].2, 2);
    world.read(1, 4096, 4096);
    world.pump();
    world.arrive(tag, 4095);
    world.pump();
    assert_eq!(world.ready.len(), 0, "a page is up to date when all of it is there");
    world.arrive(tag, 1);
    world.pump();
    assert_eq!(world.ready.len(), 1);
    world.arrive(tag, 4095);
    world.pump();
    assert_eq!(world.ready.len(), 1);
    assert!(world.in_flight.contains_key(&tag), "and the request goes on");
    assert_eq!(world.path.pages(tag).len(), 1);
    world.complete(tag, Answer::Good);
    world.pump();
    assert_eq!(world.ready.len(), 2);
    world.finish();
    assert_eq!(world.faults, 0);
}

/// A connection breaks in the middle: the pages that arrived are good, the next one is read again.
#[test]
fn pages_that_arrived_stay_valid_when_the_rest_fails() {
    let mut world = World::new(Policy::Linux6, 1 << 20, 16, &[409_600]);
    world.read(0, 0, 3 * 4096);
    world.pump();
    let tag = *world.in_flight.keys().next().unwrap();
    world.arrive(tag, 2 * 4096 + 5);
    world.pump();
    world.complete(tag, Answer::Failed);
    world.pump();
    assert_eq!(world.path.stats().retries, 1, "of the three pages that are wanted the third");
    let tag = *world.in_flight.keys().next().unwrap();
    assert_eq!((world.in_flight[&tag].1, world.in_flight[&tag].2), (2, 1), "it alone");
    world.complete(tag, Answer::Failed);
    world.pump();
    assert_eq!(world.faults, 1, "and then its reader gets the error");
    world.release(0);
    let before = world.started;
    world.read(0, 0, 2 * 4096);
    assert_eq!(world.started, before, "the two others are cached");
    world.finish();
}

/// An arrived frame belongs to its page, which may be evicted while the request is in flight.
#[test]
fn a_page_that_has_arrived_may_leave_before_its_request_ends() {
    let mut world = World::new(Policy::Linux6, 1 << 20, 16, &[409_600]);
    world.read(0, 0, 4096);
    world.pump();
    let tag = *world.in_flight.keys().next().unwrap();
    world.arrive(tag, 4096);
    world.pump();
    world.release(0);
    world.apply(&Op::Invalidate { file: 0, start: 0, pages: 1 });
    world.read(1, 0, 4096);
    world.pump();
    let again = *world.in_flight.keys().find(|other| **other != tag).unwrap();
    world.complete(again, Answer::Good);
    world.complete(tag, Answer::Good);
    world.pump();
    world.finish();
    assert_eq!(world.faults, 0);
}

/// Requests split by a plan stay split, and nothing else is read with them.
#[test]
fn planned_reads_are_the_requests_of_their_plan() {
    let mut world = World::new(Policy::Linux6, 4 << 20, 64, &[4_096_000]);
    for start in [8, 0, 4, 40] {
        world.read_planned(0, start, 4);
    }
    world.pump();
    assert_eq!(world.requests(), [(0, 4), (4, 4), (8, 4), (40, 4)]);
    world.finish();
    assert_eq!((world.ended, world.faults), (4, 0));
    // All of it is cached now, except page 3: one request.
    world.apply(&Op::Invalidate { file: 0, start: 3, pages: 1 });
    world.read_planned(0, 0, 12);
    world.pump();
    assert_eq!(world.requests(), [(3, 1)]);
    world.finish();
}

/// A quarter of the frames is in flight, other reads wait; a cancelled read makes no request.
#[test]
fn planned_reads_wait_for_their_budget() {
    let mut world = World::new(Policy::None, 1 << 20, 0, &[40_960_000; 8]);
    let budget = world.path.planned_budget().0 / 4096;
    for file in 0..8 {
        for n in 0..8 {
            world.read_planned(file, n * 16, 16);
        }
        world.pump();
    }
    let in_flight: u64 = world.requests().iter().map(|(_, count)| count).sum();
    assert!(world.path.planned_in_flight().0 / 4096 > budget - 16, "it is used");
    assert!(in_flight <= budget);
    // Frames are available to another reader.
    world.read(15, 30_000_000, 4096 * 8);
    world.pump();
    assert_eq!(world.path.stats().waited_for_frames, 0);
    let before = world.path.stats().pages_missed;
    for which in 0..world.pending.len() {
        world.cancel(which);
    }
    world.pump();
    world.finish();
    assert_eq!(world.path.stats().pages_missed, before, "what was cancelled is not read");
    assert_eq!(world.path.planned_in_flight(), ByteCount(0));
}

/// Reads that together need more than all frames: they queue, and all are served.
#[test]
fn reads_wait_for_frames_in_the_order_of_their_arrival() {
    let mut world = World::new(Policy::None, 1 << 20, 0, &[4_000_000; 8]);
    for stream in 0..16 {
        world.read(stream, stream as u64 * 40 * 4096, 2_000_000);
        world.pump();
    }
    assert!(world.path.stats().waited_for_frames > 0, "more was asked for than there is");
    world.finish();
    assert_eq!(world.ended, 16);
}

/// A path that counted the read that missed a page as its second use promoted every page, and a
/// scan evicted the working set.
#[test]
fn pages_that_are_read_once_never_become_active() {
    for policy in [Policy::None, Policy::Linux6] {
        let mut world = World::new(policy, 1 << 20, 32, &[40_960_000]);
        for page in 0..10_000 {
            world.read(0, page * 4096, 4096);
            world.pump();
            while let Some(tag) = world.in_flight.keys().next().copied() {
                world.complete(tag, Answer::Good);
                world.pump();
            }
            while !world.ready.is_empty() {
                world.release(0);
            }
        }
        let stats = world.path.cache_stats();
        assert!(stats.evictions > 9000, "{stats:?}");
        assert_eq!((stats.activations, stats.evicted_before_use), (0, 0), "{stats:?}");
    }
}

/// Read-ahead uses spare frames only: a window is cut when frames are short, a read never is.
#[test]
fn windows_are_cut_when_frames_are_short() {
    let mut world = World::new(Policy::Linux6, 1 << 20, 64, &[4_000_000; 20]);
    for file in 0..20 {
        // Nothing completes: every frame that is taken stays taken.
        let count = if file < 6 { 8 } else { 3 };
        world.read(2 * file, 0, count * 4096);
        world.pump();
    }
    assert!(world.path.stats().windows_shortened > 0);
    world.finish();
    assert_eq!(world.ended, 20);
}
