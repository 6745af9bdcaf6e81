//! What is written is what is read, and what is on the disk after a flush: at any offset and of any
//! length, from many threads, in files that end anywhere.

#![allow(clippy::cast_possible_truncation, reason = "offsets are drawn from words")]

use std::fs;
use std::path::Path;

use crate::common;
use crate::recorded;
use crate::support;

use foreread::{Engine, File, IoBackend, OpenOptions, WriteMode};
use recorded::recorded;
use support::{Random, Watchdog, fill, with_each_io, write_file};
use tempfile::TempDir;

const MODES: [WriteMode; 3] = [WriteMode::WriteBack, WriteMode::WriteThrough, WriteMode::Fua];

fn options(buffered: bool) -> OpenOptions {
    OpenOptions::new().write(true).buffered(buffered)
}

/// A thread that writes to every `of`th chunk of a file, and knows what is in those. Chunks end
/// anywhere, so that threads share pages.
struct Writer {
    file: File,
    of: usize,
    number: usize,
    chunk: usize,
    /// The whole file; right in the chunks of this thread.
    want: Vec<u8>,
    random: Random,
}

impl Writer {
    /// A part of one of its chunks.
    fn place(&mut self, longest: u64) -> std::ops::Range<usize> {
        let chunks = self.want.len().div_ceil(self.chunk);
        let mine = (chunks - self.number).div_ceil(self.of) as u64;
        let chunk = self.random.below(mine) as usize * self.of + self.number;
        let (start, end) = (chunk * self.chunk, (chunk + 1) * self.chunk);
        let end = end.min(self.want.len());
        let from = start + self.random.below((end - start) as u64) as usize;
        let len = (self.random.below(longest) as usize + 1).min(end - from);
        from..from + len
    }

    fn run(mut self, steps: u32) -> (usize, usize, usize, Vec<u8>) {
        let mut got = Vec::new();
        for step in 0..steps {
            let longest = if step % 16 == 0 { 200_000 } else { 6000 };
            let place = self.place(longest);
            let mode = MODES[if step % 8 == 0 { self.random.below(3) as usize } else { 0 }];
            match self.random.below(10) {
                0..5 => {
                    let salt = self.random.below(1 << 20);
                    fill(salt, place.start as u64, &mut self.want[place.clone()]);
                    let bytes = &self.want[place.clone()];
                    self.file
                        .write_all_at_with(bytes, place.start as u64, mode)
                        .expect("it is writable");
                }
                5 => {
                    self.want[place.clone()].fill(0);
                    let (start, end) = (place.start as u64, place.end as u64);
                    self.file.write_zeroes(start..end, step % 2 == 0).expect("it is writable");
                }
                6 if step % 50 == 0 => self.file.sync_data().expect("the disk is fine"),
                _ => {
                    got.resize(place.len(), 0xee);
                    let bytes = self.file.read_at(&mut got, place.start as u64).expect("bytes");
                    assert_eq!(bytes, place.len());
                    let same = got == self.want[place.clone()];
                    assert!(same, "thread {}, step {step}: {place:?}", self.number);
                }
            }
        }
        (self.of, self.number, self.chunk, self.want)
    }
}

/// Takes the chunks of each thread, compares a file with them, and gives the whole.
fn check_all(path: &Path, results: Vec<(usize, usize, usize, Vec<u8>)>) {
    let got = fs::read(path).expect("it is there");
    for (of, number, chunk, want) in results {
        assert_eq!(got.len(), want.len());
        for start in (number * chunk..want.len()).step_by(of * chunk) {
            let end = want.len().min(start + chunk);
            let at = (start..end).find(|&at| got[at] != want[at]);
            assert_eq!(at, None, "thread {number}: the disk has other bytes");
        }
    }
}

fn many_threads(io: IoBackend, buffered: bool, len: u64, chunk: usize, memory: u64) {
    let dir = TempDir::new_in(common::scratch()).expect("a directory");
    let path = write_file(dir.path(), 7, len);
    let engine = recorded(Engine::builder().memory(memory).io_backend(io));
    let file = engine.open_with(&path, &options(buffered)).expect("it is there");
    let results = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|number| {
                let mut want = vec![0; len as usize];
                fill(7, 0, &mut want);
                let random = Random(1000 * number as u64 + len);
                let writer = Writer { file: file.clone(), of: 4, number, chunk, want, random };
                scope.spawn(move || writer.run(300))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("it ends well")).collect()
    });
    file.sync_data().expect("the disk is fine");
    check_all(&path, results);
    drop(file);
    support::wait_until_idle(&engine);
}

#[test]
fn random_writes_from_many_threads_are_read_as_they_were_written() {
    with_each_io("random_writes_from_many_threads", |io| {
        many_threads(io, false, (3 << 20) + 1234, 3001, 2 << 20);
        many_threads(io, false, 5 << 20, 300_007, 8 << 20);
    });
}

#[test]
fn buffered_writes_of_many_threads_are_kept() {
    with_each_io("buffered_writes_of_many_threads_are_kept", |io| {
        many_threads(io, true, (2 << 20) + 511, 3001, 2 << 20);
    });
}

/// A file without a whole page, and ends around blocks and pages.
#[test]
fn writes_to_files_of_every_small_size_are_kept() {
    with_each_io("writes_to_files_of_every_small_size_are_kept", |io| {
        let dir = TempDir::new_in(common::scratch()).expect("a directory");
        let engine = recorded(Engine::builder().memory(1 << 20).io_backend(io));
        for len in [1, 511, 512, 513, 4095, 4096, 4097, 8191, 8193, 12288] {
            let path = write_file(dir.path(), len, len);
            let file = engine.open_with(&path, &options(false)).expect("it is there");
            let mut want = vec![0; len as usize];
            fill(len, 0, &mut want);
            let mut random = Random(len);
            for _ in 0..40 {
                let from = random.below(len) as usize;
                let to = from + 1 + random.below(len - from as u64) as usize;
                fill(random.below(99), from as u64, &mut want[from..to]);
                let mode = MODES[random.below(3) as usize];
                file.write_all_at_with(&want[from..to], from as u64, mode).expect("it is writable");
                let mut got = vec![0; len as usize];
                assert_eq!(file.read_at(&mut got, 0).expect("bytes"), len as usize);
                assert!(got == want, "{len} bytes, {from}..{to}");
            }
            file.sync_data().expect("the disk is fine");
            assert!(fs::read(&path).expect("it is there") == want, "{len} bytes");
        }
    });
}

/// Reading by pins and by copies while pages are replaced: no byte is half old and half new.
#[test]
fn a_page_is_seen_as_one_write_left_it() {
    with_each_io("a_page_is_seen_as_one_write_left_it", |io| {
        let dir = TempDir::new_in(common::scratch()).expect("a directory");
        let path = dir.path().join("file");
        fs::write(&path, vec![0; 64 * 4096]).expect("a file");
        let engine = recorded(Engine::builder().memory(2 << 20).io_backend(io));
        let file = engine.open_with(&path, &options(false)).expect("it is there");
        std::thread::scope(|scope| {
            for writer in 0..2_u64 {
                let file = file.clone();
                scope.spawn(move || {
                    let mut random = Random(writer);
                    for round in 0..2000_u64 {
                        let page = [(round % 251) as u8; 4096];
                        let mode = if round % 64 == 0 { MODES[1] } else { MODES[0] };
                        let offset = random.below(64) * 4096;
                        file.write_all_at_with(&page, offset, mode).expect("it is writable");
                    }
                });
            }
            for reader in 0..2_u64 {
                let file = file.clone();
                scope.spawn(move || {
                    let (mut random, stream) = (Random(90 + reader), file.stream());
                    let mut page = [0; 4096];
                    for _ in 0..4000 {
                        let offset = random.below(64) * 4096;
                        let whole = |page: &[u8]| page.iter().all(|&byte| byte == page[0]);
                        if reader == 0 {
                            stream.read_at(&mut page, offset).expect("bytes");
                            assert!(whole(&page), "{offset}");
                        } else {
                            let pin = stream.pin(offset).expect("a page");
                            let before = pin[0];
                            assert!(whole(&pin), "{offset}");
                            std::thread::yield_now();
                            assert!(pin.iter().all(|&byte| byte == before), "a pin holds still");
                        }
                    }
                });
            }
        });
        file.sync_data().expect("the disk is fine");
    });
}

#[test]
fn a_read_that_fits_starts_without_waiting() {
    let _watchdog = Watchdog::new("what_fits_is_tried_without_waiting");
    let dir = TempDir::new_in(common::scratch()).expect("a directory");
    let path = write_file(dir.path(), 3, 1 << 20);
    let engine = recorded(Engine::builder().memory(4 << 20));
    let file = engine.open_with(&path, &options(false)).expect("it is there");
    let bytes = [9; 8192];
    assert_eq!(file.try_write_at(&bytes, 4096).expect("it is writable"), 8192, "whole pages");
    let mut got = [0; 8192];
    file.read_at(&mut got, 4096).expect("bytes");
    assert_eq!(got, bytes);
    let partial = file.try_write_at(&bytes[..100], 500_000).expect("it is writable");
    assert_eq!(partial, 0, "the rest of the page has to be read first");
    file.read_at(&mut [0], 500_000).expect("it comes");
    let partial = file.try_write_at(&bytes[..100], 500_000).expect("it is writable");
    assert_eq!(partial, 100, "and is there now");
    file.sync_data().expect("the disk is fine");
    let disk = fs::read(&path).expect("it is there");
    assert_eq!(disk[4096..12288], bytes);
    assert_eq!(disk[500_000..500_100], bytes[..100]);
}

#[test]
#[expect(clippy::reversed_empty_ranges, reason = "that is the point")]
fn a_range_that_ends_before_it_begins_is_empty() {
    let dir = TempDir::new_in(common::scratch()).expect("a directory");
    let (path, bytes) = (dir.path().join("file"), vec![5; 1 << 16]);
    fs::write(&path, &bytes).expect("a file");
    let engine = recorded(Engine::builder().memory(1 << 20));
    let options = OpenOptions::new().write(true);
    let file = engine.open_with(&path, &options).expect("it is there");
    file.write_zeroes(9000..100, true).expect("nothing to do");
    file.discard(9000..100).expect("nothing to do");
    file.sync_data().expect("the disk is fine");
    assert_eq!(fs::read(&path).expect("it is there"), bytes);
}

/// Each zero request that was not of whole pages left a page or two of data in a hole.
#[test]
fn zeros_of_parts_of_pages_keep_a_hole_and_replace_what_is_in_memory_only() {
    let dir = TempDir::new_in(common::scratch()).expect("a directory");
    let path = dir.path().join("file");
    fs::File::create(&path).and_then(|file| file.set_len(1 << 20)).expect("a file");
    let engine = recorded(Engine::builder().memory(1 << 20));
    let file = engine.open_with(&path, &OpenOptions::new().write(true)).expect("it is there");
    for (start, end) in [(100, 200), (5000, 9000), (12_288, 20_000), (30_001, 40_960)] {
        file.write_zeroes(start..end, true).expect("zeros");
    }
    file.sync_data().expect("the disk is fine");
    assert_eq!(file.extents(0..1 << 20).expect("extents"), [(0..1 << 20, false)]);
    // It is in memory, and still a hole on the device.
    file.write_all_at(&[7; 4096], 65_536).expect("memory");
    file.write_zeroes(65_636..65_736, true).expect("zeros");
    // Space that is asked for is there.
    file.write_zeroes(131_172..131_272, false).expect("zeros");
    file.sync_data().expect("the disk is fine");
    let disk = fs::read(&path).expect("it is there");
    let want = [&[7; 100][..], &[0; 100], &[7; 3896]].concat();
    assert!(disk[65_536..][..4096] == want);
    let extents = file.extents(131_072..1 << 20).expect("extents");
    assert_eq!(extents.first(), Some(&(131_072..135_168, true)));
}
