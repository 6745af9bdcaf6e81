//! Devices that fail on purpose: only the readers of a page get its error.

use std::fs;
use std::sync::Arc;

use crate::recorded;
use crate::support;

use foreread::testing::{Faults, Mishap};
use foreread::{Engine, File, IoBackend, ReadError, ReadErrorKind};
use recorded::{Recorded, recorded};
use support::{open_faulty, wait_until_closed, wait_until_idle, with_each_io};
use tempfile::TempDir;

const PAGE: usize = 4096;
const PAGES: usize = 256;

/// A file whose page n is filled with n, and a device under it that fails as told.
struct Bench {
    engine: Recorded,
    file: File,
    faults: Arc<Faults>,
    _dir: TempDir,
}

impl Bench {
    fn new(io: IoBackend) -> Self {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("file");
        let byte = |at: usize| u8::try_from(at / PAGE).unwrap();
        fs::write(&path, (0..PAGES * PAGE).map(byte).collect::<Vec<u8>>()).unwrap();
        let engine = recorded(Engine::builder().memory(4 << 20).io_backend(io));
        let (file, faults) = open_faulty(&engine, &path);
        Self { engine, file, faults, _dir: dir }
    }

    /// Reads one page: whether it is right, or the error's number.
    fn page(&self, page: usize) -> Result<bool, i32> {
        let mut got = [0; PAGE];
        match self.file.read_at(&mut got, (page * PAGE) as u64) {
            Ok(bytes) => Ok(bytes == PAGE && got == [u8::try_from(page).unwrap(); PAGE]),
            Err(ReadError { kind: ReadErrorKind::Io { source, .. }, .. }) => {
                Err(source.raw_os_error().unwrap())
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn one_bad_page_in_a_window_is_the_error_of_its_reader_and_of_no_neighbour() {
    with_each_io("one_bad_page_in_a_window_is_the_error_of_its_reader_and_of_no_neighbour", |io| {
        let bench = Bench::new(io);
        bench.faults.inject(20..21, 0..u32::MAX, Mishap::Errno(libc::EIO));
        for page in 0..40 {
            let want = if page == 20 { Err(libc::EIO) } else { Ok(true) };
            assert_eq!(bench.page(page), want, "page {page}");
        }
        assert!(
            bench.engine.counters().unwrap().path.pages_ahead > 0,
            "read ahead, so it was in a window"
        );
    });
}

#[test]
fn a_page_that_failed_is_read_again_when_asked_again() {
    with_each_io("a_page_that_failed_is_read_again_when_asked_again", |io| {
        let bench = Bench::new(io);
        bench.faults.inject(100..101, 0..1, Mishap::Errno(libc::EIO));
        assert_eq!(bench.page(100), Err(libc::EIO), "a lone page has no second try");
        assert_eq!(bench.page(100), Ok(true));
    });
}

#[test]
fn a_device_that_ends_requests_early_costs_time_and_no_bytes() {
    with_each_io("a_device_that_ends_requests_early_costs_time_and_no_bytes", |io| {
        let bench = Bench::new(io);
        for n in 0..20 {
            bench.faults.inject(0..256, n * 3..n * 3 + 1, Mishap::Short(5000));
        }
        for page in 0..PAGES {
            assert_eq!(bench.page(page), Ok(true), "page {page}");
        }
        assert!(bench.faults.struck() > 0);
    });
}

#[test]
fn a_device_that_asks_to_try_again_is_tried_again() {
    with_each_io("a_device_that_asks_to_try_again_is_tried_again", |io| {
        let bench = Bench::new(io);
        bench.faults.inject(0..256, 0..10, Mishap::Errno(libc::EAGAIN));
        assert!((0..PAGES).all(|page| bench.page(page) == Ok(true)));
        assert_eq!(bench.faults.struck(), 10);
    });
}

#[test]
fn a_device_without_memory_fails_reads_and_not_the_engine() {
    with_each_io("a_device_without_memory_fails_reads_and_not_the_engine", |io| {
        let bench = Bench::new(io);
        bench.faults.inject(0..256, 0..3, Mishap::Errno(libc::ENOMEM));
        let errors = (0..10).filter(|page| bench.page(page * 25) == Err(libc::ENOMEM)).count();
        assert!((1..=3).contains(&errors), "{errors}");
        assert!((0..PAGES).all(|page| bench.page(page) == Ok(true)));
    });
}

#[test]
fn a_read_ahead_that_hangs_holds_no_reader_of_other_pages_up() {
    with_each_io("a_read_ahead_that_hangs_holds_no_reader_of_other_pages_up", |io| {
        let bench = Bench::new(io);
        bench.faults.inject(8..64, 0..u32::MAX, Mishap::Hold);
        assert_eq!(bench.page(0), Ok(true));
        assert_eq!(bench.page(1), Ok(true));
        bench.faults.wait_held(1);
        for page in (70..PAGES).step_by(20) {
            assert_eq!(bench.page(page), Ok(true), "page {page}");
        }
        bench.faults.let_go();
        bench.faults.clear();
        assert!((0..PAGES).all(|page| bench.page(page) == Ok(true)));
    });
}

#[test]
fn an_engine_ends_while_a_device_hangs_and_the_test_tool_lets_go() {
    with_each_io("an_engine_ends_while_a_device_hangs_and_the_test_tool_lets_go", |io| {
        let bench = Bench::new(io);
        bench.faults.inject(8..256, 0..u32::MAX, Mishap::Hold);
        assert_eq!(bench.page(0), Ok(true));
        assert_eq!(bench.page(1), Ok(true));
        bench.faults.wait_held(1);
        let Bench { engine, file, faults, .. } = bench;
        drop((file, engine));
        assert_eq!(Arc::strong_count(&faults), 1, "nothing of the engine is left");
    });
}

#[test]
fn an_error_of_a_page_that_was_read_ahead_reaches_no_reader() {
    with_each_io("an_error_of_a_page_that_was_read_ahead_reaches_no_reader", |io| {
        let bench = Bench::new(io);
        // All but the pages that are asked for, which are tried again alone if they must be.
        bench.faults.inject(2..PAGES as u64, 0..u32::MAX, Mishap::Errno(libc::EIO));
        for page in [0, 1, 0, 1] {
            assert_eq!(bench.page(page), Ok(true), "page {page}");
        }
        wait_until_idle(&bench.engine);
        let stats = bench.engine.counters().unwrap().path;
        assert!(stats.pages_ahead > 0 && bench.faults.struck() > 0, "{stats:?}");
        assert_eq!(stats.pages_failed, 0, "no reader was told of it");
        bench.faults.clear();
        assert!((0..PAGES).all(|page| bench.page(page) == Ok(true)));
    });
}

#[test]
fn an_error_in_the_middle_of_a_long_read_fails_it_and_no_other() {
    with_each_io("an_error_in_the_middle_of_a_long_read_fails_it_and_no_other", |io| {
        let bench = Bench::new(io);
        bench.faults.inject(50..51, 0..u32::MAX, Mishap::Errno(libc::EIO));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let bench = &bench;
                scope.spawn(move || {
                    let mut buffer = vec![0; 7 * PAGE];
                    for first in (thread..PAGES - 7).step_by(3) {
                        let read = bench.file.read_at(&mut buffer, (first * PAGE) as u64);
                        if (first..first + 7).contains(&50) {
                            assert!(
                                matches!(
                                    read,
                                    Err(ReadError { kind: ReadErrorKind::Io { .. }, .. })
                                ),
                                "{read:?}"
                            );
                        } else {
                            assert_eq!(read.unwrap(), buffer.len());
                            check(&buffer, first);
                        }
                    }
                });
            }
        });
        wait_until_idle(&bench.engine);
    });
}

/// Whether these are the pages from `first` on.
fn check(pages: &[u8], first: usize) {
    for (page, bytes) in (first..).zip(pages.chunks(PAGE)) {
        assert!(bytes.iter().all(|byte| usize::from(*byte) == page), "page {page}");
    }
}

/// A device that always ends early at the same page has no bytes there, whatever its size says.
#[test]
fn a_short_read_is_an_error_or_the_right_bytes_and_never_others() {
    with_each_io("a_short_read_is_an_error_or_the_right_bytes_and_never_others", |io| {
        let bench = Bench::new(io);
        for less in [1, 100, 4096, 5000, 100_000] {
            let page = less as usize % 97 + 40;
            bench.faults.clear();
            bench.faults.inject(page as u64..page as u64 + 1, 0..u32::MAX, Mishap::Short(less));
            bench.file.invalidate(0..u64::MAX).unwrap();
            let mut buffer = vec![0; 9 * PAGE];
            for first in 0..PAGES - 9 {
                match bench.file.read_at(&mut buffer, (first * PAGE) as u64) {
                    Ok(bytes) => {
                        assert_eq!(bytes, buffer.len());
                        // A request that went on behind the page lost nothing of it.
                        check(&buffer, first);
                    }
                    Err(ReadError { kind: ReadErrorKind::Short { len, .. }, .. }) => {
                        assert_eq!(len, (PAGES * PAGE) as u64);
                        assert!((first..first + 9).contains(&page), "{less} fewer, page {first}");
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        }
        wait_until_idle(&bench.engine);
    });
}

#[test]
fn a_storm_of_tries_again_ends_and_one_without_an_end_is_an_error() {
    with_each_io("a_storm_of_tries_again_ends_and_one_without_an_end_is_an_error", |io| {
        let bench = Bench::new(io);
        for n in 0..30 {
            // Fifteen times, then it goes through: each request of its own page.
            bench.faults.inject(n * 8..n * 8 + 1, 0..15, Mishap::Errno(libc::EAGAIN));
        }
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let bench = &bench;
                scope.spawn(move || {
                    for page in (thread..PAGES).step_by(4) {
                        assert_eq!(bench.page(page), Ok(true), "page {page}");
                    }
                });
            }
        });
        bench.file.invalidate(0..u64::MAX).unwrap();
        bench.faults.clear();
        bench.faults.inject(7..8, 0..u32::MAX, Mishap::Errno(libc::EINTR));
        assert_eq!(bench.page(7), Err(libc::EINTR));
        assert_eq!(bench.page(6), Ok(true));
        wait_until_idle(&bench.engine);
    });
}

#[test]
fn a_device_that_answers_late_is_waited_for_by_all_readers_of_its_page() {
    with_each_io("a_device_that_answers_late_is_waited_for_by_all", |io| {
        let bench = Bench::new(io);
        bench.faults.inject(100..101, 0..1, Mishap::Hold);
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| assert_eq!(bench.page(100), Ok(true)));
            }
            bench.faults.wait_held(1);
            for page in [5, 200] {
                assert_eq!(bench.page(page), Ok(true), "others go on meanwhile");
            }
            bench.faults.let_go();
        });
        wait_until_idle(&bench.engine);
        let Bench { engine, file, faults, .. } = bench;
        drop((file, engine));
        wait_until_closed(&faults);
    });
}
