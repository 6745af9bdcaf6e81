//! Devices that fail on purpose: who waits for a page gets its error, and nobody else.

use std::fs;
use std::sync::Arc;

use foreread::{Engine, Faults, File, Mishap, OpenOptions, ReadError};
use tempfile::TempDir;

const PAGE: usize = 4096;
const PAGES: usize = 256;

/// A file whose page n is filled with n, and a device under it that fails as told.
struct Bench {
    engine: Engine,
    file: File,
    faults: Arc<Faults>,
    _dir: TempDir,
}

impl Bench {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("file");
        let byte = |at: usize| u8::try_from(at / PAGE).unwrap();
        fs::write(&path, (0..PAGES * PAGE).map(byte).collect::<Vec<u8>>()).unwrap();
        let engine = Engine::builder().memory(4 << 20).build().unwrap();
        let faults = Arc::new(Faults::default());
        let options = OpenOptions { faults: Some(Arc::clone(&faults)), ..OpenOptions::default() };
        let file = engine.open_with(&path, &options).unwrap();
        Self { engine, file, faults, _dir: dir }
    }

    /// Reads one page: whether it is right, or the error's number.
    fn page(&self, page: usize) -> Result<bool, i32> {
        let mut got = [0; PAGE];
        match self.file.read_at(&mut got, (page * PAGE) as u64) {
            Ok(bytes) => Ok(bytes == PAGE && got == [u8::try_from(page).unwrap(); PAGE]),
            Err(ReadError::Io { source, .. }) => Err(source.raw_os_error().unwrap()),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn one_bad_page_in_a_window_is_the_error_of_who_reads_it_and_of_no_neighbour() {
    let bench = Bench::new();
    bench.faults.inject(20..21, 0..u32::MAX, Mishap::Errno(libc::EIO));
    for page in 0..40 {
        let want = if page == 20 { Err(libc::EIO) } else { Ok(true) };
        assert_eq!(bench.page(page), want, "page {page}");
    }
    assert!(bench.engine.counters().path.pages_ahead > 0, "read ahead, so it was in a window");
}

#[test]
fn a_page_that_failed_is_read_again_when_asked_again() {
    let bench = Bench::new();
    bench.faults.inject(100..101, 0..1, Mishap::Errno(libc::EIO));
    assert_eq!(bench.page(100), Err(libc::EIO), "a lone page has no second try");
    assert_eq!(bench.page(100), Ok(true));
}

#[test]
fn a_device_that_ends_requests_early_costs_time_and_no_bytes() {
    let bench = Bench::new();
    for n in 0..20 {
        bench.faults.inject(0..256, n * 3..n * 3 + 1, Mishap::Short(5000));
    }
    for page in 0..PAGES {
        assert_eq!(bench.page(page), Ok(true), "page {page}");
    }
    assert!(bench.faults.struck() > 0);
}

#[test]
fn a_device_that_asks_to_try_again_is_tried_again() {
    let bench = Bench::new();
    bench.faults.inject(0..256, 0..10, Mishap::Errno(libc::EAGAIN));
    assert!((0..PAGES).all(|page| bench.page(page) == Ok(true)));
    assert_eq!(bench.faults.struck(), 10);
}

#[test]
fn a_device_without_memory_fails_reads_and_not_the_engine() {
    let bench = Bench::new();
    bench.faults.inject(0..256, 0..3, Mishap::Errno(libc::ENOMEM));
    let errors = (0..10).filter(|page| bench.page(page * 25) == Err(libc::ENOMEM)).count();
    assert!((1..=3).contains(&errors), "{errors}");
    assert!((0..PAGES).all(|page| bench.page(page) == Ok(true)));
}

#[test]
fn a_read_ahead_that_hangs_holds_nobody_up_who_reads_elsewhere() {
    let bench = Bench::new();
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
}

#[test]
fn an_engine_ends_while_a_device_hangs_and_the_test_tool_lets_go() {
    let bench = Bench::new();
    bench.faults.inject(8..256, 0..u32::MAX, Mishap::Hold);
    assert_eq!(bench.page(0), Ok(true));
    assert_eq!(bench.page(1), Ok(true));
    bench.faults.wait_held(1);
    let Bench { engine, file, faults, .. } = bench;
    drop((file, engine));
    assert_eq!(Arc::strong_count(&faults), 1, "nothing of the engine is left");
}
