//! Devices that do not take what is written: nothing is lost in silence, and no caller hangs.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::common;
use crate::recorded;
use crate::support;

use foreread::testing::{Faults, Mishap};
use foreread::{
    Engine, EngineBuilder, File, IoBackend, OpenOptions, WriteError, WriteErrorKind, WriteMode,
};
use recorded::{Recorded, recorded};
use support::{wait_until, wait_until_idle, with_each_io};
use tempfile::TempDir;

const PAGE: usize = 4096;
const PAGES: usize = 256;
const ALWAYS: std::ops::Range<u32> = 0..u32::MAX;

/// A file of zeros, and a device under it that fails as told.
struct Bench {
    engine: Recorded,
    file: File,
    faults: Arc<Faults>,
    path: PathBuf,
    _dir: TempDir,
}

impl Bench {
    fn new(io: IoBackend) -> Self {
        Self::with(Engine::builder().memory(4 << 20).io_backend(io), false)
    }

    fn with(builder: EngineBuilder, buffered: bool) -> Self {
        let dir = TempDir::new_in(common::scratch()).expect("a directory");
        let path = dir.path().join("file");
        fs::write(&path, vec![0; PAGES * PAGE]).expect("a file");
        let engine = recorded(builder);
        let faults = Arc::new(Faults::default());
        let options = OpenOptions::new().write(true).buffered(buffered).faults(Arc::clone(&faults));
        let file = engine.open_with(&path, &options).expect("it is there");
        Self { engine, file, faults, path, _dir: dir }
    }

    /// Fills pages with a byte.
    fn write(&self, pages: std::ops::Range<usize>, byte: u8) -> Result<(), WriteError> {
        let bytes = vec![byte; pages.len() * PAGE];
        self.file.write_all_at(&bytes, (pages.start * PAGE) as u64)
    }

    fn on_disk(&self, page: usize) -> u8 {
        let disk = fs::read(&self.path).expect("it is there");
        let page = &disk[page * PAGE..(page + 1) * PAGE];
        assert!(page.iter().all(|&byte| byte == page[0]), "half a page");
        page[0]
    }

    fn in_memory(&self, page: usize) -> u8 {
        let mut byte = [0];
        self.file.read_at(&mut byte, (page * PAGE) as u64).expect("a byte");
        byte[0]
    }
}

fn errno(result: Result<(), WriteError>) -> Option<i32> {
    match result {
        Ok(()) => None,
        Err(
            WriteError { kind: WriteErrorKind::Io { source, .. }, .. }
            | WriteError { kind: WriteErrorKind::Lost { source, .. }, .. },
        ) => source.raw_os_error(),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_page_that_cannot_be_written_is_the_error_of_each_flush_until_it_is() {
    with_each_io("a_page_that_cannot_be_written_is_the_error_of_each_flush", |io| {
        let bench = Bench::new(io);
        bench.faults.inject_writes(20..22, ALWAYS, Mishap::Errno(libc::EIO));
        bench.write(10..40, 7).expect("room");
        for _ in 0..3 {
            assert_eq!(errno(bench.file.sync_data()), Some(libc::EIO));
        }
        for page in 10..40 {
            let is_bad = (20..22).contains(&page);
            assert_eq!(bench.on_disk(page), if is_bad { 0 } else { 7 }, "page {page}");
            assert_eq!(bench.in_memory(page), 7, "page {page}");
        }
        bench.write(20..21, 8).expect("room");
        assert_eq!(errno(bench.file.sync_data()), Some(libc::EIO));
        bench.faults.clear();
        assert_eq!(errno(bench.file.sync_data()), None);
        assert_eq!((bench.on_disk(20), bench.on_disk(21)), (8, 7));
        assert_eq!(errno(bench.file.sync_data()), None, "and it is forgotten");
        assert_eq!(bench.engine.counters().unwrap().dirty, 0);
    });
}

#[test]
fn a_full_disk_says_that_there_is_to_be_room() {
    with_each_io("a_full_disk_says_that_there_is_to_be_room", |io| {
        let bench = Bench::new(io);
        bench.faults.inject_writes(0..256, ALWAYS, Mishap::Errno(libc::ENOSPC));
        bench.write(0..4, 7).expect("room in memory");
        let error = bench.file.sync_data().expect_err("no room on the disk").to_string();
        assert!(error.contains("free space") && error.contains("file"), "{error}");
        bench.faults.clear();
        bench.file.sync_data().expect("there is room");
        assert_eq!(bench.on_disk(3), 7);
    });
}

#[test]
fn a_page_of_which_a_part_is_written_fails_with_what_became_of_the_rest() {
    with_each_io("a_page_of_which_a_part_is_written_fails", |io| {
        let bench = Bench::new(io);
        bench.faults.inject_writes(3..4, 0..1, Mishap::Short(2048));
        bench.faults.inject_writes(3..4, 1..2, Mishap::Errno(libc::ENOSPC));
        bench.write(3..4, 7).expect("room in memory");
        assert_eq!(errno(bench.file.sync_data()), Some(libc::ENOSPC));
        assert_eq!(errno(bench.file.sync_data()), None);
        assert_eq!(bench.on_disk(3), 7);
    });
}

#[test]
fn a_write_that_has_to_reach_the_device_is_told_when_it_does_not() {
    with_each_io("a_write_that_has_to_reach_the_device_is_told", |io| {
        let bench = Bench::new(io);
        for mode in [WriteMode::WriteThrough, WriteMode::Fua] {
            bench.faults.inject_writes(5..6, ALWAYS, Mishap::Errno(libc::EIO));
            let wrote = bench.file.write_all_at_with(&[3; 3 * PAGE], 4 * PAGE as u64, mode);
            assert_eq!(errno(wrote), Some(libc::EIO), "{mode:?}");
            let wrote = bench.file.write_all_at_with(&[3; PAGE], 9 * PAGE as u64, mode);
            assert_eq!(errno(wrote), None, "{mode:?}: it lies elsewhere");
            assert_eq!(errno(bench.file.sync_data()), Some(libc::EIO), "{mode:?}");
            bench.faults.clear();
            assert_eq!(errno(bench.file.sync_data()), None, "{mode:?}");
            assert_eq!((bench.on_disk(5), bench.on_disk(9)), (3, 3));
        }
    });
}

#[test]
fn a_device_that_ends_writes_early_costs_time_and_no_bytes() {
    with_each_io("a_device_that_ends_writes_early_costs_time_and_no_bytes", |io| {
        let bench = Bench::new(io);
        for n in 0..40 {
            bench.faults.inject_writes(0..256, n * 2..n * 2 + 1, Mishap::Short(5000 + n * 512));
        }
        for round in 1..=6 {
            bench.write(0..PAGES, round).expect("room");
            // A page at a time may be cut short each time: then it is tried again.
            wait_until(|| bench.file.sync_data().is_ok());
            assert!((0..PAGES).step_by(17).all(|page| bench.on_disk(page) == round));
        }
        assert!(bench.faults.struck() > 5, "{}", bench.faults.struck());
    });
}

/// The device may have dropped what it had cached, and the next flush may succeed all the same.
#[test]
fn pages_in_memory_are_written_again_after_a_device_flush_that_failed() {
    with_each_io("pages_in_memory_are_written_again_after_a_device_flush", |io| {
        for buffered in [false, true] {
            let bench = Bench::with(Engine::builder().memory(4 << 20).io_backend(io), buffered);
            bench.faults.inject_syncs(0..1, Mishap::Errno(libc::EIO));
            bench.write(0..4, 1).expect("room");
            assert_eq!(errno(bench.file.sync_data()), Some(libc::EIO));
            assert_eq!(errno(bench.file.sync_data()), None);
            assert_eq!(bench.engine.counters().unwrap().path.pages_rewritten, 4);
            assert_eq!(bench.engine.counters().unwrap().path.device_write_pages, 8);
            assert_eq!(bench.engine.counters().unwrap().path.flush_failures, 1);
            assert!((0..4).all(|page| bench.on_disk(page) == 1));
            assert!(!bench.file.lost_writes().is_pending().unwrap());
        }
    });
}

#[test]
fn pages_in_memory_are_written_again_after_a_fua_write_that_failed() {
    with_each_io("pages_in_memory_are_written_again_after_a_fua_write", |io| {
        let bench = Bench::new(io);
        bench.write(0..4, 1).expect("room");
        let written = bench.file.write_all_at_with(&[1; PAGE], 9 * 4096, WriteMode::WriteThrough);
        written.expect("the device has it, perhaps in a cache");
        wait_until(|| {
            bench.engine.set_by_name("dirty_age", "0").expect("there is such a setting");
            bench.engine.counters().unwrap().dirty == 0
        });
        bench.faults.inject_writes(20..21, 0..1, Mishap::Errno(libc::EIO));
        let fua = bench.file.write_all_at_with(&[2; PAGE], 20 * 4096, WriteMode::Fua);
        assert_eq!(errno(fua), Some(libc::EIO), "a write and a flush, and one of them failed");
        assert_eq!(errno(bench.file.sync_data()), None);
        assert_eq!(bench.engine.counters().unwrap().path.pages_rewritten, 5);
        assert_eq!(bench.engine.counters().unwrap().path.device_write_pages, 12);
        assert!((0..4).all(|page| bench.on_disk(page) == 1));
        assert_eq!((bench.on_disk(9), bench.on_disk(20)), (1, 2));
    });
}

/// The last block of a file that ends between two blocks is written through another descriptor, and
/// durably: that hides a flush, too.
#[test]
fn pages_in_memory_are_written_again_after_the_tail_of_a_file_failed() {
    with_each_io("pages_in_memory_are_written_again_after_the_tail", |io| {
        let dir = TempDir::new_in(common::scratch()).expect("a directory");
        let path = dir.path().join("file");
        fs::write(&path, vec![0; 8 * PAGE + 100]).expect("a file");
        let engine = recorded(Engine::builder().memory(4 << 20).io_backend(io));
        let faults = Arc::new(Faults::default());
        let options = OpenOptions::new().write(true).faults(Arc::clone(&faults));
        let file = engine.open_with(&path, &options).expect("it is there");
        if file.direct_io_unavailable().is_some() {
            return; // The kernel takes any length there.
        }
        file.write_all_at_with(&[1; PAGE], 0, WriteMode::WriteThrough).expect("the device has it");
        faults.inject_writes(8..9, 0..1, Mishap::Errno(libc::EIO));
        file.write_all_at(&[2; 100], 8 * 4096).expect("room");
        assert_eq!(errno(file.sync_data()), Some(libc::EIO));
        assert_eq!(errno(file.sync_data()), None);
        assert_eq!(engine.counters().unwrap().path.pages_rewritten, 1);
        assert_eq!(engine.counters().unwrap().path.device_write_pages, 4);
        let disk = fs::read(&path).expect("it is there");
        assert_eq!((disk.len(), disk[0], disk[8 * PAGE + 99]), (8 * PAGE + 100, 1, 2));
    });
}

#[test]
fn writes_that_are_in_memory_no_more_are_lost_until_the_owner_accepts_that() {
    with_each_io("writes_that_are_in_memory_no_more_are_lost", |io| {
        for buffered in [false, true] {
            let bench = Bench::with(Engine::builder().memory(4 << 20).io_backend(io), buffered);
            bench.write(0..4, 1).expect("room");
            bench
                .file
                .write_all_at_with(&[1; PAGE], 9 * 4096, WriteMode::WriteThrough)
                .expect("on the device");
            bench.file.extents(0..4096).expect("written back");
            bench.file.invalidate(0..PAGES as u64 * 4096).unwrap();
            bench.faults.inject_syncs(0..1, Mishap::Errno(libc::EIO));
            for _ in 0..3 {
                let error = bench.file.sync_data().expect_err("they may be gone");
                assert!(matches!(error.kind, WriteErrorKind::Lost { .. }), "{error}");
                let text = error.to_string();
                assert!(text.contains("may be lost") && text.contains("accept"), "{text}");
                assert_eq!(errno(Err(error)), Some(libc::EIO));
                assert!(bench.file.lost_writes().is_pending().unwrap());
            }
            bench.write(20..21, 5).expect("room");
            assert!(bench.file.sync_data().is_err(), "of the others nothing is known");
            assert_eq!(bench.on_disk(20), 5, "and this is on the device all the same");
            bench.file.lost_writes().accept().expect("not forked");
            assert_eq!(errno(bench.file.sync_data()), None);
            assert!(!bench.file.lost_writes().is_pending().unwrap());
        }
    });
}

/// The device reports a failure to one of two flushes; the other one may report success.
#[test]
fn a_flush_beside_one_that_failed_fails_with_it() {
    with_each_io("a_flush_beside_one_that_failed_fails_with_it", |io| {
        let bench = Bench::new(io);
        bench.faults.inject_syncs(0..1, Mishap::Hold);
        bench.faults.inject_syncs(0..1, Mishap::Errno(libc::EIO));
        bench.write(0..4, 1).expect("room");
        std::thread::scope(|scope| {
            let first = scope.spawn(|| errno(bench.file.sync_data()));
            bench.faults.wait_held(1);
            let second = scope.spawn(|| errno(bench.file.sync_data()));
            wait_until(|| bench.engine.counters().unwrap().path.flushes == 2);
            bench.faults.let_go();
            assert_eq!(first.join().expect("it is told"), Some(libc::EIO));
            assert_eq!(second.join().expect("it is told"), Some(libc::EIO));
        });
    });
}

#[test]
fn a_page_whose_rest_cannot_be_read_is_not_written() {
    with_each_io("a_page_whose_rest_cannot_be_read_is_not_written", |io| {
        let bench = Bench::new(io);
        bench.faults.inject(30..31, 0..1, Mishap::Errno(libc::EIO));
        let write = || bench.file.write_all_at(&[1; 100], 30 * PAGE as u64 + 10);
        assert_eq!(errno(write()), Some(libc::EIO));
        assert_eq!(errno(write()), None, "the next try can");
        assert_eq!(errno(bench.file.sync_data()), None);
        let disk = fs::read(&bench.path).expect("it is there");
        assert_eq!(disk[30 * PAGE..][9..111], [&[0], &[1; 100][..], &[0]].concat());
    });
}

#[test]
fn writers_whose_room_is_held_by_pages_that_fail_are_told_so() {
    with_each_io("writers_whose_room_is_held_by_pages_that_fail", |io| {
        let builder = Engine::builder().memory(4 << 20).io_backend(io).dirty_limit(64 << 10);
        let bench = Bench::with(builder, false);
        bench.faults.inject_writes(0..256, ALWAYS, Mishap::Errno(libc::EIO));
        let told = (0..PAGES).find_map(|page| bench.write(page..page + 1, 1).err());
        assert_eq!(errno(Err(told.expect("there is no room for all"))), Some(libc::EIO));
        bench.faults.clear();
        wait_until(|| bench.file.sync_data().is_ok());
        bench.write(0..PAGES, 2).expect("there is room again");
    });
}

#[test]
fn a_device_that_does_not_answer_holds_up_its_writers_until_their_time_is_over() {
    with_each_io("a_device_that_does_not_answer_holds_up_its_writers", |io| {
        let timeout = Duration::from_millis(30);
        let builder = Engine::builder().memory(4 << 20).io_backend(io).timeout(timeout);
        let bench = Bench::with(builder.dirty_limit(64 << 10), false);
        bench.faults.inject_writes(0..256, 0..1, Mishap::Hold);
        bench.write(3..4, 9).expect("in memory");
        let is_timed_out = |result| {
            matches!(result, Err(WriteError { kind: WriteErrorKind::TimedOut { .. }, .. }))
        };
        assert!(is_timed_out(bench.file.sync_data()));
        assert!(is_timed_out(bench.file.write_all_at_with(
            &[1; PAGE],
            3 * 4096,
            WriteMode::WriteThrough
        )));
        bench.faults.let_go();
        // It answers; whether in time is a matter of how much else runs here.
        wait_until(|| bench.file.sync_data().is_ok());
        wait_until_idle(&bench.engine);
        assert_eq!(bench.on_disk(3), 1);
    });
}

#[test]
fn an_engine_ends_with_writes_that_are_held_and_files_that_are_dirty() {
    with_each_io("an_engine_ends_with_writes_that_are_held", |io| {
        let timeout = Duration::from_millis(30);
        let bench =
            Bench::with(Engine::builder().memory(4 << 20).io_backend(io).timeout(timeout), false);
        bench.faults.inject_writes(0..256, ALWAYS, Mishap::Hold);
        bench.write(3..9, 9).expect("in memory");
        assert!(bench.file.sync_data().is_err());
        bench.faults.wait_held(1);
    });
}
