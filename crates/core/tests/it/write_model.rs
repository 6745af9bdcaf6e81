//! Writes, flushes and zeroes against a world in which each byte has a history.
//!
//! For any order of completions, any failures, and any shortage of memory:
//!
//!   - a hit has the newest bytes, a read has bytes that were the file's while it ran;
//!   - after a successful flush all earlier writes are on the disk, and so is a write-through;
//!   - dirty pages stay within their limit, a page is in one device write at a time;
//!   - at the end nothing waits, every frame is free or on a list, the disk has all bytes, and a
//!     replay of the log gives the same results.
//!
//! The world is in write_world/.

#![cfg(not(loom))]

use crate::write_world;

use foreread_core::path::WriteMode;
use foreread_core::prefetch::Policy;
use foreread_core::sched::SchedulerKind;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use write_world::{Answer, Op, World};

fn policy() -> impl Strategy<Value = Policy> {
    proptest::sample::select(vec![Policy::Linux6, Policy::Adaptive])
}

fn op() -> impl Strategy<Value = Op> {
    let answer = prop_oneof![
        8 => Just(Answer::Good),
        1 => (0..64_u64).prop_map(Answer::Short),
        1 => Just(Answer::Failed),
    ];
    let len = || prop_oneof![Just(4096), 1..20_000_u64, 1..300_000_u64];
    let mode = prop_oneof![
        4 => Just(WriteMode::WriteBack),
        1 => Just(WriteMode::WriteThrough),
        1 => Just(WriteMode::Fua),
    ];
    let place =
        || prop_oneof![any::<u64>(), any::<u64>().prop_map(|pos| pos / 4096 * 4096), 0..9000_u64];
    let setting = prop_oneof![
        (0..300_000_u64).prop_map(|bytes| ("dirty_limit", bytes)),
        (0..200_000_u64).prop_map(|bytes| ("dirty_background", bytes)),
        (0..50_u64).prop_map(|ms| ("dirty_age", ms)),
        (1..9_u64).prop_map(|requests| ("writes_queued", requests)),
    ];
    let which = any::<usize>;
    prop_oneof![
        6 => (0..4_usize, place(), len(), mode)
            .prop_map(|(file, pos, len, mode)| Op::Write { file, pos, len, mode }),
        8 => (which(), 0..20_u8).prop_map(|(which, n)| Op::Drive { which, fails: n == 0 }),
        4 => (0..4_usize, place(), len()).prop_map(|(file, pos, len)| Op::Read { file, pos, len }),
        4 => which().prop_map(|which| Op::Release { which }),
        8 => (which(), answer).prop_map(|(which, answer)| Op::Complete { which, answer }),
        2 => (0..4_usize, any::<bool>()).prop_map(|(file, back)| Op::Flush { file, back }),
        2 => (0..4_usize, any::<u64>(), 0..40_u64)
            .prop_map(|(file, start, pages)| Op::Zero { file, start, pages }),
        2 => (0..4_usize, any::<u64>(), any::<u64>())
            .prop_map(|(file, how, len)| Op::ChangeLen { file, how, len }),
        1 => which().prop_map(|which| Op::Cancel { which }),
        1 => (0..4_usize, any::<u64>(), 0..90_u64)
            .prop_map(|(file, start, pages)| Op::Invalidate { file, start, pages }),
        1 => (0..4_usize).prop_map(|file| Op::Reopen { file }),
        1 => setting.prop_map(|(name, value)| Op::Set { name, value }),
        1 => policy().prop_map(Op::Policy),
        1 => (0..2_usize, proptest::sample::select(vec!["noop", "deadline"]))
            .prop_map(|(device, name)| Op::Scheduler { device, name }),
        2 => (0..4_usize, any::<u64>()).prop_map(|(file, page)| Op::Pin { file, page }),
        2 => which().prop_map(|which| Op::Unpin { which }),
        1 => (0..4_usize, any::<u64>()).prop_map(|(file, page)| Op::Break { file, page }),
        1 => Just(Op::Repair),
        3 => prop_oneof![0..20_u64, 0..10_000_u64].prop_map(|ms| Op::Wait { ms }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("proptest-regressions"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn whatever_happens_no_byte_is_old_or_lost_and_everything_ends(
        seed in any::<u64>(),
        by_deadline in any::<bool>(),
        policy in policy(),
        ops in proptest::collection::vec(op(), 1..200),
    ) {
        let name = if by_deadline { "deadline" } else { "noop" };
        let scheduler = SchedulerKind::from_name(name).unwrap();
        let lens: &[&[usize]] = &[&[700_001, 100_000], &[4096, 1_300_000]];
        let mut world = World::new(seed, &scheduler, lens);
        world.path.set("policy", policy.name()).unwrap();
        for op in &ops {
            world.apply(op);
        }
        world.finish();
    }
}
