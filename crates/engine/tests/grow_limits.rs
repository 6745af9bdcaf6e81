//! What a process may not have: files beyond `ulimit -f`, more descriptors than `ulimit -n`. One
//! test, in a process of its own, as limits are the process's.
//!
//! In:    limits that are lowered and raised again.
//! Out:   errors that name the limit; files as they were.
//! Never: a signal: the kernel's answer to a file that is too long ends a process.

#![cfg(not(miri))]

mod common;
mod hang;
mod recorded;
mod support;

use std::fs;
use std::path::Path;

use foreread::{Engine, IoBackend, OpenOptions, WriteErrorKind, WriteMode};
use recorded::recorded;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::with_each_io;
use tempfile::TempDir;

#[test]
fn limits_of_the_process_are_errors_and_leave_files_as_they_were() {
    with_each_io("limits_of_the_process", |io| {
        let dir = TempDir::new_in(common::scratch()).expect("a directory");
        a_file_that_may_not_be_so_long(&dir.path().join("long"), io);
        a_file_that_cannot_be_opened_is_not_left(&dir.path().join("new"), io);
    });
}

fn with_limit(resource: Resource, limit: u64, run: impl FnOnce()) {
    let before = getrlimit(resource);
    setrlimit(resource, Rlimit { current: Some(limit), maximum: before.maximum }).expect("lower");
    run();
    setrlimit(resource, before).expect("its length is unchanged");
}

fn a_file_that_may_not_be_so_long(path: &Path, io: IoBackend) {
    let engine = recorded(Engine::builder().memory(1 << 20).io_backend(io));
    let options = OpenOptions::new().write(true).create_new(true);
    let file = engine.open_with(path, &options).expect("it is made");
    file.append(&[1; 9000]).expect("room");
    with_limit(Resource::Fsize, 10_000, || {
        file.append(&[2; 1000]).expect("up to the limit");
        for refused in [
            file.append(&[3]).map(drop),
            file.set_len(10_001),
            file.write_all_at(&[3; 4096], 8192),
            file.write_all_at_with(&[3; 4096], 1 << 20, WriteMode::Fua),
        ] {
            let error = refused.expect_err("beyond the limit");
            assert!(matches!(error.kind, WriteErrorKind::Length { .. }), "{error}");
            assert!(error.to_string().contains("ulimit -f"), "{error}");
            assert_eq!(file.len(), 10_000);
        }
        file.set_len(9500).expect("shorter is no matter");
        file.write_all_at(&[4; 500], 9500).expect("up to the limit");
        file.sync_data().expect("room");
    });
    assert_eq!(file.append(&[5; 4]).expect("there is no limit"), 10_000);
    drop(file);
    let want = [&[1; 9000][..], &[2; 500], &[4; 500], &[5; 4]].concat();
    assert!(fs::read(path).expect("it is there") == want);
}

fn a_file_that_cannot_be_opened_is_not_left(path: &Path, io: IoBackend) {
    let engine = recorded(Engine::builder().memory(1 << 20).io_backend(io));
    let options = OpenOptions::new().write(true).create_new(true);
    // From the first limit on at which it can be opened, it is.
    let refused = (3..).take_while(|&limit| {
        let mut is_refused = true;
        with_limit(Resource::Nofile, limit, || match engine.open_with(path, &options) {
            Ok(_) => is_refused = false,
            Err(error) => {
                assert!(error.to_string().contains("ulimit -n"), "{error}");
                assert!(!path.exists(), "if it was made, it is not left");
            }
        });
        is_refused
    });
    // To make it takes one descriptor, to open it two at a time.
    assert!(refused.count() >= 2);
    assert!(path.exists());
}
