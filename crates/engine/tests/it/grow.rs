//! Files that are made, grow and shrink: what std's files do, and what is said where that cannot
//! be.
//!
//! In:    real files, each kind of ring, direct and through the kernel's page cache.
//! Out:   bytes and lengths, by the engine and by std.
//! Never: a file system that is full: that is in `full.rs`.

#![allow(clippy::cast_possible_truncation, reason = "files of tests are small")]

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;
use std::sync::{Arc, Barrier};

use crate::common;
use crate::recorded;
use crate::support;

use common::{Command, Need, needs, output};
use foreread::testing::{Faults, Mishap, VolatileDisk};
use foreread::{Engine, IoBackend, OpenErrorKind, OpenOptions, WriteErrorKind, WriteMode};
use recorded::{Recorded, recorded};
use support::with_each_io;
use tempfile::TempDir;

fn engine(io: IoBackend) -> Recorded {
    recorded(Engine::builder().memory(1 << 20).io_backend(io))
}

fn for_writing() -> OpenOptions {
    OpenOptions::new().write(true)
}

fn folder() -> TempDir {
    TempDir::new_in(common::scratch()).expect("a directory")
}

/// Each kind of ring, direct and buffered.
fn with_each(test: &str, run: impl Fn(&Recorded, &OpenOptions, &Path)) {
    with_each_io(test, |io| {
        for buffered in [false, true] {
            let dir = folder();
            run(&engine(io), &for_writing().buffered(buffered), &dir.path().join("file"));
        }
    });
}

#[test]
fn a_write_behind_the_end_makes_the_file_longer_with_zeros_between() {
    with_each("a_write_behind_the_end", |engine, options, path| {
        let file = engine.open_with(path, &options.clone().create(true)).expect("it is made");
        assert_eq!(file.len(), 0);
        let reader = engine.open_with(path, options).expect("the same file");
        let mut want = Vec::new();
        for (offset, len) in [(0, 5), (5, 5000), (4000, 9000), (100_000, 1), (99_990, 3 << 20)] {
            let bytes = vec![len as u8 | 1; len];
            file.write_all_at(&bytes, offset as u64).expect("room");
            want.resize(want.len().max(offset + len), 0);
            want[offset..offset + len].copy_from_slice(&bytes);
            assert_eq!(reader.len(), want.len() as u64);
            let mut got = vec![0xff; want.len() + 10];
            assert_eq!(reader.read_at(&mut got, 0).expect("bytes"), want.len());
            let wrong = (0..want.len()).find(|&at| got[at] != want[at]);
            assert_eq!(wrong, None, "after {len} bytes at {offset}");
        }
        file.write_all_at(&[], 1 << 40).expect("nothing makes it no longer");
        file.sync_all().expect("room");
        assert!(fs::read(path).expect("it is there") == want);
    });
}

#[test]
fn bytes_that_were_cut_off_read_as_zeros_after_growth() {
    with_each("what_a_shorter_length_cuts_off", |engine, options, path| {
        fs::write(path, vec![1; 20_000]).expect("a file");
        let file = engine.open_with(path, options).expect("it is there");
        let mut want = vec![1_u8; 20_000];
        for (len, flushes) in [(10_001, false), (15_000, true), (4096, false), (50_000, true)] {
            file.set_len(len as u64).expect("room");
            want.resize(len, 0);
            assert_eq!(file.len(), len as u64);
            let at = len / 2;
            file.write_all_at(&[7; 3], at as u64).expect("room");
            want[at..at + 3].fill(7);
            if flushes {
                file.sync_data().expect("room");
                assert!(fs::read(path).expect("it is there") == want, "{len}");
            }
            let mut got = vec![0xff; len];
            assert_eq!(file.read_at(&mut got, 0).expect("bytes"), len);
            assert!(got == want, "{len}");
        }
        file.set_len(0).expect("room");
        assert!(file.is_empty());
        assert_eq!(file.read_at(&mut [0; 10], 0).expect("nothing"), 0);
        drop(file);
        assert_eq!(fs::read(path).expect("it is there"), []);
    });
}

#[test]
fn appends_of_several_threads_and_handles_follow_one_another() {
    const THREADS: u64 = 4;
    const RECORDS: u64 = 200;
    with_each("appends_of_several_threads", |engine, options, path| {
        let options = options.clone().append(true).create(true);
        let record = |thread: u64, number: u64| {
            let len = 1 + (number * 37 + thread * 11) % 6000;
            let mut bytes = vec![(thread * 50 + number % 50) as u8; len as usize];
            bytes[0] = thread as u8;
            bytes
        };
        let mut offsets: Vec<(u64, u64, u64)> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let file = engine.open_with(path, &options).expect("it is made");
                    scope.spawn(move || {
                        let append = |number| {
                            let offset = file.append(&record(thread, number)).expect("room");
                            (offset, thread, number)
                        };
                        (0..RECORDS).map(append).collect::<Vec<_>>()
                    })
                })
                .collect();
            threads.into_iter().flat_map(|it| it.join().expect("it appends")).collect()
        });
        offsets.sort_unstable();
        let bytes = fs::read(path).expect("the last handle has written it back");
        let mut at = 0;
        for (offset, thread, number) in offsets {
            assert_eq!(offset, at, "no gap, no overlap");
            let want = record(thread, number);
            assert!(bytes[at as usize..][..want.len()] == want, "{thread} {number} at {at}");
            at += want.len() as u64;
        }
        assert_eq!(bytes.len() as u64, at);
    });
}

/// An append made the file longer before its bytes were in memory, and a flush that covered a later
/// append was answered while they were missing: a log lost acknowledged records.
#[test]
fn a_flush_that_covers_an_append_covers_all_bytes_below_it() {
    const LENS: [usize; 6] = [4 << 20, 1, 65_537, 100, 1_000_000, 4096];
    with_each("a_flush_that_covers_an_append", |engine, options, path| {
        let options = options.clone().append(true).create(true);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let file = engine.open_with(path, &options).expect("it is made");
                scope.spawn(move || {
                    for number in 0..LENS.len() {
                        let record = vec![1 + thread as u8; LENS[(number + thread) % LENS.len()]];
                        let offset = file.append(&record).expect("room");
                        if thread % 2 == 0 {
                            continue;
                        }
                        file.sync_data().expect("room");
                        let bytes = fs::read(path).expect("it is there");
                        let end = offset as usize + record.len();
                        assert!(bytes[offset as usize..end] == record, "at {offset}");
                        let hole = bytes[..end].contains(&0);
                        assert!(!hole, "zeros below {end}, which is acknowledged");
                    }
                });
            }
        });
        assert_eq!(fs::metadata(path).expect("it is there").len() as usize, {
            4 * LENS.iter().sum::<usize>()
        });
    });
}

/// The file stayed longer by all of an append that had failed midway, and ended with zeros.
#[test]
fn an_append_that_fails_midway_is_cut_back_to_what_was_written() {
    with_each("an_append_that_fails_midway", |engine, options, path| {
        let faults = Arc::new(Faults::default());
        faults.inject_writes(30..31, 0..u32::MAX, Mishap::Errno(libc::EIO));
        let options = options.clone().create(true).write_mode(WriteMode::WriteThrough);
        let file = engine.open_with(path, &options.faults(Arc::clone(&faults))).expect("made");
        let error = file.append(&vec![1; 600_000]).expect_err("the device refuses page 30");
        assert!(matches!(error.kind, WriteErrorKind::Io { .. }), "{error}");
        faults.clear();
        let at = file.append(&[2; 5000]).expect("room") as usize;
        assert!((30 * 4096..600_000).contains(&at), "{at}");
        file.sync_data().expect("the device takes it now");
        let bytes = fs::read(path).expect("it is there");
        assert!(bytes == [vec![1; at], vec![2; 5000]].concat(), "{at} of {}", bytes.len());
    });
}

#[test]
fn options_mean_what_they_mean_in_std() {
    let dir = folder();
    let (path, engine) = (dir.path().join("file"), engine(IoBackend::Threads));
    let open = |options: &OpenOptions| engine.open_with(&path, options).map_err(|e| e.kind);
    assert!(matches!(open(&for_writing()), Err(OpenErrorKind::NotFound)));
    for wrong in [
        OpenOptions::new().create(true),
        OpenOptions::new().create_new(true),
        OpenOptions::new().truncate(true),
        OpenOptions::new().append(true).truncate(true),
    ] {
        assert!(matches!(open(&wrong), Err(OpenErrorKind::Options { .. })), "{wrong:?}");
    }
    assert!(!path.exists());
    let new = for_writing().create_new(true);
    open(&new).expect("it is made").write_all_at(b"some bytes", 0).expect("room");
    assert_eq!(fs::read(&path).expect("it is there"), b"some bytes");
    let error = open(&new).map(drop).expect_err("it exists");
    assert!(matches!(error, OpenErrorKind::Exists), "{error}");
    assert_eq!(open(&for_writing().create(true)).expect("it is there").len(), 10);

    let reader = engine.open(&path).expect("it is there");
    drop(reader);
    let (first, reader) = (open(&for_writing()).expect("it is there"), engine.open(&path));
    let reader = reader.expect("it is there");
    reader.read_at(&mut [0; 10], 0).expect("bytes");
    first.write_all_at(b"other", 0).expect("room");
    let file = engine.create(&path).expect("it is cut");
    assert_eq!((file.len(), first.len(), reader.len()), (0, 0, 0), "for all handles");
    assert_eq!(reader.read_at(&mut [0; 10], 0).expect("nothing"), 0);

    let log = open(&OpenOptions::new().append(true)).expect("it is there");
    assert!(log.is_writable());
    assert_eq!(log.append(b"one").expect("room"), 0);
    assert_eq!(log.append(b"").expect("nothing"), 3);
    for result in [log.write_all_at(b"x", 0), log.discard(0..1), log.write_zeroes(0..1, true)] {
        let error = result.expect_err("it is for appends");
        assert!(matches!(error.kind, WriteErrorKind::AppendOnly), "{error}");
    }
    assert_eq!(file.append(b"two").expect("room"), 3, "any writable file can be appended to");
    drop((file, first, reader, log));
    assert_eq!(fs::read(&path).expect("it is there"), b"onetwo");

    let link = dir.path().join("link");
    symlink(dir.path().join("target"), &link).expect("a link");
    let error = engine.open_with(&link, &new).map(drop).expect_err("a link exists");
    assert!(matches!(error.kind, OpenErrorKind::Exists), "{error}");
    engine.create(&link).expect("what it leads to is made").append(b"x").expect("room");
    assert_eq!(fs::read(dir.path().join("target")).expect("it is there"), b"x");
    let nowhere = engine.create(dir.path().join("no/file")).map(drop).expect_err("no directory");
    assert!(nowhere.to_string().contains("no such directory"), "{nowhere}");
    let folder = engine.create(dir.path()).map(drop).expect_err("a directory");
    assert!(matches!(folder.kind, OpenErrorKind::Directory), "{folder}");
}

#[test]
fn a_write_that_may_not_wait_makes_no_file_longer() {
    let dir = folder();
    let path = dir.path().join("file");
    fs::write(&path, [1; 100]).expect("a file");
    let engine = engine(IoBackend::Threads);
    let file = engine.open_with(&path, &for_writing()).expect("it is there");
    file.read_at(&mut [0; 100], 0).expect("in memory");
    assert_eq!(file.try_write_at(&[2; 50], 90).expect("no error"), 10, "up to the end");
    assert_eq!(file.try_write_at(&[2; 50], 100).expect("no error"), 0);
    assert_eq!(file.len(), 100);
    let past = file.write_zeroes(90..101, true).expect_err("zeroes make no file longer");
    assert!(matches!(past.kind, WriteErrorKind::PastEnd { len: 100, .. }), "{past}");
}

#[test]
fn lengths_that_no_file_can_have_are_refused_and_nothing_has_changed() {
    let dir = folder();
    let path = dir.path().join("file");
    fs::write(&path, [1; 100]).expect("a file");
    let engine = engine(IoBackend::Threads);
    let file = engine.open_with(&path, &for_writing()).expect("it is there");
    for refused in [
        file.set_len(u64::MAX),
        file.set_len(1 << 63),
        file.write_all_at(&[1; 2], u64::MAX - 1),
        file.write_all_at(&[1; 2], u64::MAX),
        file.write_all_at_with(&[1], (1 << 63) - 1, WriteMode::Fua),
    ] {
        let error = refused.expect_err("no file is so long");
        assert!(matches!(error.kind, WriteErrorKind::Length { .. }), "{error}");
        assert!(error.to_string().contains("ulimit -f"), "{error}");
        assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::FileTooLarge);
    }
    let reader = engine.open(&path).expect("it is there");
    for refused in [reader.set_len(1), reader.append(b"x").map(drop)] {
        assert!(refused.is_err_and(|error| matches!(error.kind, WriteErrorKind::ReadOnly)));
    }
    drop((file, reader));
    assert_eq!(fs::read(&path).expect("it is there"), [1; 100]);
}

#[test]
fn a_device_keeps_its_length() {
    const TEST: &str = "a_device_keeps_its_length";
    let engine = engine(IoBackend::Threads);
    let is_kept = |file: &foreread::File| {
        let len = file.len();
        for refused in [file.set_len(len + 1), file.set_len(0), file.append(b"x").map(drop)] {
            let error = refused.expect_err("it is a device");
            assert!(matches!(error.kind, WriteErrorKind::FixedLength { .. }), "{error}");
        }
        let error = file.write_all_at(&[1; 2], len - 1).expect_err("past its end");
        assert!(matches!(error.kind, WriteErrorKind::PastEnd { .. }), "{error}");
        assert_eq!(file.len(), len);
    };
    let device = VolatileDisk::new(vec![0; 8192]);
    let options = for_writing().volatile(device);
    is_kept(&engine.open_with("a device of a test", &options).expect("threads know it"));
    if !needs(Need::Loop, TEST) {
        return;
    }
    let dir = folder();
    let image = dir.path().join("image");
    fs::File::create(&image).expect("a file").set_len(1 << 20).expect("sparse");
    let mut attach = Command::new("losetup");
    attach.args(["--find", "--show"]).arg(&image);
    let device = output(&mut attach).expect("it attaches").trim().to_owned();
    let truncated = for_writing().create(true).truncate(true);
    let file = engine.open_with(&device, &truncated).expect("std lets a device be, too");
    is_kept(&file);
    drop(file);
    output(Command::new("losetup").args(["--detach", &device])).expect("it detaches");
}

/// The thread that had made the file, and could not open it because the other one had by then,
/// removed it with what the other one had flushed. And a thread that opened it while the other one
/// closed it took it for as long as it had been before, and appended over what was there.
#[test]
fn a_flush_is_kept_when_two_threads_create_one_file() {
    let (engine, dir) = (engine(IoBackend::Threads), folder());
    let _watchdog = support::Watchdog::new("what_one_of_two_threads_that_make_a_file_has_flushed");
    let is_made_by = |buffered: bool, path: &Path, both: &Barrier| {
        both.wait();
        let options = for_writing().create(true).buffered(buffered);
        let Ok(file) = engine.open_with(path, &options) else { return false };
        file.append(b"bytes").expect("room");
        file.sync_data().expect("room");
        true
    };
    for round in 0..200 {
        let (path, both) = (dir.path().join(round.to_string()), Barrier::new(2));
        let (one, other) = std::thread::scope(|scope| {
            let one = scope.spawn(|| is_made_by(round % 2 == 0, &path, &both));
            (is_made_by(false, &path, &both), one.join().expect("no panic"))
        });
        let count = usize::from(one) + usize::from(other);
        assert!(count > 0, "round {round}: one of them finds nothing in its way");
        let got = fs::read(&path).expect("it was flushed");
        assert!(got == b"bytes".repeat(count), "round {round}: {got:?} of {count}");
    }
}

/// It acted on all that had been asked for, which later writes might have by then.
#[test]
fn a_zero_that_waits_for_a_shorter_length_touches_nothing_behind_it() {
    with_each("a_zero_that_waits_for_a_shorter_length", |engine, options, path| {
        fs::write(path, [1; 16 * 4096]).expect("a file");
        let faults = Arc::new(Faults::default());
        let options = options.clone().faults(Arc::clone(&faults));
        let file = engine.open_with(path, &options).expect("it is there");
        file.write_all_at(&[2; 4096], 8 * 4096).expect("room");
        // The page at the new end is written first.
        faults.inject_writes(8..9, 0..1, Mishap::Hold);
        let waiting = || engine.counters().expect("no fork").path.writes_waited_for_pages;
        std::thread::scope(|scope| {
            let cut = scope.spawn(|| file.set_len(8 * 4096 + 100));
            faults.wait_held(1);
            let before = waiting();
            let zero = scope.spawn(|| file.write_zeroes(4 * 4096..16 * 4096, false));
            support::wait_until(|| waiting() > before);
            faults.let_go();
            cut.join().expect("no panic").expect("it can be shorter");
            zero.join().expect("no panic").expect("the rest is zeros");
        });
        file.sync_data().expect("room");
        assert!(fs::read(path).expect("it is there") == [vec![1; 16384], vec![0; 16484]].concat());
        let blocks = fs::metadata(path).expect("it is there").blocks();
        assert!(blocks <= 9 * 8, "{blocks} blocks of 512 bytes for 9 pages");
    });
}

/// The rest of the first append once came after the file was cut, over the bytes of the second one.
#[test]
fn an_append_beside_a_cut_is_whole_or_gone() {
    with_each("an_append_beside_a_cut", |engine, options, path| {
        let file = engine.open_with(path, &options.clone().create(true)).expect("it is made");
        for round in 0..20 {
            file.set_len(0).expect("it can be shorter");
            let at = std::thread::scope(|scope| {
                scope.spawn(|| file.append(&vec![1; 1 << 20]).expect("room"));
                support::wait_until(|| !file.is_empty());
                file.set_len(0).expect("it can be shorter");
                file.append(&vec![2; 2 << 20]).expect("room")
            });
            let mut got = vec![0; 2 << 20];
            file.read_exact_at(&mut got, at).expect("it is there");
            let wrong = got.iter().position(|&byte| byte != 2);
            assert_eq!(wrong, None, "round {round}");
        }
    });
}
