//! Futures and streams of ranges that are not polled, dropped, or polled elsewhere.
//!
//! In:    reads of ranges, at any point; a device that holds its answers.
//! Out:   counted frames; the right bytes for whichever thread or task asks next.
//! Never: a sleep, or a frame that is lost.

use std::future::Future as _;
use std::pin::pin;
use std::slice;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::*;

/// Streams that were begun and are not polled leave the budget to others, and the frames.
#[test]
fn a_stream_that_is_not_polled_holds_nothing() {
    with_each_io("a_stream_that_is_not_polled_holds_nothing", |io| {
        let dir = tempdir().unwrap();
        let path = write_file(dir.path(), 1, LEN);
        let engine = engine_of(io, 1 << 20);
        let file = engine.open(&path).unwrap();
        let whole = slice::from_ref(&(0..LEN));
        let context = Context::from_waker(Waker::noop());
        let mut streams: Vec<_> = (0..20).map(|_| file.read_ranges_stream(whole)).collect();
        for stream in &mut streams {
            let _ = stream.poll_next(&context);
        }
        // More than the memory, by another reader, and by ranges.
        support::read_and_check(&file, 1, &mut vec![0; 600_000], 0);
        check_all(whole, &file.read_ranges(whole).unwrap());
        wait_until_idle(&engine);
        // They go on when they are polled.
        for mut stream in streams.drain(10..) {
            let (number, bytes) = block_on(stream.next()).unwrap();
            assert_eq!(number, 0);
            check_all(whole, &[bytes.unwrap()]);
            assert!(block_on(stream.next()).is_none());
        }
        drop(streams);
        wait_until_idle(&engine);
        engine.replay().unwrap();
    });
}

/// What a device holds is in flight; what waits behind it is cancelled with its future.
#[test]
fn a_dropped_future_cancels_reads_that_have_not_started() {
    let _watchdog = Watchdog::new("what_has_not_started_is_not_read");
    let dir = tempdir().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    let engine = engine_of(IoBackend::Threads, 1 << 20);
    let (file, faults) = open_faulty(&engine, &path);
    faults.inject(0..1000, 0..1000, Mishap::Hold);
    let ranges: Vec<_> = (0..150).map(|n| n * 2 * PAGE..(n * 2 + 1) * PAGE).collect();
    let mut first = file.read_ranges_async(&ranges);
    let mut second = file.read_ranges_async(&ranges[100..]);
    let mut context = Context::from_waker(Waker::noop());
    assert!(pin!(&mut first).poll(&mut context).is_pending());
    assert!(pin!(&mut second).poll(&mut context).is_pending());
    let budget = engine.frames().unwrap().1 / 4;
    assert!(engine.counters().unwrap().path.pages_missed <= budget, "the budget is for all");
    drop(first);
    drop(second);
    let missed = engine.counters().unwrap().path.pages_missed;
    faults.clear();
    faults.let_go();
    wait_until_idle(&engine);
    assert_eq!(engine.counters().unwrap().path.pages_missed, missed);
    engine.replay().unwrap();
    drop(file);
    wait_until_closed(&faults);
}

#[test]
fn futures_dropped_at_any_point_lose_no_frame() {
    with_each_io("futures_dropped_at_any_point_lose_no_frame", |io| {
        let dir = tempdir().unwrap();
        let path = write_file(dir.path(), 1, LEN);
        let engine = Engine::builder().memory(1 << 20).io_backend(io).build().unwrap();
        let file = engine.open(&path).unwrap();
        let mut random = Random(9);
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..500 {
            let ranges = some_ranges(&mut random, 6);
            let polls = random.below(4);
            if random.below(2) == 0 {
                let mut future = pin!(file.read_ranges_async(&ranges));
                for _ in 0..polls {
                    if let Poll::Ready(results) = future.as_mut().poll(&mut context) {
                        check_all(&ranges, &results.unwrap());
                        break;
                    }
                }
            } else {
                let mut stream = file.read_ranges_stream(&ranges);
                for _ in 0..polls {
                    if let Poll::Ready(Some((number, bytes))) = stream.poll_next(&context) {
                        check(1, ranges[number].start, &bytes.unwrap());
                    }
                }
            }
            if random.below(8) == 0 {
                file.dont_need(0..LEN).unwrap();
            }
        }
        wait_until_idle(&engine);
        let whole = slice::from_ref(&(0..LEN));
        check_all(whole, &file.read_ranges(whole).unwrap());
    });
}

/// A stream goes from a task to a thread, and from thread to thread.
#[test]
fn a_stream_may_change_its_thread_at_any_time() {
    with_each_io("a_stream_may_change_its_thread_at_any_time", |io| {
        let dir = tempdir().unwrap();
        let path = write_file(dir.path(), 1, LEN);
        let engine = engine_of(io, 1 << 20);
        let (file, faults) = open_faulty(&engine, &path);
        faults.inject(200..201, 0..1, Mishap::Hold);
        let ranges = [0..PAGE, 50 * PAGE..60 * PAGE, 200 * PAGE..201 * PAGE];
        let mut stream = file.read_ranges_stream(&ranges);
        let mut seen = vec![block_on(stream.next()).unwrap()];
        let mut threads = stream.into_iter();
        seen.push(std::thread::scope(|scope| {
            scope.spawn(|| threads.next()).join().unwrap().unwrap()
        }));
        faults.wait_held(1);
        let waits = std::thread::spawn(move || threads.next().unwrap());
        faults.let_go();
        seen.push(waits.join().unwrap());
        check_all(&ranges, &all_good(in_order(seen.into_iter(), 3)));
        wait_until(|| engine.frames().is_ok_and(|(idle, all)| idle == all));
    });
}

/// A device that does not answer: each range that wants something of it has that error.
#[test]
fn ranges_of_a_device_that_does_not_answer_time_out() {
    with_each_io("ranges_of_a_device_that_does_not_answer_time_out", |io| {
        let dir = tempdir().unwrap();
        let path = write_file(dir.path(), 1, LEN);
        let engine = Engine::builder().memory(4 << 20).io_backend(io);
        let engine = engine.timeout(Duration::from_millis(20)).build().unwrap();
        let (file, faults) = open_faulty(&engine, &path);
        // Cached before: so it comes whatever happens.
        loop {
            match file.read_ranges(slice::from_ref(&(0..PAGE))) {
                Ok(first) => break check(1, 0, &first[0]),
                Err(error) => {
                    assert!(matches!(error.kind, ReadErrorKind::TimedOut { .. }), "{error}");
                }
            }
        }
        faults.inject(100..200, 0..1000, Mishap::Hold);
        let ranges = [150 * PAGE..151 * PAGE, 0..PAGE, 120 * PAGE..121 * PAGE];
        let failed = file.read_ranges(&ranges).unwrap_err();
        assert!(matches!(failed.kind, ReadErrorKind::TimedOut { .. }), "{failed}");
        let results = in_order(file.read_ranges_stream(&ranges).into_iter(), 3);
        check(1, 0, results[1].as_ref().unwrap());
        for number in [0, 2] {
            let (error, offset) = (results[number].as_ref().unwrap_err(), ranges[number].start);
            let is_of_it =
                matches!(&error.kind, ReadErrorKind::TimedOut { offset: at, .. } if *at == offset);
            assert!(is_of_it, "{error}");
        }
        faults.clear();
        faults.let_go();
        wait_until_idle(&engine);
        drop(file);
        wait_until_closed(&faults);
    });
}
