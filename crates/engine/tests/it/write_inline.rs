//! Durable writes that the thread which waits for them makes itself, without the ring.
//!
//! In:    FUA writes alone, beside others, held back and refused; each kind of ring.
//! Out:   what counters, other threads and a power cut see.
//! Never: a claim about speed.

use std::ops::Range;
use std::sync::Arc;

use crate::common;
use crate::recorded;
use crate::support;

use foreread::testing::{Faults, Mishap, VolatileDisk};
use foreread::{Engine, File, IoBackend, OpenOptions, WriteError, WriteErrorKind, WriteMode};
use recorded::{Recorded, recorded};
use support::{wait_until_idle, with_each_io};
use tempfile::TempDir;

const PAGE: usize = 4096;
const LEN: usize = 64 * PAGE;

struct Bench {
    engine: Recorded,
    file: File,
    faults: Arc<Faults>,
    dir: TempDir,
}

impl Bench {
    fn new(io: IoBackend) -> Self {
        let dir = TempDir::new_in(common::scratch()).expect("a directory");
        let path = dir.path().join("file");
        std::fs::write(&path, vec![1; LEN]).expect("a file");
        let engine = recorded(Engine::builder().memory(1 << 20).io_backend(io));
        let faults = Arc::new(Faults::default());
        let options = OpenOptions::new().write(true).faults(Arc::clone(&faults));
        let file = engine.open_with(&path, &options).expect("it is there");
        Self { engine, file, faults, dir }
    }

    fn inline_writes(&self) -> u64 {
        self.engine.counters().expect("no fork").inline_writes
    }
}

fn fua(file: &File, pages: Range<usize>, byte: u8) -> Result<(), WriteError> {
    let bytes = vec![byte; pages.len() * PAGE];
    file.write_all_at_with(&bytes, (pages.start * PAGE) as u64, WriteMode::Fua)
}

#[test]
fn a_lone_durable_write_survives_a_power_cut_and_needs_no_ring() {
    let device = VolatileDisk::new(vec![1; LEN]);
    let engine = recorded(Engine::builder().memory(1 << 20).io_backend(IoBackend::Threads));
    let options = OpenOptions::new().write(true).volatile(Some(Arc::clone(&device)));
    let file = engine.open_with("/no/such/file", &options).expect("a device");
    file.write_all_at(&[2; PAGE], 0).expect("in memory");
    for page in 3..8 {
        fua(&file, page..page + 1, 3).expect("it is durable");
        assert_eq!(engine.counters().expect("no fork").inline_writes, page as u64 - 2);
    }
    // Part of a page: the rest is read first.
    file.write_all_at_with(&[4; 10], 20 * PAGE as u64 + 5, WriteMode::Fua).expect("durable");
    let left = device.cut(1);
    assert!(left[3 * PAGE..8 * PAGE].iter().all(|&byte| byte == 3));
    assert_eq!(left[20 * PAGE + 4..20 * PAGE + 16], [1, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 1]);
}

#[test]
fn a_durable_write_that_is_held_back_blocks_no_other_thread() {
    with_each_io("a_durable_write_that_is_held_back_blocks_no_other_thread", |io| {
        let bench = Bench::new(io);
        bench.faults.inject_writes(3..4, 0..1, Mishap::Hold);
        std::thread::scope(|scope| {
            let held = scope.spawn(|| fua(&bench.file, 3..4, 3));
            bench.faults.wait_held(1);
            assert_eq!(bench.inline_writes(), 1);
            // Misses, whole and partial pages, and the bytes that are being written.
            let mut got = [0; PAGE];
            for (page, want) in [(40, 1), (3, 3), (41, 1)] {
                bench.file.read_exact_at(&mut got, page * PAGE as u64).expect("the device answers");
                assert_eq!(got, [want; PAGE]);
            }
            bench.file.write_all_at(&[5; 100], 50 * PAGE as u64 + 7).expect("in memory");
            // They wait for the durable write beside them, which may have failed in the device.
            let beside = scope.spawn(|| fua(&bench.file, 12..13, 12));
            let flush = scope.spawn(|| bench.file.sync_data());
            bench.file.read_exact_at(&mut got, 45 * PAGE as u64).expect("the device answers");
            bench.faults.let_go();
            for ended in [held, beside, flush] {
                ended.join().expect("no panic").expect("the device is well");
            }
        });
        wait_until_idle(&bench.engine);
    });
}

#[test]
fn a_durable_write_that_fails_is_an_error_and_is_written_again() {
    with_each_io("a_durable_write_that_fails_is_an_error_and_is_written_again", |io| {
        for mishap in [Mishap::Errno(libc::EIO), Mishap::Errno(libc::ENOSPC)] {
            let bench = Bench::new(io);
            bench.faults.inject_writes(3..4, 0..1, mishap);
            let error = fua(&bench.file, 3..4, 3).expect_err("the device refuses it");
            assert!(matches!(error.kind, WriteErrorKind::Io { .. }), "{error}");
            bench.file.sync_data().expect("the device is well");
            // Signals, and writes that the device cuts short.
            bench.faults.inject_writes(7..9, 0..2, Mishap::Errno(libc::EINTR));
            bench.faults.inject_writes(7..9, 2..3, Mishap::Short(4096 + 512));
            fua(&bench.file, 7..9, 7).expect("it goes on");
            drop(bench.file);
            let disk = std::fs::read(bench.dir.path().join("file")).expect("it is there");
            for (page, want) in [(2, 1), (3, 3), (4, 1), (7, 7), (8, 7), (9, 1)] {
                let page = &disk[page * PAGE..(page + 1) * PAGE];
                assert!(page.iter().all(|&byte| byte == want), "{want}");
            }
        }
    });
}

#[test]
fn durable_writes_of_several_threads_are_all_there() {
    with_each_io("durable_writes_of_several_threads_are_all_there", |io| {
        let bench = Bench::new(io);
        std::thread::scope(|scope| {
            for thread in 0..4_u8 {
                let file = &bench.file;
                scope.spawn(move || {
                    for round in 0..12_u8 {
                        let page = usize::from(thread) * 16 + usize::from(round);
                        file.write_all_at(&[round; 300], page as u64 * PAGE as u64).expect("room");
                        fua(file, page + 1..page + 2, thread + 2).expect("it is durable");
                    }
                });
            }
        });
        assert!(bench.inline_writes() > 0);
        bench.file.sync_data().expect("the device is well");
        wait_until_idle(&bench.engine);
        let disk = std::fs::read(bench.dir.path().join("file")).expect("it is there");
        for thread in 0..4 {
            // The last durable write of its last page is newer than all before it.
            let page = thread * 16 + 12;
            let page = &disk[page * PAGE..(page + 1) * PAGE];
            assert!(page.iter().all(|&byte| usize::from(byte) == thread + 2), "{thread}");
        }
    });
}
