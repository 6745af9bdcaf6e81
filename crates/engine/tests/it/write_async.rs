//! Writes and flushes that do not block: in executors of every kind, held up at every step, and
//! dropped there.

#![allow(clippy::cast_possible_truncation, reason = "offsets are drawn from words")]

use crate::recorded;
use crate::support;
use crate::tasks;

use std::path::Path;
use std::sync::Arc;

use foreread::testing::{Faults, Mishap};
use foreread::{Engine, File, IoBackend, OpenOptions, WriteError, WriteErrorKind, WriteMode};
use recorded::{Recorded, recorded};
use support::{
    PAGE, Random, check, fill, wait_until, wait_until_closed, wait_until_idle, with_each_io,
    write_file,
};
use tasks::{Counter, Executor, Work, block_on, poll_once};
use tempfile::TempDir;

const LEN: u64 = (3 << 20) + 777;

fn engine(io: IoBackend) -> Recorded {
    recorded(Engine::builder().memory(1 << 20).io_backend(io))
}

/// A file for writing whose device does as told.
fn open_faulty(engine: &Engine, path: &Path) -> (File, Arc<Faults>) {
    let faults = Arc::new(Faults::default());
    let options = OpenOptions::new().write(true).faults(Arc::clone(&faults));
    (engine.open_with(path, &options).unwrap(), faults)
}

fn open(engine: &Engine, path: &Path) -> File {
    engine.open_with(path, &OpenOptions::new().write(true)).unwrap()
}

/// Part of file number `file`.
fn part(file: u64, offset: u64, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    fill(file, offset, &mut bytes);
    bytes
}

fn modes() -> [WriteMode; 3] {
    [WriteMode::WriteBack, WriteMode::WriteThrough, WriteMode::Fua]
}

#[test]
fn a_task_alone_writes_and_flushes_more_than_memory_holds() {
    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    with_each_io("a_task_alone_writes_and_flushes", |io| {
        let engine = engine(io);
        let file = open(&engine, &path);
        for (round, mode) in (10..).zip(modes()) {
            let mut random = Random(round);
            let mut at = 0;
            while at < LEN {
                let len = (1 + random.below(200_000)).min(LEN - at);
                let bytes = part(round, at, len);
                match random.below(3) {
                    0 => {
                        let write = file.write_at_async(&bytes, at).with_mode(mode);
                        assert_eq!(block_on(write).unwrap() as u64, len);
                    }
                    1 => {
                        let write = file.write_all_at_async(&bytes, at).with_mode(mode);
                        block_on(write).unwrap();
                    }
                    _ => {
                        let write = file.write_from(bytes, at).with_mode(mode);
                        let (bytes, written) = block_on(write);
                        assert_eq!(written.unwrap() as u64, len);
                        check(round, at, &bytes);
                    }
                }
                at += len;
            }
            // In one piece after the other, too.
            let all = part(round, 0, LEN);
            let (all, written) = block_on(file.write_from(all, 0));
            assert_eq!(written.unwrap(), all.len());
            block_on(file.sync_data_async()).unwrap();
            assert_eq!(engine.counters().unwrap().dirty, 0, "the device has it");
            assert!(std::fs::read(&path).unwrap() == all, "the device has other bytes");
            let (read, got) = block_on(file.read_into(all, 0));
            assert_eq!(got.unwrap() as u64, LEN);
            check(round, 0, &read);
        }
        wait_until_idle(&engine);
    });
}

#[test]
fn many_tasks_write_read_and_flush_beside_threads() {
    const TASKS: u64 = 40;
    const EACH: u64 = LEN / TASKS;

    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    with_each_io("many_tasks_write_read_and_flush_beside_threads", |io| {
        let engine =
            recorded(Engine::builder().memory(1 << 20).dirty_limit(64 << 10).io_backend(io));
        let file = open(&engine, &path);
        // Neighbours share the pages at their ends.
        let work = |task: u64| -> Work {
            let file = file.clone();
            Box::pin(async move {
                let (mut random, start) = (Random(task << 32), task * EACH);
                for round in 1..12 {
                    let number = task * 100 + round;
                    let bytes = part(number, start, EACH);
                    let mode = modes()[random.below(3) as usize];
                    let mut back = if random.below(2) == 0 {
                        file.write_all_at_async(&bytes, start).with_mode(mode).await.unwrap();
                        bytes
                    } else {
                        let (back, written) = file.write_from(bytes, start).with_mode(mode).await;
                        assert_eq!(written.unwrap() as u64, EACH);
                        back
                    };
                    if random.below(4) == 0 {
                        file.sync_data_async().await.unwrap();
                    }
                    back.fill(0);
                    let (back, got) = file.read_into(back, start).await;
                    assert_eq!(got.unwrap() as u64, EACH);
                    check(number, start, &back);
                }
            })
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..30 {
                    file.write_all_at(&part(7, TASKS * EACH, LEN - TASKS * EACH), TASKS * EACH)
                        .unwrap();
                    file.sync_data().unwrap();
                }
            });
            Executor::run((0..TASKS).map(work).collect(), 3);
        });
        file.sync_data().unwrap();
        let disk = std::fs::read(&path).unwrap();
        for task in 0..TASKS {
            let bytes = &disk[(task * EACH) as usize..][..EACH as usize];
            check(task * 100 + 11, task * EACH, bytes);
        }
        wait_until_idle(&engine);
    });
}

#[test]
fn a_write_that_waits_for_dirty_budget_blocks_no_thread() {
    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    with_each_io("a_write_that_waits_for_dirty_budget", |io| {
        let engine =
            recorded(Engine::builder().memory(1 << 20).dirty_limit(64 << 10).io_backend(io));
        let (file, faults) = open_faulty(&engine, &path);
        faults.inject_writes(0..1000, 0..u32::MAX, Mishap::Hold);
        let bytes = part(2, 0, 300_000);
        let mut lent = file.write_all_at_async(&bytes, 0);
        let mut given = file.write_from(part(2, 300_000, 300_000), 300_000);
        let counters: [Arc<Counter>; 2] = Default::default();
        assert!(poll_once(&mut lent, &counters[0]).is_pending());
        assert!(poll_once(&mut given, &counters[1]).is_pending());
        faults.wait_held(1);
        assert!(poll_once(&mut lent, &counters[0]).is_pending());
        assert!(poll_once(&mut given, &counters[1]).is_pending());
        faults.clear();
        faults.let_go();
        block_on(lent).unwrap();
        assert_eq!(block_on(given).1.unwrap(), 300_000);
        block_on(file.sync_data_async()).unwrap();
        check(2, 0, &std::fs::read(&path).unwrap()[..600_000]);
        wait_until_idle(&engine);
    });
}

#[test]
fn a_flush_that_the_device_holds_blocks_no_thread_and_may_be_dropped() {
    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    with_each_io("a_flush_that_the_device_holds", |io| {
        let engine = engine(io);
        let (file, faults) = open_faulty(&engine, &path);
        faults.inject_syncs(0..1, Mishap::Hold);
        file.write_all_at(&[1; 5000], 100).unwrap();
        let counter: Arc<Counter> = Arc::default();
        let mut kept = file.sync_data_async();
        let mut dropped = file.sync_data_async();
        assert!(poll_once(&mut kept, &counter).is_pending());
        assert!(poll_once(&mut dropped, &Arc::default()).is_pending());
        faults.wait_held(1);
        drop(dropped);
        // Others go on.
        block_on(file.write_all_at_async(&[2; 5000], 200_000)).unwrap();
        let mut other = [0; 100];
        assert_eq!(block_on(file.read_at_async(&mut other, 400_000)).unwrap(), 100);
        check(1, 400_000, &other);
        assert!(poll_once(&mut kept, &counter).is_pending());
        faults.let_go();
        wait_until(|| counter.count() > 0);
        block_on(kept).unwrap();
        drop((file, engine));
        wait_until_closed(&faults);
    });
}

#[test]
fn a_device_that_fails_is_the_error_of_the_write_and_of_the_flush() {
    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    with_each_io("a_device_that_fails_is_the_error_of_the_write", |io| {
        let engine = engine(io);
        let (file, faults) = open_faulty(&engine, &path);
        let is_eio = |error: &WriteError| matches!(&error.kind, WriteErrorKind::Io { source, .. } if source.raw_os_error() == Some(libc::EIO));
        faults.inject_writes(0..1, 0..u32::MAX, Mishap::Errno(libc::EIO));
        let through = file.write_at_async(&[1; 8192], 0).with_mode(WriteMode::WriteThrough);
        let error = block_on(through).unwrap_err();
        assert!(is_eio(&error), "{error}");
        let (bytes, written) = block_on(file.write_from([2; 4096], 0).with_mode(WriteMode::Fua));
        assert!(is_eio(&written.unwrap_err()) && bytes == [2; 4096]);
        let error = block_on(file.sync_data_async()).unwrap_err();
        assert!(is_eio(&error), "{error}");
        faults.clear();
        block_on(file.sync_data_async()).unwrap();

        // The rest of a page cannot be read.
        faults.inject(100..101, 0..u32::MAX, Mishap::Errno(libc::EIO));
        let error = block_on(file.write_at_async(&[3; 10], 100 * PAGE + 5)).unwrap_err();
        assert!(is_eio(&error), "{error}");
        let (_, written) = block_on(file.write_from(vec![3; 10], 100 * PAGE + 5));
        assert!(is_eio(&written.unwrap_err()));
        faults.clear();

        faults.inject_syncs(0..1, Mishap::Errno(libc::EIO));
        file.write_all_at(&[4; 4096], 0).unwrap();
        assert!(block_on(file.sync_data_async()).is_err());
        block_on(file.sync_data_async()).unwrap();
        wait_until_idle(&engine);
    });
}

/// The thread that performs a step drops its file before it wakes the task, or another engine
/// would find it in use.
#[test]
fn a_file_is_closed_with_its_handle_when_the_last_step_was_heard_of() {
    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    with_each_io("a_file_is_closed_with_its_handle", |io| {
        for round in 0..150 {
            let engine = Engine::builder().memory(1 << 20).io_backend(io).build().unwrap();
            let file = open(&engine, &path);
            match round % 3 {
                0 => block_on(file.sync_data_async()).unwrap(),
                1 => block_on(file.set_len_async(LEN + round)).unwrap(),
                _ => block_on(file.write_from(vec![7; 3000], round * PAGE)).1.map(drop).unwrap(),
            }
        }
    });
}

#[test]
fn a_write_that_cannot_be_is_an_error_at_once_and_gives_the_buffer_back() {
    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    let engine = engine(IoBackend::Probe);
    let reader = engine.open(&path).unwrap();
    let (bytes, written) = block_on(reader.write_from(vec![5; 3], 0));
    assert!(
        matches!(written, Err(WriteError { kind: WriteErrorKind::ReadOnly, .. }))
            && bytes == [5; 3]
    );
    block_on(reader.sync_data_async()).unwrap();
    drop(reader);
    let file = open(&engine, &path);
    let error = block_on(file.write_at_async(&[1; 2], u64::MAX - 1)).unwrap_err();
    assert!(matches!(error.kind, WriteErrorKind::Length { .. }), "{error}");
    let (_, written) = block_on(file.write_from([1; 2], u64::MAX));
    assert!(matches!(written, Err(WriteError { kind: WriteErrorKind::Length { .. }, .. })));
    assert_eq!(file.len(), LEN);
    assert_eq!(block_on(file.write_at_async(&[], LEN)).unwrap(), 0);
    assert_eq!(block_on(file.write_from([], 0)).1.unwrap(), 0);
    wait_until_idle(&engine);
}

/// Each of these waits for the one before, and none is polled again: the thread that drives does
/// all their steps, one after the other and not inside one another.
#[test]
fn a_long_line_of_owned_writes_to_one_page_needs_no_polls() {
    const WRITES: u64 = 4_000;

    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    with_each_io("a_long_line_of_owned_writes", |io| {
        let engine = Engine::builder().memory(1 << 20).io_backend(io).build().unwrap();
        let (file, faults) = open_faulty(&engine, &path);
        faults.inject(7..8, 0..1, Mishap::Hold);
        let mut writes: Vec<_> =
            (0..WRITES).map(|number| file.write_from(number.to_le_bytes(), 7 * PAGE + 1)).collect();
        for write in &mut writes {
            assert!(poll_once(write, &Arc::default()).is_pending());
        }
        faults.wait_held(1);
        faults.let_go();
        // It waits for all of them, and has a thread of its own: this one.
        file.write_all_at(&[9; 8], 7 * PAGE + 9).unwrap();
        let mut page = [0; 17];
        file.read_at(&mut page, 7 * PAGE).unwrap();
        assert_eq!(page[1..9], (WRITES - 1).to_le_bytes());
        assert_eq!(page[9..], [9; 8]);
        for (number, write) in (0..).zip(&mut writes) {
            // It is in memory, and the thread that did its last step is about to say so.
            let (bytes, written) = block_on(write);
            assert_eq!((u64::from_le_bytes(bytes), written.unwrap()), (number, 8));
        }
        drop(writes);
        wait_until_idle(&engine);
    });
}

#[test]
fn a_write_dropped_before_it_has_its_page_was_never() {
    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    with_each_io("a_write_dropped_before_it_has_its_page", |io| {
        let engine = engine(io);
        let (file, faults) = open_faulty(&engine, &path);
        let mut page = [0; 8];
        drop((file.write_at_async(&[1; 8], 0), file.write_from([1; 8], 0)));
        file.read_at(&mut page, 0).unwrap();
        check(1, 0, &page);
        // While the rest of its page is read.
        for (at, held) in [(40 * PAGE, 1), (80 * PAGE, 2)] {
            faults.inject(at / PAGE..at / PAGE + 1, 0..1, Mishap::Hold);
            let (mut lent, mut given) =
                (file.write_at_async(&[1; 8], at), file.write_from([1; 8], at));
            let is_ready = match held {
                1 => poll_once(&mut lent, &Arc::default()).is_ready(),
                _ => poll_once(&mut given, &Arc::default()).is_ready(),
            };
            assert!(!is_ready, "the device holds it");
            faults.wait_held(held);
            drop((lent, given));
            faults.let_go();
            file.read_at(&mut page, at).unwrap();
            check(1, at, &page);
        }
        wait_until_idle(&engine);
    });
}

#[test]
fn a_write_dropped_after_it_has_its_page_is_whole() {
    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    with_each_io("a_write_dropped_after_it_has_its_page", |io| {
        let engine = engine(io);
        let (file, faults) = open_faulty(&engine, &path);
        let (at, mut page) = (120 * PAGE, [0; 8]);
        faults.inject(120..121, 0..1, Mishap::Hold);
        let counter: Arc<Counter> = Arc::default();
        let mut lent = file.write_at_async(&[3; 8], at);
        assert!(poll_once(&mut lent, &counter).is_pending());
        faults.wait_held(1);
        faults.let_go();
        wait_until(|| counter.count() > 0);
        drop(lent);
        file.read_at(&mut page, at).unwrap();
        assert_eq!(page, [3; 8]);

        // The device has not answered yet: it goes on. Both are held, or the second might be done
        // before it is polled.
        faults.inject_writes(200..203, 0..2, Mishap::Hold);
        let mut lent = file.write_at_async(&[4; 4096], 200 * PAGE).with_mode(WriteMode::Fua);
        assert!(poll_once(&mut lent, &Arc::default()).is_pending());
        drop(lent);
        let given = file.write_from(vec![5; 4096], 202 * PAGE);
        let mut given = given.with_mode(WriteMode::WriteThrough);
        assert!(poll_once(&mut given, &Arc::default()).is_pending());
        drop(given);
        faults.wait_held(3);
        faults.let_go();
        block_on(file.sync_data_async()).unwrap();
        let disk = std::fs::read(&path).unwrap();
        assert!(disk[200 * 4096..][..4096] == [4; 4096] && disk[202 * 4096..][..4096] == [5; 4096]);
        drop((file, engine));
        wait_until_closed(&faults);
    });
}
