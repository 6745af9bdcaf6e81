//! Files that change under their readers: they grow, shrink, are replaced, and have many names.

#![allow(clippy::cast_possible_truncation, reason = "offsets are drawn from words")]

use crate::recorded;
use crate::support;

use std::fs;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use foreread::{Engine, File, IoBackend, OpenOptions, testing::Mishap};
use recorded::{Recorded, recorded};
use support::{
    PAGE, Random, append, check, open_faulty, read_and_check, wait_until, wait_until_idle,
    with_each_io, write_file,
};
use tempfile::TempDir;

const LEN: u64 = (1 << 20) + 777;

fn engine(io: IoBackend) -> Recorded {
    recorded(Engine::builder().memory(4 << 20).io_backend(io))
}

fn set_len(path: &Path, len: u64) {
    fs::File::options().write(true).open(path).unwrap().set_len(len).unwrap();
}

fn overwrite(path: &Path, offset: u64, bytes: &[u8]) {
    let mut file = fs::File::options().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(offset)).unwrap();
    file.write_all(bytes).unwrap();
}

/// Reads it all, from its start to its end, and gives its length.
fn read_all(file: &File, number: u64) -> u64 {
    let (stream, mut buffer, mut offset) = (file.stream(), [0; 10_007], 0);
    loop {
        let got = stream.read_at(&mut buffer, offset).unwrap();
        check(number, offset, &buffer[..got]);
        if got == 0 {
            return offset;
        }
        offset += got as u64;
    }
}

#[test]
fn appended_bytes_are_readable_at_once() {
    with_each_io("appended_bytes_are_readable_at_once", |io| {
        let dir = TempDir::new().unwrap();
        let path = write_file(dir.path(), 1, 0);
        let engine = engine(io);
        let file = engine.open(&path).unwrap();
        let (stream, mut offset, mut buffer) = (file.stream(), 0, vec![0; 100_000]);
        let mut random = Random(5);
        for _ in 0..200 {
            let more = random.below(20_000);
            append(&path, 1, more);
            // The end that was known lies in the middle of a page that is resident.
            let got = stream.read_at(&mut buffer, offset).unwrap();
            assert_eq!(got as u64, more);
            check(1, offset, &buffer[..got]);
            offset += more;
            assert_eq!(stream.read_at(&mut buffer, offset).unwrap(), 0);
            assert_eq!(file.len(), offset);
        }
        assert_eq!(read_all(&file, 1), offset);
        wait_until_idle(&engine);
    });
}

/// Cached bytes may be stale only where the engine cannot know of the change: a read at the end of
/// the file asks for its length.
#[test]
fn readers_that_follow_an_appender_see_no_byte_that_was_not_written() {
    const TOTAL: u64 = 1_500_000;

    with_each_io("readers_that_follow_an_appender", |io| {
        let dir = TempDir::new().unwrap();
        let path = write_file(dir.path(), 1, 0);
        let engine = engine(io);
        let file = engine.open(&path).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let file = &file;
                scope.spawn(move || {
                    let (stream, mut offset) = (file.stream(), 0);
                    let mut buffer = vec![0; 3000 + 7000 * thread];
                    while offset < TOTAL {
                        let got = stream.read_at(&mut buffer, offset).unwrap();
                        check(1, offset, &buffer[..got]);
                        offset += got as u64;
                    }
                });
            }
            let mut random = Random(9);
            let mut left = TOTAL;
            while left > 0 {
                let more = (1 + random.below(9000)).min(left);
                append(&path, 1, more);
                left -= more;
            }
        });
        wait_until_idle(&engine);
    });
}

#[test]
fn a_file_that_is_truncated_under_four_readers_ends_for_each_where_it_ends() {
    with_each_io("a_file_that_is_truncated_under_four_readers", |io| {
        let dir = TempDir::new().unwrap();
        let path = write_file(dir.path(), 1, LEN);
        let engine = engine(io);
        let file = engine.open(&path).unwrap();
        let (is_over, reads) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (file, is_over, reads) = (&file, &is_over, &reads);
                scope.spawn(move || {
                    let mut random = Random(thread << 32);
                    let mut buffer = vec![0; 60_000];
                    while !is_over.load(Ordering::Acquire) {
                        let offset = random.below(LEN);
                        let room = random.below(buffer.len() as u64) as usize;
                        match file.read_at(&mut buffer[..room], offset) {
                            // What is behind the new end is as it was, or not there at all.
                            Ok(got) => check(1, offset, &buffer[..got]),
                            Err(error) => panic!("{error}"),
                        }
                        reads.fetch_add(1, Ordering::AcqRel);
                    }
                });
            }
            let mut len = LEN;
            let _over = Over(&is_over);
            while len > 30_000 {
                len -= 29_999;
                set_len(&path, len);
                let seen = reads.load(Ordering::Acquire) + 20;
                wait_until(|| reads.load(Ordering::Acquire) >= seen);
            }
        });
        assert_eq!(read_all(&file, 1), file.len());
        wait_until_idle(&engine);
    });
}

/// Two readers of the same pages, one of which has seen the new end: the other's read once was an
/// error, as if the device had broken off in the middle of the file.
#[test]
fn a_read_on_its_way_over_the_new_end_is_cut_whichever_reader_saw_the_end_first() {
    with_each_io("a_read_on_its_way_over_the_new_end_is_cut", |io| {
        let dir = TempDir::new().unwrap();
        let path = write_file(dir.path(), 1, LEN);
        let engine = engine(io);
        let (file, faults) = open_faulty(&engine, &path);
        faults.inject(100..110, 0..1, Mishap::Hold);
        std::thread::scope(|scope| {
            let read = scope.spawn(|| {
                let mut buffer = vec![0; 10 * PAGE as usize];
                file.read_at(&mut buffer, 100 * PAGE).inspect(|got| {
                    check(1, 100 * PAGE, &buffer[..*got]);
                })
            });
            faults.wait_held(1);
            set_len(&path, 102 * PAGE + 5);
            assert_eq!(file.refresh().unwrap(), 102 * PAGE + 5);
            faults.let_go();
            assert_eq!(read.join().unwrap().unwrap() as u64, 2 * PAGE + 5);
        });
        wait_until_idle(&engine);
    });
}

#[test]
fn a_file_that_shrinks_and_grows_again_has_zeros_and_not_what_was_there() {
    with_each_io("a_file_that_shrinks_and_grows_again", |io| {
        let dir = TempDir::new().unwrap();
        let path = write_file(dir.path(), 1, LEN);
        let engine = engine(io);
        let file = engine.open(&path).unwrap();
        assert_eq!(read_all(&file, 1), LEN);
        for end in [50_000, 4097, 4096, 1, 0] {
            set_len(&path, end);
            assert_eq!(file.refresh().unwrap(), end);
            set_len(&path, 200_000);
            assert_eq!(file.refresh().unwrap(), 200_000);
            let mut buffer = vec![1; 200_000];
            assert_eq!(file.read_at(&mut buffer, 0).unwrap(), 200_000);
            check(1, 0, &buffer[..end as usize]);
            assert!(buffer[end as usize..].iter().all(|byte| *byte == 0), "{end}");
        }
    });
}

#[test]
fn a_file_that_is_replaced_stays_what_it_was_until_it_is_opened_again() {
    with_each_io("a_file_that_is_replaced", |io| {
        let dir = TempDir::new().unwrap();
        let path = write_file(dir.path(), 1, LEN);
        let engine = engine(io);
        let old = engine.open(&path).unwrap();
        read_and_check(&old, 1, &mut [0; 5000], 0);
        fs::rename(write_file(dir.path(), 2, LEN - 5000), &path).unwrap();
        let new = engine.open(&path).unwrap();
        assert_eq!(read_all(&old, 1), LEN);
        assert_eq!(read_all(&new, 2), LEN - 5000);
        fs::remove_file(&path).unwrap();
        drop(new);
        assert_eq!(read_all(&old, 1), LEN);
    });
}

#[test]
fn a_file_with_many_names_is_read_from_its_device_once() {
    with_each_io("a_file_with_many_names", |io| {
        let dir = TempDir::new().unwrap();
        let path = write_file(dir.path(), 1, LEN);
        let (hard, soft) = (dir.path().join("hard"), dir.path().join("soft"));
        fs::hard_link(&path, &hard).unwrap();
        std::os::unix::fs::symlink(&path, &soft).unwrap();
        let engine = engine(io);
        let pages = LEN.div_ceil(PAGE);
        let files = [&path, &path, &hard, &soft].map(|path| engine.open(path).unwrap());
        for file in &files {
            assert_eq!(read_all(file, 1), LEN);
            assert_eq!(engine.counters().unwrap().path.device_pages, pages);
        }
        // Read in another way it has pages of its own, and so it has after it was closed.
        let options = OpenOptions::new().buffered(true);
        assert_eq!(read_all(&engine.open_with(&path, &options).unwrap(), 1), LEN);
        assert_eq!(engine.counters().unwrap().path.device_pages, 2 * pages);
        drop(files);
        assert_eq!(read_all(&engine.open(&soft).unwrap(), 1), LEN);
        assert_eq!(engine.counters().unwrap().path.device_pages, 3 * pages);
    });
}

#[test]
fn invalidate_shows_the_writes_of_other_programs() {
    with_each_io("what_another_program_wrote", |io| {
        let dir = TempDir::new().unwrap();
        let path = write_file(dir.path(), 1, LEN);
        let engine = engine(io);
        let file = engine.open(&path).unwrap();
        assert_eq!(read_all(&file, 1), LEN);
        let device_pages = || engine.counters().unwrap().path.device_pages;
        let written = [9; 6000];
        for offset in [0, 5000, 400_000, LEN - 6000] {
            overwrite(&path, offset, &written);
            file.invalidate(offset..offset + 6000).unwrap();
            let before = device_pages();
            let mut got = [0; 6000];
            file.read_at(&mut got, offset).unwrap();
            assert_eq!(got, written, "at {offset}");
            let touched = (offset + 6000).div_ceil(PAGE) - offset / PAGE;
            assert_eq!(device_pages() - before, touched, "what was not written is still there");
        }
        // All of it, whatever the caller calls all of it; and ranges that name nothing.
        file.invalidate(0..u64::MAX).unwrap();
        file.invalidate(LEN..LEN).unwrap();
        file.invalidate(u64::MAX..u64::MAX).unwrap();
        let before = device_pages();
        let mut all = vec![0; LEN as usize];
        file.read_at(&mut all, 0).unwrap();
        assert_eq!(device_pages() - before, LEN.div_ceil(PAGE));
    });
}

#[test]
fn dont_need_drops_only_whole_pages() {
    with_each_io("dont_need_drops_only_whole_pages", |io| {
        let dir = TempDir::new().unwrap();
        let path = write_file(dir.path(), 1, LEN);
        let engine = engine(io);
        let file = engine.open(&path).unwrap();
        let gone = |range: std::ops::Range<u64>| {
            assert_eq!(read_all(&file, 1), LEN);
            let before = engine.counters().unwrap().path.device_pages;
            file.dont_need(range).unwrap();
            read_and_check(&file, 1, &mut vec![0; LEN as usize], 0);
            engine.counters().unwrap().path.device_pages - before
        };
        assert_eq!(gone(PAGE..4 * PAGE), 3);
        assert_eq!(gone(PAGE + 1..4 * PAGE - 1), 1, "others may need the rest");
        assert_eq!(gone(PAGE + 1..2 * PAGE - 1), 0);
        assert_eq!(gone(LEN - 777..LEN), 1, "the last page is whole, short as it is");
        assert_eq!(gone(LEN - 777..LEN - 1), 0);
        assert_eq!(gone(10 * PAGE..u64::MAX), LEN.div_ceil(PAGE) - 10);
        assert_eq!(gone(0..0), 0);
        assert_eq!(gone(u64::MAX - 1..u64::MAX), 0);
    });
}

#[test]
fn holes_are_zeros() {
    with_each_io("holes_are_zeros", |io| {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("holes");
        let mut file = fs::File::create(&path).unwrap();
        // Data of 5000 bytes every 70 000, none of it where a page begins, and a hole at the end.
        let mut piece = [0; 5000];
        for at in (1234..LEN - 5000).step_by(70_000) {
            support::fill(1, at, &mut piece);
            file.seek(SeekFrom::Start(at)).unwrap();
            file.write_all(&piece).unwrap();
        }
        file.set_len(LEN + 1_000_000).unwrap();
        file.sync_all().unwrap();
        let file = engine(io).open(&path).unwrap();
        let want = fs::read(&path).unwrap();
        let (stream, mut buffer) = (file.stream(), vec![1; 30_011]);
        let mut offset = 0;
        while offset < want.len() {
            let got = stream.read_at(&mut buffer, offset as u64).unwrap();
            assert!(got > 0 && buffer[..got] == want[offset..offset + got], "{offset}");
            offset += got;
        }
    });
}

#[test]
fn a_read_with_room_to_spare_ends_where_the_file_does_whatever_its_size() {
    with_each_io("a_read_with_room_to_spare", |io| {
        let dir = TempDir::new().unwrap();
        let engine = engine(io);
        let mut buffer = vec![0; 3 << 20];
        for len in [1, 511, 513, 1023, 4095, 4097, 131_071, 131_073, LEN, (2 << 20) - 1] {
            let path = write_file(dir.path(), len, len);
            let file = engine.open(&path).unwrap();
            for offset in [0, 1, len / 2, len.saturating_sub(4097), len - 1, len] {
                buffer.fill(0xa5);
                let got = read_and_check(&file, len, &mut buffer, offset.min(len)) as u64;
                assert_eq!(got, len - offset.min(len), "at {offset} of {len}");
                assert!(buffer[got as usize..].iter().all(|byte| *byte == 0xa5), "untouched");
            }
            assert_eq!(file.read_at(&mut buffer, len + 1).unwrap(), 0);
        }
    });
}

/// Ends the readers even if the writer panics.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A pin that was taken before a file grew, and measured after, once had bytes that were never
/// written.
#[test]
fn a_pin_has_no_byte_that_its_file_never_had() {
    const CHANGES: u64 = 20_000;

    // In memory, where lengths change often enough for a race of some nanoseconds.
    let dir = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap();
    let path = dir.path().join("file");
    fs::write(&path, vec![1; 5000]).unwrap();
    let engine = Engine::builder().memory(1 << 20).build().unwrap();
    let file = engine.open(&path).unwrap();
    let (stop, known) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let (stop, file, known) = (&stop, &file, &known);
        let to = fs::File::options().write(true).open(&path).unwrap();
        scope.spawn(move || {
            for n in 1..CHANGES {
                let tail: Vec<u8> = (0..399).flat_map(|_| n.to_le_bytes()).collect();
                to.set_len(5000).unwrap();
                file.refresh().unwrap();
                to.write_all_at(&tail, 5000).unwrap();
                known.store(n, Ordering::SeqCst);
                file.refresh().unwrap();
            }
            stop.store(true, Ordering::Relaxed);
        });
        let stream = file.stream();
        let mut bad = 0;
        while !stop.load(Ordering::Relaxed) {
            let least = known.load(Ordering::SeqCst);
            if let Ok(pin) = stream.pin(4096) {
                let Some(tail) = pin.get(904..) else { continue };
                bad += u64::from(tail.chunks_exact(8).any(|word| {
                    let word = u64::from_le_bytes(word.try_into().unwrap());
                    word != 0 && word < least
                }));
            }
        }
        assert_eq!(bad, 0, "pins have what a frame had before");
    });
}
