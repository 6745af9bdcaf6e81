//! Reads of many ranges: the bytes of plain reads, in as few requests as planned, within the bound.
//!
//! In:    sets of ranges, sensible and not; devices that fail or hold their answers.
//! Out:   for each range its bytes or its own error; counted requests, pages and frames.
//! Never: a sleep, or a time that decides.

use crate::support;
use crate::tasks;
mod unpolled;

use std::ops::Range;
use std::slice;

use foreread::testing::Mishap;
use foreread::{Engine, File, IoBackend, ReadError, ReadErrorKind};
use support::{
    PAGE, Random, Watchdog, check, fill, open_faulty, wait_until, wait_until_closed,
    wait_until_idle, with_each_io, write_file,
};
use tasks::{Executor, Work, block_on};
use tempfile::tempdir;

/// File 1: a page and a half more than 300 pages.
const LEN: u64 = 300 * PAGE + 6000;

fn engine_of(io: IoBackend, memory: u64) -> Engine {
    Engine::builder().memory(memory).io_backend(io).record(1 << 22).build().unwrap()
}

/// Ranges of all kinds: in the file, across its end, empty, overlapping.
fn some_ranges(random: &mut Random, count: u64) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for _ in 0..count {
        let start = match random.below(4) {
            // Near the one before.
            0 => ranges.last().map_or(0, |last| last.end.min(LEN)) + random.below(3) * 2500,
            1 => ranges.last().map_or(0, |last| last.start),
            _ => random.below(LEN + 1),
        };
        let len = match random.below(64) {
            0..4 => 0,
            4 => random.below(LEN),
            5 => 1 << 63,
            6..20 => random.below(40_000),
            _ => random.below(5000),
        };
        let start = start.min(LEN);
        ranges.push(start..start.saturating_add(len));
    }
    ranges
}

fn check_all(ranges: &[Range<u64>], results: &[Box<[u8]>]) {
    assert_eq!(ranges.len(), results.len());
    for (range, bytes) in ranges.iter().zip(results) {
        assert_eq!(bytes.len() as u64, range.end.min(LEN) - range.start, "{range:?}");
        check(1, range.start, bytes);
    }
}

/// All of a stream, by the number of the range.
fn in_order(
    results: impl Iterator<Item = (usize, Result<Box<[u8]>, ReadError>)>,
    count: usize,
) -> Vec<Result<Box<[u8]>, ReadError>> {
    let mut all: Vec<_> = (0..count).map(|_| None).collect();
    for (number, result) in results {
        assert!(all[number].replace(result).is_none(), "range {number} came twice");
    }
    all.into_iter().map(|result| result.expect("each range comes")).collect()
}

fn all_good(results: Vec<Result<Box<[u8]>, ReadError>>) -> Vec<Box<[u8]>> {
    results.into_iter().map(|result| result.unwrap_or_else(|error| panic!("{error}"))).collect()
}

async fn streamed(file: &File, ranges: &[Range<u64>]) -> Vec<Box<[u8]>> {
    let (mut stream, mut all) = (file.read_ranges_stream(ranges), Vec::new());
    while let Some(next) = stream.next().await {
        all.push(next);
    }
    all_good(in_order(all.into_iter(), ranges.len()))
}

/// One of the four ways.
fn read_some_way(way: u64, file: &File, ranges: &[Range<u64>]) -> Vec<Box<[u8]>> {
    match way % 4 {
        0 => file.read_ranges(ranges).unwrap(),
        1 => block_on(file.read_ranges_async(ranges)).unwrap(),
        2 => block_on(streamed(file, ranges)),
        _ => {
            let stream = file.read_ranges_stream(ranges).into_iter();
            all_good(in_order(stream, ranges.len()))
        }
    }
}

#[test]
fn ranges_have_the_bytes_of_plain_reads() {
    with_each_io("ranges_have_the_bytes_of_plain_reads", |io| {
        let dir = tempdir().unwrap();
        let path = write_file(dir.path(), 1, LEN);
        // The smaller engine has fewer frames than the file has pages: it evicts pages before use.
        for memory in [1 << 20, 16 << 20] {
            let engine = engine_of(io, memory);
            let file = engine.open(&path).unwrap();
            let mut random = Random(memory);
            for way in 0..40 {
                let count = random.below(40);
                let ranges = some_ranges(&mut random, count);
                check_all(&ranges, &read_some_way(way, &file, &ranges));
                if random.below(3) == 0 {
                    let start = random.below(LEN);
                    file.dont_need(start..start + random.below(LEN)).unwrap();
                }
            }
            wait_until_idle(&engine);
            engine.replay().unwrap();
        }
    });
}

#[test]
fn threads_and_tasks_read_ranges_side_by_side() {
    with_each_io("threads_and_tasks_read_ranges_side_by_side", |io| {
        let dir = tempdir().unwrap();
        let path = write_file(dir.path(), 1, LEN);
        let engine = engine_of(io, 1 << 20);
        let file = engine.open(&path).unwrap();
        std::thread::scope(|scope| {
            for seed in 0..3 {
                let file = &file;
                scope.spawn(move || {
                    let mut random = Random(seed);
                    for round in 0..12 {
                        let ranges = some_ranges(&mut random, 12);
                        check_all(&ranges, &read_some_way(seed + round, file, &ranges));
                        support::read_and_check(file, 1, &mut [0; 9000], random.below(LEN - 9000));
                    }
                });
            }
            let work = |seed: u64| -> Work {
                let file = file.clone();
                Box::pin(async move {
                    let mut random = Random(100 + seed);
                    for _ in 0..8 {
                        let ranges = some_ranges(&mut random, 10);
                        check_all(&ranges, &file.read_ranges_async(&ranges).await.unwrap());
                        check_all(&ranges, &streamed(&file, &ranges).await);
                    }
                })
            };
            scope.spawn(move || Executor::run((0..4).map(work).collect(), 2));
        });
        wait_until_idle(&engine);
        engine.replay().unwrap();
    });
}

#[test]
fn ranges_that_make_no_sense_are_errors_and_the_others_come() {
    let _watchdog = Watchdog::new("ranges_that_make_no_sense_are_errors_and_the_others_come");
    let dir = tempdir().unwrap();
    let engine = engine_of(IoBackend::Threads, 4 << 20);
    let file = engine.open(write_file(dir.path(), 1, LEN)).unwrap();
    #[expect(clippy::reversed_empty_ranges, reason = "that is what it is about")]
    let ranges =
        [10..5, 0..10, LEN + 1..LEN + 2, LEN..u64::MAX, 7..7, LEN + 5..LEN + 5, 4090..1 << 63];
    let is_error = [true, false, true, false, false, true, false];
    let stream = file.read_ranges_stream(&ranges).into_iter();
    let results = in_order(stream, ranges.len());
    for ((range, result), is_error) in ranges.iter().zip(&results).zip(is_error) {
        match result {
            Ok(bytes) => {
                assert_eq!(bytes.len() as u64, range.end.min(LEN) - range.start);
                check(1, range.start, bytes);
            }
            Err(ReadError { kind: ReadErrorKind::Range { start: 10, end: 5, .. }, .. }) => {
                assert_eq!(range.start, 10);
            }
            Err(ReadError { kind: ReadErrorKind::PastEnd { offset, len: LEN, .. }, .. }) => {
                assert_eq!(*offset, range.start);
            }
            Err(other) => panic!("{range:?}: {other}"),
        }
        assert_eq!(result.is_err(), is_error, "{range:?}");
    }
    let text = results[0].as_ref().unwrap_err().to_string();
    assert!(text.ends_with("10..5 ends before it starts: give the smaller offset first"), "{text}");
    // All or none.
    assert!(matches!(
        file.read_ranges(&ranges),
        Err(ReadError { kind: ReadErrorKind::Range { .. }, .. })
    ));
    let failed = block_on(file.read_ranges_async(&ranges[1..]));
    assert!(matches!(failed, Err(ReadError { kind: ReadErrorKind::PastEnd { .. }, .. })));
    assert_eq!(file.read_ranges(&[]).unwrap().len(), 0);
    assert!(file.read_ranges_stream(&[]).into_iter().next().is_none());
    wait_until_idle(&engine);
}

#[test]
fn thousands_of_ranges_at_once_are_read_once_each() {
    with_each_io("thousands_of_ranges_at_once_are_read_once_each", |io| {
        let dir = tempdir().unwrap();
        let engine = engine_of(io, 16 << 20);
        let file = engine.open(write_file(dir.path(), 1, LEN)).unwrap();
        let mut random = Random(5);
        // Every page is in some range, most in many.
        let at = |random: &mut Random| random.below(LEN - 100);
        let ranges: Vec<_> = (0..20_000).map(|_| at(&mut random)).map(|at| at..at + 100).collect();
        check_all(&ranges, &file.read_ranges(&ranges).unwrap());
        let counters = engine.counters().unwrap();
        let pages: std::collections::BTreeSet<_> =
            ranges.iter().flat_map(|range| range.start / PAGE..range.end.div_ceil(PAGE)).collect();
        assert_eq!(counters.path.device_pages, pages.len() as u64, "overlaps are read once");
        assert!(counters.path.device_reads < 40, "neighbours are one request");
        // All of it is cached now.
        check_all(&ranges, &file.read_ranges(&ranges).unwrap());
        let again = engine.counters().unwrap();
        assert_eq!(again.path.device_reads, counters.path.device_reads);
        assert_eq!(again.hits - counters.hits, 20_000);
        wait_until_idle(&engine);
        engine.replay().unwrap();
    });
}

/// Ranges go out together and by themselves as long as nothing is known of the device.
#[test]
fn only_what_is_missing_is_read_and_nothing_ahead() {
    let _watchdog = Watchdog::new("only_what_is_missing_is_read_and_nothing_ahead");
    let dir = tempdir().unwrap();
    let engine = engine_of(IoBackend::Threads, 16 << 20);
    let file = engine.open(write_file(dir.path(), 1, LEN)).unwrap();
    let ranges: Vec<_> = (0..64).map(|n| n * 4 * PAGE + 1..n * 4 * PAGE + 4000).collect();
    check_all(&ranges, &file.read_ranges(&ranges).unwrap());
    let counters = engine.counters().unwrap().path;
    assert_eq!((counters.device_reads, counters.device_pages), (64, 64));
    // One large range: what lies between is read, the 64 pages are not.
    let whole = slice::from_ref(&(0..256 * PAGE));
    check_all(whole, &file.read_ranges(whole).unwrap());
    let counters = engine.counters().unwrap().path;
    assert_eq!((counters.device_reads, counters.device_pages), (128, 256));
    assert_eq!(counters.pages_ahead, 0);
}

#[test]
fn a_bad_page_fails_the_ranges_that_want_it_and_no_other() {
    with_each_io("a_bad_page_fails_the_ranges_that_want_it_and_no_other", |io| {
        let dir = tempdir().unwrap();
        let path = write_file(dir.path(), 1, LEN);
        let engine = engine_of(io, 4 << 20);
        let (file, faults) = open_faulty(&engine, &path);
        faults.inject(20..21, 0..1000, Mishap::Errno(libc::EIO));
        // One run of pages, which is one request.
        let ranges = [10 * PAGE..15 * PAGE, 15 * PAGE..20 * PAGE + 1, 21 * PAGE..25 * PAGE];
        let failed = file.read_ranges(&ranges).unwrap_err();
        let is_io = |error: &ReadError| matches!(&error.kind, ReadErrorKind::Io { source, .. } if source.raw_os_error() == Some(libc::EIO));
        assert!(is_io(&failed), "{failed}");
        let results = in_order(file.read_ranges_stream(&ranges).into_iter(), 3);
        check(1, ranges[0].start, results[0].as_ref().unwrap());
        assert!(is_io(results[1].as_ref().unwrap_err()));
        check(1, ranges[2].start, results[2].as_ref().unwrap());
        assert!(is_io(&block_on(file.read_ranges_async(&ranges)).unwrap_err()));
        // A request that fails for once is made up for.
        faults.clear();
        file.dont_need(0..LEN).unwrap();
        faults.inject(0..300, 0..1, Mishap::Short(1000));
        assert_eq!(file.read_ranges(&ranges).unwrap().len(), 3);
        wait_until_idle(&engine);
        engine.replay().unwrap();
    });
}

#[test]
fn a_file_that_has_shrunk_gives_what_plain_reads_give() {
    let _watchdog = Watchdog::new("a_file_that_has_shrunk_gives_what_plain_reads_give");
    let dir = tempdir().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    let engine = engine_of(IoBackend::Threads, 4 << 20);
    let file = engine.open(&path).unwrap();
    let end = 100 * PAGE + 17;
    std::fs::File::options().write(true).open(&path).unwrap().set_len(end).unwrap();
    let ranges = [0..PAGE, 90 * PAGE..110 * PAGE, end..end + 1, 200 * PAGE..201 * PAGE];
    let results = in_order(file.read_ranges_stream(&ranges).into_iter(), ranges.len());
    for (range, result) in ranges.iter().zip(results) {
        match result {
            Ok(bytes) => {
                assert_eq!(bytes.len() as u64, range.end.min(end) - range.start, "{range:?}");
                check(1, range.start, &bytes);
            }
            Err(error) => {
                assert!(matches!(error.kind, ReadErrorKind::PastEnd { .. }), "{error}");
                assert!(range.start > end, "{range:?}");
            }
        }
    }
    assert_eq!(file.len(), end);
}

/// A small result does not keep the request that it came with.
#[test]
fn results_have_exactly_their_own_bytes() {
    let dir = tempdir().unwrap();
    let engine = engine_of(IoBackend::Threads, 16 << 20);
    let file = engine.open(write_file(dir.path(), 1, LEN)).unwrap();
    let results = file.read_ranges(&[0..LEN, 5000..5010]).unwrap();
    let mut want = [0; 10];
    fill(1, 5000, &mut want);
    assert_eq!(*results[1], want);
    let vec = results[1].clone().into_vec();
    assert_eq!(vec.capacity(), 10);
}
