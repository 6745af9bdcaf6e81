//! Memory that was never used is had before a reader needs it, and not more of it than is used.
//!
//! In:    a stream of reads, in a process without huge pages.
//! Out:   page faults of the reader's thread; how much memory the engine's arena has.
//! Never: a time.

mod common;
mod hang;
mod support;

use std::fs;
use std::path::Path;

use foreread::{Engine, File, IoBackend};
use support::{PAGE, Watchdog, read_and_check, wait_until, write_file};
use tempfile::TempDir;

/// Of the arena: no other mapping of this process is as large.
const MEMORY: u64 = 1 << 30;

/// As the engine makes it ready at a time.
const STEP: u64 = 2 << 20;

/// How many pages this thread has touched first, or had touched for it by the kernel.
fn faults_of_this_thread() -> u64 {
    let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
    let after_name = stat.rsplit_once(") ").unwrap().1;
    after_name.split(' ').nth(7).unwrap().parse().unwrap()
}

/// How much memory the engine's arena has.
fn resident() -> u64 {
    resident_of(MEMORY / 2)
}

/// How much memory the largest mapping has, which has room for so much at least.
fn resident_of(least: u64) -> u64 {
    let maps = fs::read_to_string("/proc/self/smaps").unwrap();
    let mut largest = (0, 0);
    let mut size = 0;
    let kib = |line: &str| line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10;
    for line in maps.lines() {
        if line.starts_with("Size:") {
            size = kib(line);
        } else if line.starts_with("Rss:") && size > largest.0 {
            largest = (size, kib(line));
        }
    }
    assert!(largest.0 > least, "the arena is the largest mapping");
    largest.1
}

/// Reads from the start to `len` in pieces of 64 KiB; at each step waits until the engine has made
/// its memory ready. Returns the faults of the reads: what waiting costs depends on how long it is.
fn read_in_step(file: &File, len: u64) -> u64 {
    let mut buffer = vec![0; 64 << 10];
    let mut faults = 0;
    for offset in (0..len).step_by(buffer.len()) {
        let before = faults_of_this_thread();
        read_and_check(file, 1, &mut buffer, offset);
        faults += faults_of_this_thread() - before;
        if offset >= STEP {
            // One step is made ready at a time: the next one is begun by whichever call follows.
            wait_until(|| {
                file.device().state().unwrap();
                resident() > offset + STEP / 2
            });
        }
    }
    faults
}

fn open(io: IoBackend, path: &Path) -> File {
    let engine = Engine::builder().memory(MEMORY).max_window(128 << 10).io_backend(io);
    engine.build().unwrap().open(path).unwrap()
}

/// One test: the switch for huge pages is the process's.
#[test]
fn a_stream_finds_its_memory_ready_and_no_more_is_taken_than_that() {
    rustix::thread::disable_transparent_huge_pages(true).unwrap();
    let dir = TempDir::new().unwrap();
    let (len, small) = (16 << 20, 256 << 10);
    let path = write_file(dir.path(), 1, len);
    let _watchdog = Watchdog::new("a_stream_finds_its_memory_ready");

    let file = open(IoBackend::Threads, &path);
    let mut buffer = vec![0; usize::try_from(small).unwrap()];
    read_and_check(&file, 1, &mut buffer, 0);
    // The read itself, and the window behind it.
    assert!(resident() <= 2 * small + (128 << 10), "{} bytes for a small read", resident());
    drop(file);

    let prefaulted = Engine::builder().memory(MEMORY / 8).prefault(true).build().unwrap();
    assert!(resident_of(MEMORY / 10) > MEMORY / 10, "all of it, from the start");
    let file = prefaulted.open(&path).unwrap();
    let before = faults_of_this_thread();
    for offset in (0..len).step_by(buffer.len()) {
        read_and_check(&file, 1, &mut buffer, offset);
    }
    let faults = faults_of_this_thread() - before;
    // What is left is of the engine's tables.
    assert!(faults < len / PAGE / 8, "{faults} faults with memory that is there");
    drop((file, prefaulted));

    for io in [IoBackend::Threads, IoBackend::IoUring] {
        let file = open(io, &path);
        let faults = read_in_step(&file, len);
        // The reader may touch all of the first step itself before its memory is ready, and with it
        // the window behind; without the feature it would touch every page.
        assert!(faults < 2 * STEP / PAGE, "{faults} faults for {} pages, {io:?}", len / PAGE);
        let most = len + (8 << 20) + 2 * STEP;
        assert!(resident() <= most, "{} bytes for {len} that were read", resident());
    }
}
