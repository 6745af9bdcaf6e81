//! Pinned pages: owned ones outlive their file and engine, and go from thread to thread.
//!
//! In:    files whose every byte is known, engines with little memory.
//! Out:   the bytes; the pins and frames of pages that were dropped.
//! Never: a frame or a pin that is left behind, or a pinned page that changes.

use crate::common;
use crate::support;

use std::io::{BufRead as _, Seek as _, SeekFrom};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use foreread::testing::Mishap;
use foreread::{
    Engine, File, OpenOptions, PageGuard, PageRange, PageRef, ReadError, ReadErrorKind,
};
use support::{PAGE, Random, check, open_faulty, wait_until_idle, with_each_io, write_file};

const LEN: u64 = (2 << 20) + 777;

fn opened(memory: u64) -> (tempfile::TempDir, Engine, File) {
    let dir = tempfile::tempdir_in(common::scratch()).expect("a directory");
    let path = write_file(dir.path(), 1, LEN);
    let engine = Engine::builder().memory(memory).build().expect("an engine");
    let file = engine.open(&path).expect("it is there");
    (dir, engine, file)
}

/// How many pages may be pinned: a quarter of the frames.
fn pins_of(engine: &Engine) -> u64 {
    engine.frames().expect("not forked").1 / 4
}

fn bytes_of(range: &PageRange) -> Vec<u8> {
    let mut copy = vec![0; range.len()];
    range.copy_to(&mut copy);
    assert_eq!(copy, range.parts().flatten().copied().collect::<Vec<u8>>());
    if let Some(bytes) = range.contiguous() {
        assert_eq!(bytes, copy);
    }
    copy
}

#[test]
fn a_page_outlives_its_stream_its_file_and_its_engine() {
    with_each_io("a_page_outlives_its_engine", |io| {
        let dir = tempfile::tempdir_in(common::scratch()).expect("a directory");
        let path = write_file(dir.path(), 1, LEN);
        let engine = Engine::builder().memory(1 << 20).io_backend(io).build().expect("an engine");
        let file = engine.open(&path).expect("it is there");
        let stream = file.stream();
        let page = stream.pin(5000).expect("it is there").into_owned();
        assert!(stream.pin(LEN).expect("the end").into_owned().is_empty());
        let other = file.pin(3 * PAGE).expect("it is there");
        let orphan = file.pin(7 * PAGE).expect("it is there");
        let range = file.pin_range(9000..30_000).expect("it is there");
        drop(stream);
        file.invalidate(7 * PAGE..8 * PAGE).expect("not forked");
        drop(file);
        drop(engine);
        check(1, 5000, &page);
        assert_eq!(page.len() as u64, 2 * PAGE - 5000);
        check(1, 7 * PAGE, &orphan);
        let reader = thread::spawn(move || {
            check(1, 3 * PAGE, &other);
            check(1, 9000, &bytes_of(&range));
            drop((orphan, other));
            range
        });
        drop(page);
        check(1, 9000, &bytes_of(&reader.join().expect("the bytes are right")));
    });
}

/// The error says how much was wanted and how much there is, and pages that are dropped in any
/// thread make room. Each page is looked at until the end.
#[test]
fn the_budget_is_used_up_and_given_back() {
    let (_dir, engine, file) = opened(1 << 20);
    for _ in 0..3 {
        let mut pages: Vec<PageRef> = Vec::new();
        let error = loop {
            match file.pin(pages.len() as u64 * PAGE) {
                Ok(page) => pages.push(page),
                Err(error) => break error,
            }
        };
        assert_eq!(pages.len() as u64, pins_of(&engine));
        let most = pins_of(&engine) * PAGE;
        let message = error.to_string();
        let ReadErrorKind::PinLimit { len: PAGE, limit, .. } = error.kind else {
            panic!("{error:?}")
        };
        assert_eq!(limit, most);
        assert!(message.contains("cannot pin 4096 more bytes"), "{message}");
        assert!(message.contains("give the engine more memory"), "{message}");
        assert!(file.stream().try_pin(0).is_none());
        // Reads go on.
        let mut buffer = vec![0; 300_000];
        assert_eq!(file.read_at(&mut buffer, 900_001).expect("no pin is needed"), 300_000);
        check(1, 900_001, &buffer);

        let last = pages.split_off(pages.len() - 4);
        thread::spawn(move || drop(last)).join().expect("nothing fails");
        let more = file.pin_range(0..4 * PAGE).expect("four were given back");
        assert!(matches!(
            file.pin(LEN - 1),
            Err(ReadError { kind: ReadErrorKind::PinLimit { .. }, .. })
        ));
        for (index, page) in (0..).zip(&pages) {
            check(1, index * PAGE, page);
        }
        check(1, 0, &bytes_of(&more));
    }
    wait_until_idle(&engine);
}

/// Pins of streams, owned pages and ranges are of one budget.
#[test]
fn borrowed_and_owned_pins_are_of_one_budget() {
    let (_dir, engine, file) = opened(1 << 20);
    let most = pins_of(&engine) * PAGE;
    let (stream, idle) = (file.stream(), file.stream());
    drop(idle.pin(0).expect("it is there"));
    for _ in 0..100 {
        let guards: Vec<_> =
            (0..20).map(|page| stream.pin(page * PAGE).expect("it is there")).collect();
        let owned: Vec<PageRef> = guards.into_iter().map(PageGuard::into_owned).collect();
        let more = stream.try_pin(0).expect("it is resident");
        drop(owned);
        assert_eq!(more.into_owned().len() as u64, PAGE);
    }
    // A stream that has no pins keeps one permit, and another page of a budget is not lost.
    let rest = file.pin_range(0..most - 2 * PAGE).expect("the streams have one each");
    let guard = stream.pin(0).expect("its own permit");
    assert!(matches!(stream.pin(0), Err(ReadError { kind: ReadErrorKind::PinLimit { .. }, .. })));
    assert!(stream.try_pin(0).is_none() && !stream.try_pin_all(0, 1, &mut Vec::new()));
    assert!(matches!(file.pin(0), Err(ReadError { kind: ReadErrorKind::PinLimit { .. }, .. })));
    // At the end of the file nothing is pinned.
    assert!(stream.pin(LEN).expect("the end").is_empty());
    assert!(file.pin(LEN).expect("the end").is_empty());
    drop(guard);
    drop((idle, stream));
    assert_eq!(file.pin_range(0..2 * PAGE).expect("they gave theirs back").len() as u64, 2 * PAGE);
    drop(rest);
    assert_eq!(file.pin_range(0..most).expect("all that there are").len() as u64, most);
    wait_until_idle(&engine);
}

#[test]
fn a_range_is_one_read_and_ends_with_its_file() {
    let (_dir, engine, file) = opened(8 << 20);
    let stream = file.stream();
    // Of which one page is resident in the middle.
    drop(stream.pin(30 * PAGE).expect("it is there"));
    let before = engine.counters().expect("not forked");
    let range = stream.pin_range(20 * PAGE + 7..52 * PAGE - 9).expect("it is there");
    let after = engine.counters().expect("not forked");
    assert_eq!(after.path.reads - before.path.reads, 1);
    check(1, 20 * PAGE + 7, &bytes_of(&range));
    assert_eq!(range.len() as u64, 32 * PAGE - 16);
    assert_eq!(range.parts().len(), 32);
    let again = stream.pin_range(20 * PAGE + 7..52 * PAGE - 9).expect("it is there");
    assert_eq!(engine.counters().expect("not forked").hits - after.hits, 1);
    assert_eq!(bytes_of(&again), bytes_of(&range));

    let within = file.pin_range(100..200).expect("it is there");
    check(1, 100, within.contiguous().expect("one page"));
    assert_eq!(within.len(), 100);
    let end = file.pin_range(LEN - 5000..LEN + 70_000).expect("it is there");
    assert_eq!(end.len(), 5000);
    check(1, LEN - 5000, &bytes_of(&end));
    for empty in [LEN..u64::MAX, 5..5, std::ops::Range { start: 9, end: 3 }] {
        let range = file.pin_range(empty.clone()).expect("there is nothing to read");
        assert!(range.is_empty() && range.contiguous() == Some(&[]), "{empty:?}");
    }
    assert!(file.pin(LEN).expect("the end").is_empty());
    assert!(matches!(
        file.pin(LEN + 1),
        Err(ReadError { kind: ReadErrorKind::PastEnd { .. }, .. })
    ));
    assert!(matches!(
        file.pin_range(LEN + 1..LEN + 2),
        Err(ReadError { kind: ReadErrorKind::PastEnd { .. }, .. })
    ));

    let mut pages = range.into_pages();
    let last = pages.pop().expect("there are 32");
    drop(pages);
    check(1, 51 * PAGE, &last);
    drop((last, again, within, end, stream));
    wait_until_idle(&engine);
}

/// More than may be pinned is refused before a byte is read.
#[test]
fn a_range_that_does_not_fit_reads_and_pins_nothing() {
    let (_dir, engine, file) = opened(1 << 20);
    let error = file.pin_range(0..u64::MAX).expect_err("there is a quarter of 1 MiB");
    let ReadErrorKind::PinLimit { len, limit, .. } = error.kind else { panic!("{error:?}") };
    let most = pins_of(&engine) * PAGE;
    assert_eq!((len, limit), (LEN.next_multiple_of(PAGE), most));
    assert_eq!(engine.counters().expect("not forked").path.reads, 0);
    assert_eq!(file.pin_range(0..most).expect("all that there are").len() as u64, most);
    wait_until_idle(&engine);
}

/// A page in the middle is bad, or the device does not answer in time: one error, and neither a
/// frame nor a permit is left behind.
#[test]
fn a_range_that_fails_pins_nothing() {
    let dir = tempfile::tempdir_in(common::scratch()).expect("a directory");
    let path = write_file(dir.path(), 1, LEN);
    for is_late in [false, true] {
        let late = Duration::from_millis(if is_late { 20 } else { 600_000 });
        let engine = Engine::builder().memory(1 << 20).timeout(late).build().expect("an engine");
        let (file, faults) = open_faulty(&engine, &path);
        let stream = file.stream();
        let mishap = if is_late { Mishap::Hold } else { Mishap::Errno(libc::EIO) };
        faults.inject(20..21, 0..u32::MAX, mishap);
        let is_its = |error: ReadError| {
            let is_timeout = matches!(error.kind, ReadErrorKind::TimedOut { .. });
            is_timeout == is_late && (is_late || matches!(error.kind, ReadErrorKind::Io { .. }))
        };
        for _ in 0..3 {
            assert!(file.pin_range(10 * PAGE..30 * PAGE).is_err_and(is_its));
            assert!(file.pin(20 * PAGE).is_err_and(is_its));
            assert!(stream.pin(20 * PAGE + 5).is_err_and(is_its));
        }
        faults.clear();
        faults.let_go();
        wait_until_idle(&engine);
        drop(stream);
        let most = pins_of(&engine) * PAGE;
        let pinned = loop {
            match file.pin_range(0..most) {
                // On a busy machine it may be late by itself.
                Err(ReadError { kind: ReadErrorKind::TimedOut { .. }, .. }) => {}
                pinned => break pinned.expect("all permits are there"),
            }
        };
        check(1, 0, &bytes_of(&pinned));
    }
}

#[test]
fn a_pinned_page_keeps_its_bytes_while_its_file_is_written() {
    let (dir, engine, reader) = opened(1 << 20);
    drop(reader);
    let path = write_file(dir.path(), 1, LEN);
    let file = engine.open_with(&path, &OpenOptions::new().write(true)).expect("it is there");
    let old = file.pin_range(0..8 * PAGE).expect("it is there");
    file.write_all_at(&vec![7; 6 * 4096], PAGE - 10).expect("the device is well");
    let new = file.pin_range(0..8 * PAGE).expect("it is there");
    check(1, 0, &bytes_of(&old));
    let bytes = bytes_of(&new);
    check(1, 0, &bytes[..4086]);
    assert!(bytes[4086..][..6 * 4096].iter().all(|&byte| byte == 7));
    file.sync_data().expect("the device is well");
    file.invalidate(0..8 * PAGE).expect("not forked");
    assert_eq!(bytes_of(&file.pin_range(0..8 * PAGE).expect("it is there")), bytes);
    check(1, 0, &bytes_of(&old));
    drop((old, new));
    wait_until_idle(&engine);
}

/// The last page of a file, of which a part is in it, before and after the file has another length.
#[test]
fn a_pinned_page_keeps_its_bytes_while_its_file_gets_another_length() {
    let (dir, engine, reader) = opened(1 << 20);
    drop(reader);
    let path = write_file(dir.path(), 1, LEN);
    let file = engine.open_with(&path, &OpenOptions::new().write(true)).expect("it is there");
    let last = LEN / PAGE * PAGE;
    let old = file.pin(last).expect("it is there");
    let range = file.pin_range(last - 5 * PAGE..LEN + PAGE).expect("it is there");
    let mut reader = file.cursor();
    reader.seek(SeekFrom::Start(last)).expect("in the file");
    assert_eq!(reader.fill_buf().expect("well").len(), 777);
    assert_eq!(file.append(&[7; 5000]).expect("the device is well"), LEN);
    assert_eq!((old.len(), range.len() as u64), (777, 5 * PAGE + 777));
    let grown = file.pin(last).expect("it is there");
    check(1, last, &grown[..777]);
    assert!(grown.len() as u64 == PAGE && grown[777..].iter().all(|&byte| byte == 7));
    reader.consume(777);
    assert_eq!(reader.fill_buf().expect("it goes on"), &grown[777..]);

    file.set_len(last + 9).expect("the device is well");
    assert_eq!(file.pin(last).expect("it is there").len(), 9);
    assert!(matches!(file.pin(LEN), Err(ReadError { kind: ReadErrorKind::PastEnd { .. }, .. })));
    file.set_len(last + 99).expect("the device is well");
    let again = file.pin(last).expect("it is there");
    check(1, last, &again[..9]);
    assert!(again.len() == 99 && again[9..].iter().all(|&byte| byte == 0));
    check(1, last, &old);
    check(1, last - 5 * PAGE, &bytes_of(&range));
    assert!(grown[777..].iter().all(|&byte| byte == 7));
    drop((old, range, grown, again, reader, file));
    wait_until_idle(&engine);
}

/// Pages go from thread to thread while their frames are wanted by reads and their pages are
/// invalidated: 10,000 times by four threads. In the end each frame and each permit is there.
#[test]
fn threads_that_pass_pages_on_leave_nothing_behind() {
    let (_dir, engine, file) = opened(1 << 20);
    let (sender, receiver) = mpsc::sync_channel::<(u64, PageRef)>(8);
    thread::scope(|scope| {
        scope.spawn(|| {
            for (offset, page) in receiver {
                check(1, offset, &page);
            }
        });
        for seed in 0..4 {
            let (sender, file) = (sender.clone(), &file);
            scope.spawn(move || {
                let mut random = Random(seed * 1_000_000);
                let stream = file.stream();
                for _ in 0..2500 {
                    let offset = random.below(LEN);
                    if random.below(16) == 0 {
                        file.invalidate(offset..offset + 20_000).expect("not forked");
                    }
                    let page = match random.below(4) {
                        0 => stream.pin(offset).expect("few are pinned at a time").into_owned(),
                        1 => {
                            let range = file.pin_range(offset..offset + 8000).expect("as above");
                            check(1, offset, &bytes_of(&range));
                            range.into_pages().swap_remove(0)
                        }
                        _ => file.pin(offset).expect("as above"),
                    };
                    check(1, offset, &page);
                    sender.send((offset, page)).expect("it listens to the end");
                }
            });
        }
        drop(sender);
    });
    wait_until_idle(&engine);
    let most = pins_of(&engine) * PAGE;
    assert_eq!(file.pin_range(0..most).expect("no permit was lost").len() as u64, most);
}

#[test]
fn bytes_are_the_page_itself_and_keep_it_pinned() {
    let (_dir, engine, file) = opened(1 << 20);
    let page = file.pin(PAGE + 100).expect("it is there");
    let address = page.as_ptr();
    let bytes = bytes::Bytes::from(page);
    assert_eq!(bytes.as_ptr(), address, "no copy");
    let part = bytes.slice(10..20);
    drop(bytes);
    file.invalidate(0..LEN).expect("not forked");
    let (idle, all) = engine.frames().expect("not forked");
    assert_eq!(all - idle, 1, "the part keeps the page");
    drop(file);
    check(1, PAGE + 110, &part);
    drop(part);
    wait_until_idle(&engine);
    drop(engine);
}

/// One `Bytes` of several pages if they lie side by side, else the range again.
#[test]
fn bytes_of_a_range_are_its_pages_or_the_range_again() {
    let (_dir, engine, file) = opened(4 << 20);
    // One page is there before the others, and so in a frame of its own.
    drop(file.pin(2 * PAGE).expect("it is there"));
    drop(file.pin_range(0..4 * PAGE).expect("it is there"));
    let (mut whole, mut apart) = (0, 0);
    for first in 0..40 {
        let range = file.pin_range(first * PAGE + 5..(first + 4) * PAGE - 7).expect("it is there");
        let address = range.parts().next().expect("four").as_ptr();
        match bytes::Bytes::try_from(range) {
            Ok(bytes) => {
                whole += 1;
                assert_eq!((bytes.as_ptr(), bytes.len()), (address, 4 * 4096 - 12));
                check(1, first * PAGE + 5, &bytes);
            }
            Err(range) => {
                apart += 1;
                let parts = range.into_pages().into_iter().map(bytes::Bytes::from);
                check(1, first * PAGE + 5, &parts.flatten().collect::<Vec<u8>>());
            }
        }
    }
    assert!(whole > 0 && apart > 0, "{whole} are in a row, {apart} are not");
    assert!(bytes::Bytes::try_from(file.pin_range(LEN..LEN).expect("the end")).is_ok());
    wait_until_idle(&engine);
}
