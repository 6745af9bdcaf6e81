//! Dirty pages have a bound, and so has the memory; no writer waits forever for budget.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common;
use crate::recorded;
use crate::support;

use foreread::testing::{Faults, Mishap};
use foreread::{Engine, File, OpenOptions};
use recorded::recorded;
use support::{Random, wait_until, wait_until_idle, with_each_io, write_file};
use tempfile::TempDir;

const PAGE: u64 = 4096;
const LEN: u64 = 8 << 20;
const LIMIT: u64 = 256 << 10;

fn open(engine: &Engine, dir: &TempDir, number: u64) -> (File, Arc<Faults>) {
    let path = write_file(dir.path(), number, LEN);
    let faults = Arc::new(Faults::default());
    let options = OpenOptions::new().write(true).faults(Arc::clone(&faults));
    (engine.open_with(&path, &options).expect("it is there"), faults)
}

#[test]
fn dirty_pages_stay_below_their_limit_and_readers_never_wait_for_writers() {
    with_each_io("what_is_dirty_never_passes_its_limit", |io| {
        let dir = TempDir::new_in(common::scratch()).expect("a directory");
        let engine = recorded(Engine::builder().memory(4 << 20).dirty_limit(LIMIT).io_backend(io));
        let files = [open(&engine, &dir, 1).0, open(&engine, &dir, 2).0];
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..4_u64)
                .map(|writer| {
                    let file = files[(writer % 2) as usize].clone();
                    scope.spawn(move || {
                        let (mut random, bytes) = (Random(writer), vec![1; 50_000]);
                        for _ in 0..200 {
                            let offset = random.below(LEN - 50_000);
                            file.write_all_at(&bytes, offset).expect("room comes");
                        }
                    })
                })
                .collect();
            scope.spawn(|| {
                let mut random = Random(77);
                while !is_over.load(Ordering::Relaxed) {
                    let offset = random.below(LEN);
                    files[0].read_at(&mut [0; 9000], offset).expect("bytes");
                }
            });
            while !writers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                let dirty = engine.counters().unwrap().dirty;
                assert!(dirty <= LIMIT, "{dirty} bytes");
                std::thread::yield_now();
            }
            is_over.store(true, Ordering::Relaxed);
        });
        for file in &files {
            file.sync_data().expect("the disk is fine");
        }
        assert_eq!(engine.counters().unwrap().dirty, 0);
        assert!(engine.counters().unwrap().path.writes_waited_for_room > 0, "the limit was met");
        wait_until_idle(&engine);
    });
}

/// One device hangs with all the budget: writers to the other wait, too, and go on when it answers.
#[test]
fn writers_wait_for_room_and_go_on_when_the_device_does() {
    with_each_io("writers_wait_for_room_and_go_on_when_the_device_does", |io| {
        let dir = TempDir::new_in(common::scratch()).expect("a directory");
        let engine = recorded(Engine::builder().memory(4 << 20).dirty_limit(LIMIT).io_backend(io));
        let (file, faults) = open(&engine, &dir, 1);
        faults.inject_writes(0..LEN / PAGE, 0..u32::MAX, Mishap::Hold);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for page in 0..256 {
                    let wrote = file.write_all_at(&[7; 4096], page * PAGE);
                    wrote.expect("room comes");
                }
                done.store(true, Ordering::SeqCst);
            });
            faults.wait_held(1);
            wait_until(|| engine.counters().unwrap().path.writes_waited_for_room > 0);
            assert!(!done.load(Ordering::SeqCst), "there is room for 64 pages");
            let mut byte = [0];
            file.read_at(&mut byte, 4 << 20).expect("a reader needs no room");
            file.read_at(&mut byte, 0).expect("what is written is read");
            assert_eq!(byte, [7]);
            faults.clear();
            faults.let_go();
        });
        file.sync_data().expect("the disk is fine");
    });
}

#[test]
fn closing_the_last_handle_writes_the_dirty_pages() {
    with_each_io("what_is_not_flushed_is_on_the_disk", |io| {
        let dir = TempDir::new_in(common::scratch()).expect("a directory");
        let engine = recorded(Engine::builder().memory(4 << 20).io_backend(io));
        let (file, faults) = open(&engine, &dir, 1);
        let path = dir.path().join("file-1");
        let options = OpenOptions::new().write(true).faults(faults);
        let other = engine.open_with(&path, &options).expect("it is there");
        file.write_all_at(&[1; 9000], 5).expect("room");
        other.write_all_at(&[2; 9000], 100_000).expect("room");
        let stream = other.stream();
        drop((file, other));
        drop(stream);
        let disk = fs::read(&path).expect("it is there");
        assert_eq!(disk[5..9005], [1; 9000]);
        assert_eq!(disk[100_000..109_000], [2; 9000]);
        wait_until_idle(&engine);
    });
}

/// A setting is one of the running engine, and a limit that is lowered holds from then on.
#[test]
fn settings_change_while_it_runs_and_are_named() {
    with_each_io("settings_change_while_it_runs_and_are_named", |io| {
        let dir = TempDir::new_in(common::scratch()).expect("a directory");
        let builder = Engine::builder().memory(4 << 20).io_backend(io);
        let engine = recorded(builder.dirty_limit(1 << 19).dirty_age(Duration::from_secs(60)));
        let setting = |name| {
            let all = engine.settings().unwrap();
            all.into_iter().find(|each| each.0 == name).map(|each| each.1).expect("it is there")
        };
        assert_eq!(setting("dirty_limit"), (1 << 19).to_string());
        assert_eq!(setting("dirty_age"), "60000");
        let (file, _faults) = open(&engine, &dir, 1);
        file.write_all_at(&[1; 200_000], 0).expect("room");
        engine.set_by_name("dirty_limit", "64K").expect("bytes");
        assert_eq!(setting("dirty_limit"), (64 << 10).to_string());
        file.write_all_at(&[1; 100_000], 1 << 20).expect("room comes");
        assert!(engine.counters().unwrap().dirty <= 64 << 10);
        let error =
            engine.set_by_name("dirty_linit", "1").expect_err("no such setting").to_string();
        assert!(error.contains("dirty_limit"), "{error}");
        engine.set_by_name("dirty_age", "soon").expect_err("no number");
        file.device().set_scheduler_by_name("read_expire", "1").expect("a setting of deadline");
        file.device()
            .set_scheduler_by_name("read_expires", "1")
            .expect_err("no setting of deadline");
    });
}
