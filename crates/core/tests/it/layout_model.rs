//! Extent-mapped files against a plain model that maps each sector of a file to a sector of its
//! device or to a hole. Extents, reads and hints are random; files are closed at any time; devices
//! answer in any order, fail and end early; the driver fills holes late. Each read ends once with
//! its own bytes, and each request is within the extents.

#![cfg(not(loom))]

mod world;

use foreread_core::path::{ExtentMap, Fault, FileExtent, InvalidExtents, OpenError};
use foreread_core::prefetch::Policy;
use foreread_core::units::{ByteCount, PageIndex};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use world::{Answer, Op, Piece, World};

fn op() -> impl Strategy<Value = Op> {
    let answer = prop_oneof![
        8 => Just(Answer::Good),
        1 => (0..64_u64).prop_map(Answer::Short),
        1 => Just(Answer::Failed),
    ];
    let len = prop_oneof![1..5000_u64, 1..20_000_u64, 1..300_000_u64];
    prop_oneof![
        2 => (0..8_usize, any::<u64>(), len.clone())
            .prop_map(|(stream, pos, len)| Op::Read { stream, pos, len }),
        4 => (0..8_usize, len).prop_map(|(stream, len)| Op::ReadOn { stream, len }),
        6 => (any::<usize>(), answer).prop_map(|(which, answer)| Op::Complete { which, answer }),
        3 => any::<usize>().prop_map(|which| Op::Release { which }),
        2 => Just(Op::FillHoles),
        1 => (0..4_usize, any::<u64>(), 1..60_u64)
            .prop_map(|(file, start, pages)| Op::WillNeed { file, start, pages }),
        1 => (0..4_usize, any::<u64>(), 0..90_u64)
            .prop_map(|(file, start, pages)| Op::Invalidate { file, start, pages }),
        1 => (0..4_usize).prop_map(|file| Op::Reopen { file }),
    ]
}

/// Pieces with blocks of 512 bytes to 4 KiB, some separated by holes, some adjacent on the device.
fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    (0..4_u32).prop_flat_map(|block| {
        let gap = prop_oneof![3 => Just(0_u64), 1 => 1..30_u64];
        let skip = prop_oneof![1 => Just(0_u64), 2 => 1..9_u64];
        let piece =
            (gap, 1..40_u64, skip, any::<bool>()).prop_map(move |(gap, len, skip, is_below)| {
                Piece { gap: gap << block, len: len << block, skip: skip << block, is_below }
            });
        proptest::collection::vec(piece, 0..40)
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 128,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("proptest-regressions"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn whatever_happens_reads_end_once_with_their_own_bytes(
        policy in proptest::sample::select(Policy::ALL.to_vec()),
        max in 0..64_u64,
        files in proptest::collection::vec((pieces(), 0..9000_u64), 1..4),
        ops in proptest::collection::vec(op(), 1..150),
    ) {
        let mut world = World::new(policy, max);
        for (pieces, beyond) in &files {
            world.add_file(pieces, *beyond);
        }
        for op in &ops {
            world.apply(op);
        }
        world.finish();
    }

    /// A map of one extent leads to the same requests as a contiguous file.
    #[test]
    fn a_file_in_one_piece_asks_as_a_plain_file_does(
        policy in proptest::sample::select(Policy::ALL.to_vec()),
        len in 1..900_000_u64,
        reads in proptest::collection::vec((any::<u64>(), 1..60_000_u64, any::<bool>()), 1..60),
    ) {
        let asked = [false, true].map(|is_plain| {
            let mut world = World::new(policy, 32);
            world.add_run(len, is_plain);
            for (pos, len, goes_on) in &reads {
                world.apply(&match goes_on {
                    true => Op::ReadOn { stream: 0, len: *len },
                    false => Op::Read { stream: 0, pos: *pos, len: *len },
                });
                world.settle();
            }
            world.finish();
            world.asked
        });
        prop_assert_eq!(&asked[0], &asked[1]);
    }
}

fn extent(start: u64, len: u64, place: u64) -> FileExtent {
    FileExtent { start: ByteCount(start), len: ByteCount(len), place: Some(ByteCount(place)) }
}

/// A page of two blocks of 1 KiB, a hole of 1 KiB, and another block.
const FOUR: [(u64, u64); 3] = [(0, 90_112), (1024, 61_440), (3072, 204_800)];

fn page_of_parts() -> World {
    let mut world = World::new(Policy::None, 0);
    world.add_extents(4096, FOUR.map(|(start, place)| extent(start, 1024, place)).to_vec());
    world
}

#[test]
fn a_page_in_parts_is_ready_when_all_of_them_are() {
    let mut world = page_of_parts();
    world.apply(&Op::Read { stream: 0, pos: 0, len: 4096 });
    let asked: Vec<_> = world.asked.iter().map(|(at, len)| (at.0, len.0)).collect();
    assert_eq!(asked, [(90_112, 1024), (61_440, 1024), (204_800, 1024)]);
    for _ in 0..3 {
        assert_eq!(world.ended, 0);
        world.apply(&Op::Complete { which: 0, answer: Answer::Good });
    }
    assert_eq!(world.ended, 0, "the hole is not filled");
    world.apply(&Op::FillHoles);
    assert_eq!(world.ended, 1);
    world.finish();
}

#[test]
fn a_bad_part_is_the_error_of_its_readers_once_the_others_have_ended() {
    let mut world = page_of_parts();
    world.apply(&Op::Read { stream: 0, pos: 0, len: 4096 });
    world.apply(&Op::FillHoles);
    world.apply(&Op::Complete { which: 1, answer: Answer::Failed });
    world.apply(&Op::Complete { which: 0, answer: Answer::Good });
    assert_eq!(world.ended, 0, "its frame is still being filled");
    world.apply(&Op::Complete { which: 0, answer: Answer::Good });
    assert_eq!(world.faults, [Fault::Io(5)]);
    world.apply(&Op::Release { which: 0 });
    world.apply(&Op::Read { stream: 1, pos: 0, len: 4096 });
    world.finish();
    assert_eq!(world.faults.len(), 1, "asked again, it was good");
}

/// Otherwise a read that arrives while the rest of a page is in flight would get the error of an
/// earlier request without a retry.
#[test]
fn a_part_that_failed_without_readers_is_asked_for_again_by_a_read_that_comes_meanwhile() {
    let mut world = page_of_parts();
    world.apply(&Op::WillNeed { file: 0, start: 0, pages: 1 });
    world.apply(&Op::FillHoles);
    world.apply(&Op::Complete { which: 0, answer: Answer::Failed });
    world.apply(&Op::Read { stream: 0, pos: 0, len: 4096 });
    for _ in 0..2 {
        world.apply(&Op::Complete { which: 0, answer: Answer::Good });
    }
    assert_eq!((world.ended, world.asked.len()), (0, 4));
    assert_eq!(world.asked[3], world.asked[0]);
    world.apply(&Op::Complete { which: 0, answer: Answer::Good });
    assert_eq!((world.ended, world.faults.len()), (1, 0));
    world.finish();
}

/// A retry was not dispatched if a hole ended last, and the read hung.
#[test]
fn a_part_that_failed_is_asked_for_again_when_the_zeros_come_last() {
    let mut world = page_of_parts();
    world.apply(&Op::WillNeed { file: 0, start: 0, pages: 1 });
    for answer in [Answer::Good, Answer::Failed, Answer::Good] {
        world.apply(&Op::Complete { which: 0, answer });
    }
    world.apply(&Op::Read { stream: 0, pos: 0, len: 4096 });
    world.apply(&Op::FillHoles);
    assert_eq!((world.ended, world.asked.len()), (0, 4));
    world.finish();
    assert_eq!((world.ended, world.faults.len()), (1, 0));
}

#[test]
fn a_page_ahead_of_which_a_part_failed_is_dropped_and_asked_for_when_it_is_wanted() {
    let mut world = page_of_parts();
    world.apply(&Op::WillNeed { file: 0, start: 0, pages: 1 });
    world.apply(&Op::FillHoles);
    for answer in [Answer::Good, Answer::Short(32), Answer::Good] {
        world.apply(&Op::Complete { which: 0, answer });
    }
    assert!(!world.is_there(0, PageIndex(0)));
    world.apply(&Op::Read { stream: 0, pos: 0, len: 4096 });
    world.finish();
    assert_eq!((world.asked.len(), world.faults.len()), (6, 0));
}

#[test]
fn adjacent_extents_share_a_request_and_a_window_crosses_extents() {
    let mut world = World::new(Policy::Linux6, 16);
    world.add_extents(
        16 * 4096,
        Vec::from([
            extent(0, 8192, 1 << 20),
            // Behind a hole in the file, but adjacent on the device.
            extent(16_384, 8192, (1 << 20) + 8192),
            extent(24_576, 40_960, 8 << 20),
        ]),
    );
    world.apply(&Op::Read { stream: 0, pos: 0, len: 8 * 4096 });
    world.settle();
    let asked: Vec<_> = world.asked.iter().map(|(at, len)| (at.0, len.0 / 4096)).collect();
    assert_eq!(asked, [(1 << 20, 4), (8 << 20, 10)], "the window is all of the file");
    world.finish();
}

#[test]
fn layouts_take_a_sixteenth_of_the_memory_at_most_and_give_it_back() {
    let mut world = World::new(Policy::None, 0);
    // A hole and an extent of 16 bytes each: together more than half of 64 KiB.
    let extents = |count: u64| (0..count).map(|n| extent(n * 8192, 4096, n * 8192));
    let layout = std::sync::Arc::new(ExtentMap::new(extents(1100)).unwrap());
    let open = |world: &mut World| {
        world.path.open_extents(world.device, ByteCount(9_000_000), std::sync::Arc::clone(&layout))
    };
    let first = open(&mut world).unwrap();
    assert_eq!(open(&mut world), Err(OpenError::ExtentMaps { limit: ByteCount(65_536) }));
    let now = world.tick();
    world.path.close(now, first);
    assert!(open(&mut world).is_ok());
    assert_eq!(ExtentMap::new(extents(2).chain(extents(1))), Err(InvalidExtents::Disorder(2)));
}
