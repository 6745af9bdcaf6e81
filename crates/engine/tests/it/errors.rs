//! What is wrong from outside is an error that says what to do: never a panic, a hang, wrong bytes.

use crate::common::Command;
use crate::recorded;

use std::error::Error;
use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;

use foreread::{Engine, EngineError, OpenError, OpenErrorKind, OpenOptions, ReadErrorKind};
use recorded::{Recorded, recorded};
use tempfile::TempDir;

fn engine() -> Recorded {
    recorded(Engine::builder().memory(1 << 20))
}

/// The error's text, which must be one line that says more than what happened.
fn said(error: &dyn Error) -> String {
    let text = error.to_string();
    assert!(!text.contains('\n') && text.len() > 20, "{text}");
    text
}

fn open(path: &Path) -> OpenError {
    engine().open(path).unwrap_err()
}

#[test]
fn files_without_pages_are_refused_without_blocking() {
    let dir = TempDir::new().unwrap();
    assert!(matches!(open(dir.path()), OpenError { kind: OpenErrorKind::Directory, .. }));

    let pipe = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let error = open(&pipe);
    assert!(matches!(error, OpenError { kind: OpenErrorKind::NoPages { kind: "pipe", .. }, .. }));
    assert!(said(&error).ends_with("give a file or a block device"));

    let socket = dir.path().join("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    assert!(matches!(
        open(&socket),
        OpenError { kind: OpenErrorKind::NoPages { kind: "socket", .. }, .. }
    ));
    assert!(matches!(
        open(Path::new("/dev/zero")),
        OpenError { kind: OpenErrorKind::NoPages { kind: "character device", .. }, .. }
    ));
}

/// Files of procfs have the length 0, and were read as empty ones.
#[test]
fn a_file_that_the_kernel_makes_up_is_not_taken_for_an_empty_one() {
    let error = open(Path::new("/proc/self/status"));
    assert!(said(&error).contains("is a file of procfs"), "{error}");
    if Path::new("/sys/kernel/uevent_seqnum").exists() {
        let error = open(Path::new("/sys/kernel/uevent_seqnum"));
        assert!(said(&error).contains("is a file of sysfs"), "{error}");
    }
}

#[test]
fn a_missing_file_is_an_error_and_an_empty_one_has_no_bytes_yet() {
    let dir = TempDir::new().unwrap();
    let error = open(&dir.path().join("none"));
    assert!(matches!(error, OpenError { kind: OpenErrorKind::NotFound, .. }));
    said(&error);

    let empty = dir.path().join("empty");
    fs::write(&empty, "").unwrap();
    let file = engine().open(&empty).unwrap();
    assert!(file.is_empty());
    let mut buffer = [0; 10];
    assert_eq!(file.read_at(&mut buffer, 0).unwrap(), 0);
    assert_eq!(file.read_at(&mut buffer, 1).unwrap(), 0);
    fs::write(&empty, "now").unwrap();
    assert_eq!(file.read_at(&mut buffer, 0).unwrap(), 3);
    assert_eq!(&buffer[..3], b"now");
}

#[test]
fn at_the_end_and_past_it_there_are_no_bytes() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, vec![7; 5000]).unwrap();
    let file = engine().open(&path).unwrap();
    let mut buffer = [0; 100];
    assert_eq!(file.read_at(&mut buffer, 4990).unwrap(), 10);
    assert_eq!(file.read_at(&mut buffer, 5000).unwrap(), 0);
    assert_eq!(file.read_at(&mut [], 3).unwrap(), 0);
    for offset in [5001, 1 << 40, u64::MAX] {
        assert_eq!(file.read_at(&mut buffer, offset).unwrap(), 0, "as std");
        let error = file.read_exact_at(&mut buffer, offset).unwrap_err();
        assert!(matches!(error.kind, ReadErrorKind::UnexpectedEnd { len: 5000, .. }));
        // A range or a pin has no other way to say so.
        let error = file.pin(offset).unwrap_err();
        assert!(matches!(error.kind, ReadErrorKind::PastEnd { len: 5000, .. }));
        assert!(said(&error).contains("the file has 5000 bytes"));
        let error = std::io::Error::from(error);
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    }
}

#[test]
fn a_bound_that_holds_no_window_is_refused_and_a_small_one_makes_windows_small() {
    for bound in [0, 4096, (1 << 20) - 1, u64::MAX] {
        let error = Engine::builder().memory(bound).build().unwrap_err();
        assert!(matches!(error, EngineError::Memory { .. }));
        assert!(said(&error).contains("1 MiB"));
    }
    let builder = || Engine::builder().max_window(1 << 20);
    let small = builder().memory(1 << 20).build().unwrap();
    assert!(small.max_window().unwrap() <= (1 << 20) / 8);
    assert!(
        small.max_window().unwrap() >= (1 << 20) / 8 * 3 / 4,
        "{}",
        small.max_window().unwrap()
    );
    let large = builder().memory(64 << 20).build().unwrap();
    assert_eq!(large.max_window().unwrap(), 1 << 20);
}

#[test]
fn a_file_that_shrinks_ends_where_it_ends_now() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("file");
    for buffered in [false, true] {
        fs::write(&path, vec![7; 1 << 20]).unwrap();
        let options = OpenOptions::new().buffered(buffered);
        let file = engine().open_with(&path, &options).unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_len(10_000).unwrap();
        let mut buffer = vec![0; 4096];
        assert_eq!(file.read_at(&mut buffer, 500_000).unwrap(), 0);
        assert_eq!(file.len(), 10_000);
        assert_eq!(file.read_at(&mut buffer, 0).unwrap(), 4096);
        assert_eq!(buffer, [7; 4096]);
        // Across what is left and what is not: nothing is made up.
        assert_eq!(file.read_at(&mut buffer, 8192).unwrap(), 10_000 - 8192);
        assert_eq!(buffer[..10_000 - 8192], [7; 10_000 - 8192]);
    }
}

#[test]
fn streams_and_files_may_end_in_any_order() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, vec![7; 1 << 20]).unwrap();
    let engine = engine();
    let mut buffer = [0; 4096];
    for round in 0..200 {
        let file = engine.open(&path).unwrap();
        let stream = file.stream();
        file.read_at(&mut buffer, 0).unwrap();
        drop(file);
        stream.read_at(&mut buffer, round * 4096).unwrap();
        assert_eq!(buffer, [7; 4096]);
    }
    drop(engine);
}

/// A bound that no machine has is an error, or a promise that is not called in; never an abort.
#[test]
fn memory_that_cannot_be_had_is_an_error() {
    match Engine::builder().memory(1000 << 30).build() {
        Ok(engine) => assert!(engine.max_window().unwrap() > 0),
        Err(error) => assert!(said(&error).contains("lower the memory bound")),
    }
}

/// Threads read files once more while they end, after their streams have ended.
#[test]
fn a_thread_that_ends_may_still_read() {
    struct ReadsAtTheEnd(foreread::File);

    impl Drop for ReadsAtTheEnd {
        fn drop(&mut self) {
            let mut buffer = [0; 100];
            assert_eq!(self.0.read_at(&mut buffer, 5000).unwrap(), 100);
            assert_eq!(buffer, [7; 100]);
        }
    }

    thread_local! {
        static LAST: std::cell::RefCell<Option<ReadsAtTheEnd>> = const { std::cell::RefCell::new(None) };
    }

    let dir = TempDir::new().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, vec![7; 1 << 20]).unwrap();
    let file = engine().open(&path).unwrap();
    let thread = std::thread::spawn(move || {
        // Made before the thread's streams, so it ends after them.
        LAST.set(Some(ReadsAtTheEnd(file.clone())));
        file.read_at(&mut [0; 100], 0).unwrap();
    });
    thread.join().unwrap();
}
