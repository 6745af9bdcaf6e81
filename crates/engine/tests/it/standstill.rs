//! Writers, readers and flushes of one small engine come to an end, whichever leaves first.
//!
//! What one of them leaves undone another one does, or sleeps until it is time to. Whether that is
//! so shows when the last ones wait: no other thread comes that would do it by chance.

use std::time::Duration;

use crate::common;
use crate::recorded;
use crate::support;

use foreread::lab::Delay;
use foreread::{Engine, File, OpenOptions, WriteMode};
use recorded::recorded;
use support::{Random, with_each_io, write_file};
use tempfile::TempDir;

const LEN: u64 = 1 << 20;
const ROUNDS: u64 = 30;

#[test]
fn every_wait_ends_under_random_load() {
    let dir = TempDir::new_in(common::scratch()).expect("a directory");
    let path = write_file(dir.path(), 1, LEN);
    for round in 0..ROUNDS {
        with_each_io("every_wait_ends_under_random_load", |io| {
            let mut random = Random(round << 20);
            // What is old enough is written when it is due, which hides a thread that forgot it.
            let age = [Duration::from_millis(1), Duration::from_hours(1)];
            let age = age[usize::from(random.below(2) == 0)];
            let limit = 32 << (10 + random.below(2));
            let builder = Engine::builder().memory(1 << 20).dirty_limit(limit).dirty_age(age);
            let engine = recorded(builder.io_backend(io));
            let slow = Delay { latency: Duration::from_micros(300), parallel: 2, bandwidth: None };
            let delay = (random.below(3) == 0).then_some(slow);
            let options = OpenOptions::new().write(true).delay(delay);
            let file = engine.open_with(&path, &options).expect("it is there");
            if random.below(3) == 0 {
                file.device().set_scheduler_by_name("scheduler", "noop").expect("there is one");
            } else if random.below(8) > 0 {
                file.device().set_scheduler_by_name("read_hold", "1").expect("it is milliseconds");
            }
            std::thread::scope(|scope| {
                let (engine, file) = (&*engine, &file);
                for thread in 0..2 + random.below(5) {
                    let random = Random(round << 20 | (thread + 1) << 16);
                    scope.spawn(move || work(engine, file, random));
                }
            });
        });
    }
}

fn work(engine: &Engine, file: &File, mut random: Random) {
    let mut bytes = vec![1; 24 << 10];
    for _ in 0..1 + random.below(24) {
        let most = 1 << (2 + random.below(13));
        let len = 1 + random.below(most);
        let offset = random.below(LEN - len);
        let part = &mut bytes[..usize::try_from(len).expect("small")];
        match random.below(20) {
            0..8 => file.write_all_at(part, offset).expect("room comes"),
            8..11 => file
                .write_all_at_with(part, offset, WriteMode::WriteThrough)
                .expect("it is written"),
            11 => file.write_all_at_with(part, offset, WriteMode::Fua).expect("it is written"),
            12..14 => file.write_zeroes(offset..offset + len, false).expect("zeros"),
            14 => file.sync_data().expect("it is written"),
            15 => (0..random.below(300)).for_each(|_| std::thread::yield_now()),
            16 => {
                let age = ["1", "3600000"][usize::from(random.below(2) == 0)];
                engine.set_by_name("dirty_age", age).expect("an age");
            }
            _ => assert!(file.read_at(part, offset).expect("bytes") > 0),
        }
    }
}
