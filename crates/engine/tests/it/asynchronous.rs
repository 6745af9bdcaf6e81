//! Reads that do not block: in executors of every kind, cancelled at every point, beside threads.

#![allow(clippy::cast_possible_truncation, reason = "offsets are drawn from words")]

use crate::recorded;
use crate::support;
use crate::tasks;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use foreread::testing::Mishap;
use foreread::{Engine, IoBackend, ReadError, ReadErrorKind};
use recorded::{Recorded, recorded};
use support::{
    PAGE, Random, check, open_faulty, read_and_check, wait_until, wait_until_closed,
    wait_until_idle, with_each_io, write_file,
};
use tasks::{Counter, Executor, Work, block_on, poll_once};
use tempfile::TempDir;

const LEN: u64 = (3 << 20) + 777;

fn engine(io: IoBackend, memory: u64) -> Recorded {
    recorded(Engine::builder().memory(memory).io_backend(io))
}

#[test]
fn a_task_alone_in_the_engine_is_served() {
    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    with_each_io("a_task_alone_in_the_engine_is_served", |io| {
        let engine = engine(io, 1 << 20);
        let file = engine.open(&path).unwrap();
        let mut buffer = vec![0; 100_000];
        let mut random = Random(1);
        for _ in 0..300 {
            let (offset, room) = (random.below(LEN), random.below(100_000) as usize);
            let read = file.read_at_async(&mut buffer[..room], offset);
            let got = block_on(read).unwrap();
            assert_eq!(got as u64, (room as u64).min(LEN - offset));
            check(1, offset, &buffer[..got]);
        }
        assert_eq!(block_on(file.read_at_async(&mut buffer, LEN)).unwrap(), 0);
        assert_eq!(block_on(file.read_at_async(&mut buffer, LEN + 1)).unwrap(), 0);
        wait_until_idle(&engine);
    });
}

#[test]
fn many_tasks_that_move_between_threads_read_the_right_bytes() {
    const FILES: u64 = 3;
    const TASKS: u64 = 60;

    let dir = TempDir::new().unwrap();
    let paths: Vec<_> = (0..FILES).map(|file| write_file(dir.path(), file, LEN)).collect();
    with_each_io("many_tasks_that_move_between_threads", |io| {
        let engine = engine(io, 2 << 20);
        let files: Vec<_> = paths.iter().map(|path| engine.open(path).unwrap()).collect();
        let work = |task: u64| -> Work {
            let number = task % FILES;
            let file = files[number as usize].clone();
            Box::pin(async move {
                let (mut random, mut stream) = (Random(task << 32), file.stream());
                let mut buffer = vec![0; 40_000];
                let mut next = random.below(LEN);
                for _ in 0..40 {
                    let room = 1 + random.below(buffer.len() as u64 - 1) as usize;
                    let (offset, got) = if task.is_multiple_of(2) {
                        let got = stream.read_at_async(&mut buffer[..room], next).await.unwrap();
                        let offset = next;
                        next = if got < room { 0 } else { next + got as u64 };
                        (offset, got)
                    } else {
                        let offset = random.below(LEN);
                        let got = file.read_at_async(&mut buffer[..room], offset).await.unwrap();
                        (offset, got)
                    };
                    assert_eq!(got as u64, (room as u64).min(LEN - offset));
                    check(number, offset, &buffer[..got]);
                }
            })
        };
        Executor::run((0..TASKS).map(work).collect(), 4);
        wait_until_idle(&engine);
    });
}

#[test]
fn the_waker_of_the_last_poll_is_the_one_that_is_called() {
    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    with_each_io("the_waker_of_the_last_poll", |io| {
        let engine = engine(io, 1 << 20);
        let (file, faults) = open_faulty(&engine, &path);
        faults.inject(100..101, 0..1, Mishap::Hold);
        let mut buffer = [0; 1000];
        let mut read = file.read_at_async(&mut buffer, 100 * PAGE);
        let counters: [Arc<Counter>; 3] = Default::default();
        for counter in &counters {
            assert!(poll_once(&mut read, counter).is_pending());
        }
        faults.wait_held(1);
        faults.let_go();
        wait_until(|| counters[2].count() == 1);
        assert!(matches!(poll_once(&mut read, &counters[0]), Poll::Ready(Ok(1000))));
        drop(read);
        check(1, 100 * PAGE, &buffer);
        assert_eq!(counters.map(|counter| counter.count()), [0, 0, 1]);
    });
}

#[test]
fn a_future_may_be_dropped_after_any_number_of_polls() {
    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    with_each_io("a_future_may_be_dropped_after_any_number_of_polls", |io| {
        let engine = engine(io, 1 << 20);
        let (file, faults) = open_faulty(&engine, &path);
        let stream = file.stream();
        let mut stream = Some(stream);
        let mut random = Random(7);
        for round in 0..400 {
            let polls = round % 4;
            let mut buffer = vec![0; 1 + random.below(300_000) as usize];
            let offset = random.below(LEN);
            let mut own = stream.take().unwrap();
            let mut read = if round % 2 == 0 {
                own.read_at_async(&mut buffer, offset)
            } else {
                file.read_at_async(&mut buffer, offset)
            };
            for _ in 0..polls {
                if poll_once(&mut read, &Arc::default()).is_ready() {
                    break;
                }
            }
            drop(read);
            stream = Some(own);
            // Its buffer is ours at once, and a page that it asked for is there for others.
            buffer.fill(0);
            read_and_check(&file, 1, &mut buffer[..1], offset);
        }
        drop(stream);
        wait_until_idle(&engine);
        drop((file, engine));
        wait_until_closed(&faults);
    });
}

#[test]
fn futures_dropped_while_the_device_holds_their_pages_leave_nothing_behind() {
    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    with_each_io("futures_dropped_while_the_device_holds_their_pages", |io| {
        let engine = engine(io, 1 << 20);
        let (file, faults) = open_faulty(&engine, &path);
        faults.inject(0..200, 0..u32::MAX, Mishap::Hold);
        for page in [0, 50, 51, 100, 150] {
            let mut buffer = [0; 20_000];
            let mut read = file.read_at_async(&mut buffer, page * PAGE);
            assert!(poll_once(&mut read, &Arc::default()).is_pending());
        }
        faults.wait_held(1);
        let (idle, all) = engine.frames().unwrap();
        assert!(idle < all, "{idle} of {all} are idle while the device holds some");
        read_and_check(&file, 1, &mut [0; 5000], 300 * PAGE);
        faults.clear();
        faults.let_go();
        wait_until_idle(&engine);
        for page in 0..200 {
            read_and_check(&file, 1, &mut [0; 4096], page * PAGE);
        }
    });
}

/// Abandoned reads keep the file open, and the engine with it, until the device has answered: only
/// then is their memory free. Dropping the last handle does not wait for that.
#[test]
fn after_all_handles_are_gone_a_held_read_ends_the_file_when_the_device_answers() {
    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    with_each_io("after_all_handles_are_gone", |io| {
        let engine = engine(io, 1 << 20);
        let (file, faults) = open_faulty(&engine, &path);
        faults.inject(0..200, 0..u32::MAX, Mishap::Hold);
        for page in [0, 50] {
            let mut buffer = [0; 20_000];
            let mut read = file.read_at_async(&mut buffer, page * PAGE);
            assert!(poll_once(&mut read, &Arc::default()).is_pending());
        }
        faults.wait_held(2);
        drop((file, engine));
        assert!(Arc::strong_count(&faults) > 1, "the device has not answered yet");
        faults.clear();
        faults.let_go();
        wait_until_closed(&faults);
    });
}

#[test]
fn tasks_and_threads_that_want_the_same_page_get_it_by_one_request() {
    const READERS: usize = 4;

    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    with_each_io("tasks_and_threads_that_want_the_same_page", |io| {
        let engine = engine(io, 1 << 20);
        let (file, faults) = open_faulty(&engine, &path);
        let mut held = 0;
        // Without equal distances: those would be a stream.
        for page in (0..10).map(|n| 10 + 19 * n + n * n % 7) {
            faults.clear();
            faults.inject(page..page + 1, 0..1, Mishap::Hold);
            let before = engine.counters().unwrap().path.device_reads;
            let mut buffers = [[0; 5]; READERS];
            let counters: [Arc<Counter>; READERS] = Default::default();
            let offset = page * PAGE + 7;
            std::thread::scope(|scope| {
                for _ in 0..READERS {
                    scope.spawn(|| read_and_check(&file, 1, &mut [0; 5], offset));
                }
                let mut reads: Vec<_> =
                    buffers.iter_mut().map(|to| file.read_at_async(to, offset)).collect();
                for (read, counter) in reads.iter_mut().zip(&counters) {
                    assert!(poll_once(read, counter).is_pending());
                }
                held += 1;
                faults.wait_held(held);
                faults.let_go();
                wait_until(|| counters.iter().all(|counter| counter.count() == 1));
                for read in &mut reads {
                    let end = poll_once(read, &Arc::default());
                    assert!(matches!(end, Poll::Ready(Ok(5))), "{end:?}");
                }
            });
            buffers.iter().for_each(|buffer| check(1, offset, buffer));
            let asked = engine.counters().unwrap().path.device_reads - before;
            assert!(asked <= 2, "{asked} requests: the page, and what is ahead of it");
        }
        wait_until_idle(&engine);
    });
}

/// A thread that reads its lone miss by itself once counted as one that could lead, so that no
/// thread reaped for the others for as long as its device took.
#[test]
fn a_thread_that_reads_by_itself_holds_no_task_up() {
    let dir = TempDir::new().unwrap();
    let paths = [write_file(dir.path(), 1, LEN), write_file(dir.path(), 2, LEN)];
    with_each_io("a_thread_that_reads_by_itself_holds_no_task_up", |io| {
        let engine = engine(io, 1 << 20);
        let (slow, faults) = open_faulty(&engine, &paths[0]);
        let fast = engine.open(&paths[1]).unwrap();
        faults.inject(100..101, 0..1, Mishap::Hold);
        std::thread::scope(|scope| {
            scope.spawn(|| read_and_check(&slow, 1, &mut [0; 100], 100 * PAGE));
            faults.wait_held(1);
            for page in [1, 100, 200, 300] {
                let mut buffer = [0; 9000];
                let got = block_on(fast.read_at_async(&mut buffer, page * PAGE)).unwrap();
                check(2, page * PAGE, &buffer[..got]);
            }
            faults.let_go();
        });
        wait_until_idle(&engine);
    });
}

/// The same among threads: the next leader was once picked without a look at where it is.
#[test]
fn a_thread_that_reads_by_itself_holds_no_other_thread_up() {
    let dir = TempDir::new().unwrap();
    let paths = [write_file(dir.path(), 1, LEN), write_file(dir.path(), 2, LEN)];
    with_each_io("a_thread_that_reads_by_itself_holds_no_other_thread_up", |io| {
        let engine = engine(io, 1 << 20);
        let (slow, faults) = open_faulty(&engine, &paths[0]);
        // Late, so that its reads go to the ring.
        let delay = Some("latency=100us,parallel=2".parse().unwrap());
        let options = foreread::OpenOptions::new().delay(delay);
        let late = engine.open_with(&paths[1], &options).unwrap();
        faults.inject(100..101, 0..1, Mishap::Hold);
        std::thread::scope(|scope| {
            scope.spawn(|| read_and_check(&slow, 1, &mut [0; 100], 100 * PAGE));
            faults.wait_held(1);
            std::thread::scope(|scope| {
                for thread in 0..3 {
                    let late = &late;
                    scope.spawn(move || {
                        let mut random = Random(thread << 32);
                        for _ in 0..100 {
                            let offset = random.below(LEN);
                            read_and_check(late, 2, &mut [0; 9000], offset);
                        }
                    });
                }
            });
            faults.let_go();
        });
        wait_until_idle(&engine);
    });
}

#[test]
fn a_failed_page_is_the_error_of_each_task_that_waits_for_it() {
    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    with_each_io("a_failed_page_is_the_error_of_each_task", |io| {
        let engine = engine(io, 1 << 20);
        let (file, faults) = open_faulty(&engine, &path);
        faults.inject(50..51, 0..u32::MAX, Mishap::Errno(libc::EIO));
        let mut random = Random(3);
        for _ in 0..50 {
            let offset = random.below(100 * PAGE);
            let mut buffer = vec![0; 1 + random.below(9000) as usize];
            let read = block_on(file.read_at_async(&mut buffer, offset));
            let is_bad = offset < 51 * PAGE && offset + buffer.len() as u64 > 50 * PAGE;
            match read {
                Ok(got) => {
                    assert!(!is_bad && got == buffer.len());
                    check(1, offset, &buffer);
                }
                Err(ReadError { kind: ReadErrorKind::Io { source, .. }, .. }) => {
                    assert!(is_bad, "{} bytes at {offset}", buffer.len());
                    assert_eq!(source.raw_os_error(), Some(libc::EIO));
                }
                Err(error) => panic!("{error}"),
            }
        }
        wait_until_idle(&engine);
    });
}

#[test]
fn a_task_may_wait_for_several_reads_at_a_time() {
    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    with_each_io("a_task_may_wait_for_several_reads", |io| {
        let engine = engine(io, 1 << 20);
        let file = engine.open(&path).unwrap();
        for round in 0..20 {
            let mut buffers: Vec<Vec<u8>> = (0..30).map(|i| vec![0; 100 + 999 * i]).collect();
            let offset = |i: usize| mix_offset(round, i);
            let places = buffers.iter_mut().enumerate();
            let mut reads: Vec<_> =
                places.map(|(i, to)| Some(file.read_at_async(to, offset(i)))).collect();
            block_on(poll_fn(|context| {
                for read in &mut reads {
                    if let Some(running) = read
                        && let Poll::Ready(end) = Pin::new(running).poll(context)
                    {
                        assert!(end.unwrap() > 0);
                        *read = None;
                    }
                }
                if reads.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
            }));
            drop(reads);
            for (i, buffer) in buffers.iter().enumerate() {
                let got = buffer.len().min((LEN - offset(i)) as usize);
                check(1, offset(i), &buffer[..got]);
            }
        }
        wait_until_idle(&engine);
    });
}

fn mix_offset(round: u64, read: usize) -> u64 {
    support::mix(round << 20 | read as u64) % LEN
}
