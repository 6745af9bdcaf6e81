//! Power cuts: promised data is there, and all data found was written.
//!
//! In:    1,200 runs of some hundred steps each on a disk with a volatile cache. At the cut, each
//!        sector of that cache and of requests in flight survives or not.
//! Out:   nothing; or the seed of a run after which a sector contains
//!          - something older than a flush or a FUA write had promised, or
//!          - something that was never there: of another page, or half of one write and half of
//!            another.
//! Never: a test that cannot fail: three saboteurs are detected.
//!
//! The world is in write_world/, which also checks each step.

#![cfg(not(loom))]
#![expect(clippy::cast_possible_truncation, reason = "the world is small")]

use crate::write_world;

use std::panic;

use foreread_core::path::WriteMode;
use foreread_core::sched::SchedulerKind;
use write_world::{Answer, Op, Random, Sabotage, World};

#[test]
fn what_was_promised_survives_and_nothing_is_torn() {
    for seed in 0..1200 {
        if let Err(why) = run(seed, Sabotage::Nothing) {
            panic!("seed {seed}: {why}");
        }
    }
}

#[test]
fn a_flush_that_does_not_flush_the_disk_is_found_out() {
    assert!(caught(Sabotage::NoFlush).contains("was promised"));
}

#[test]
fn a_fua_write_that_stays_in_the_disks_cache_is_found_out() {
    assert!(caught(Sabotage::NoFua).contains("was promised"));
}

#[test]
fn a_write_into_a_page_that_is_being_written_is_found_out() {
    let why = caught(Sabotage::InPlace);
    assert!(why.contains("never written there") || why.contains("is not on the disk"), "{why}");
}

/// Returns the first error reported by a run.
fn caught(sabotage: Sabotage) -> String {
    let says = |seed| match panic::catch_unwind(|| run(seed, sabotage)) {
        Ok(result) => result.err(),
        // The world's checks may fail before the cut.
        Err(panic) => Some(panic.downcast_ref::<String>().cloned().unwrap_or_default()),
    };
    (0..400).find_map(says).expect("a test that cannot fail")
}

fn run(seed: u64, sabotage: Sabotage) -> Result<(), String> {
    let mut random = Random(seed << 20);
    let name = ["noop", "deadline"][random.below(2) as usize];
    let lens: &[&[usize]] = &[&[100_001, 50_000], &[200_000]];
    let mut world =
        World::new(seed, &SchedulerKind::from_name(name).unwrap(), lens).sabotaged(sabotage);
    world.apply(&Op::Set { name: "dirty_age", value: random.below(40) });
    for _ in 0..random.below(250) {
        let op = op(&mut random);
        // A reader would detect it first.
        if sabotage == Sabotage::InPlace && matches!(op, Op::Read { .. }) {
            continue;
        }
        world.apply(&op);
        for device in &mut world.devices {
            device.disk.destage(|| random.once_in(50));
        }
    }
    world.cut()
}

fn op(random: &mut Random) -> Op {
    let file = random.below(3) as usize;
    let which = random.next() as usize;
    // The same places are frequent, so that pages are rewritten while they are in flight.
    let pos = random.below(12) * 4096 + [0, random.below(4096)][random.below(2) as usize];
    let len = [4096, 1 + random.below(6000), 1 + random.below(60_000)][random.below(3) as usize];
    let mode =
        [WriteMode::WriteBack, WriteMode::WriteBack, WriteMode::WriteThrough, WriteMode::Fua];
    let answer = match random.below(12) {
        0 => Answer::Failed,
        1 => Answer::Short(random.below(64)),
        _ => Answer::Good,
    };
    match random.below(22) {
        0..5 => Op::Write { file, pos, len, mode: mode[random.below(4) as usize] },
        5..10 => Op::Drive { which, fails: random.once_in(20) },
        10..15 => Op::Complete { which, answer },
        15 => Op::Flush { file, back: random.once_in(4) },
        16 => Op::Zero { file, start: pos / 4096, pages: random.below(6) },
        17 => Op::Read { file, pos, len },
        18 => Op::Release { which },
        19 => Op::ChangeLen { file, how: random.next(), len: random.next() >> random.below(64) },
        20 => Op::Cancel { which },
        _ => Op::Wait { ms: random.below(60) },
    }
}
