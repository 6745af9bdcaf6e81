//! Files whose length cannot be changed: the system refuses to grow one, or to cut off what a
//! failed append has left.
//!
//! In:    real files, each kind of ring, by threads and by tasks.
//! Out:   errors, lengths and bytes; what flushes say afterwards.
//! Never: a file system that is full: that is in `grow_full.rs`.

#![allow(clippy::cast_possible_truncation, reason = "files of tests are small")]

use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use crate::common;
use crate::recorded;
use crate::support;

use foreread::testing::{Faults, Mishap};
use foreread::{Engine, File, IoBackend, OpenOptions, WriteError, WriteErrorKind, WriteMode};
use recorded::{Recorded, recorded};
use support::with_each_io;
use tempfile::TempDir;

const EIO: Mishap = Mishap::Errno(libc::EIO);
const ALWAYS: Range<u32> = 0..u32::MAX;
const OLD: usize = 5000;
const MORE: usize = 600_000;

/// A file of `OLD` ones that is written through, and a device under it that fails as told.
struct Bench {
    _engine: Recorded,
    options: OpenOptions,
    file: File,
    faults: Arc<Faults>,
    path: PathBuf,
    _dir: TempDir,
}

impl Bench {
    fn new(io: IoBackend) -> Self {
        let dir = TempDir::new_in(common::scratch()).expect("a directory");
        let path = dir.path().join("file");
        fs::write(&path, [1; OLD]).expect("a file");
        let engine = recorded(Engine::builder().memory(1 << 20).io_backend(io));
        let faults = Arc::new(Faults::default());
        let options = OpenOptions::new().write(true).write_mode(WriteMode::WriteThrough);
        let options = options.faults(Arc::clone(&faults));
        let file = engine.open_with(&path, &options).expect("it is there");
        Self { _engine: engine, options, file, faults, path, _dir: dir }
    }
}

/// Checks that a change of length was refused with EIO.
fn is_refused(error: &WriteError) {
    let WriteErrorKind::Length { source, .. } = &error.kind else { panic!("{error}") };
    assert_eq!(source.raw_os_error(), Some(libc::EIO));
}

/// Checks that a flush reports a loss by EIO.
fn is_lost(flushed: Result<(), WriteError>) {
    match flushed {
        Err(WriteError { kind: WriteErrorKind::Lost { source, .. }, .. }) => {
            assert_eq!(source.raw_os_error(), Some(libc::EIO));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_failed_append_that_cannot_be_cut_off_is_a_loss() {
    with_each_io("a_failed_append_that_cannot_be_cut_off", |io| {
        let bench = Bench::new(io);
        bench.faults.inject_writes(30..31, ALWAYS, EIO);
        // The first change is the append's own; the second one cuts off its rest.
        bench.faults.inject_lengths(1..2, EIO);
        let error = bench.file.append(&vec![2; MORE]).expect_err("the device refuses page 30");
        assert!(matches!(error.kind, WriteErrorKind::Io { .. }), "{error}");
        // It waits for the cut, and comes behind what could not be cut off.
        let at = bench.file.append(&[3; 5000]).expect("the file may grow");
        assert_eq!(at as usize, OLD + MORE);

        bench.faults.clear();
        is_lost(bench.file.sync_data());
        is_lost(bench.file.sync_data());
        assert_eq!((bench.file.has_lost().ok(), bench.file.losses().ok()), (Some(true), Some(1)));
        bench.file.accept_lost().expect("no fork");
        bench.file.sync_data().expect("the device takes it, and the loss is accepted");

        let bytes = fs::read(&bench.path).expect("it is there");
        assert_eq!(bytes.len(), OLD + MORE + 5000);
        let written = bytes[OLD..].iter().position(|&byte| byte != 2).expect("it ends");
        assert!((30 * 4096..OLD + MORE).contains(&(OLD + written)), "{written}");
        let rest = vec![0; MORE - written];
        let want = [vec![1; OLD], vec![2; written], rest, vec![3; 5000]].concat();
        assert!(bytes == want, "what was not written reads as zeros, nothing else has changed");
    });
}

#[test]
fn a_length_that_is_refused_changes_nothing() {
    with_each_io("a_length_that_is_refused_changes_nothing", |io| {
        let bench = Bench::new(io);
        bench.faults.inject_lengths(0..4, EIO);
        let is_as_it_was = || {
            let on_disk = fs::metadata(&bench.path).expect("it is there").len();
            assert_eq!((bench.file.len(), on_disk), (OLD as u64, OLD as u64));
        };
        is_refused(&bench.file.append(&[2; 9000]).expect_err("refused"));
        is_as_it_was();
        is_refused(&bench.file.write_all_at(&[2; 9000], 70_000).expect_err("refused"));
        is_as_it_was();
        is_refused(&bench.file.set_len(100).expect_err("refused"));
        is_as_it_was();
        is_refused(&bench.file.set_len(100_000).expect_err("refused"));
        is_as_it_was();
        bench.file.sync_data().expect("nothing is lost");
        assert_eq!(bench.file.append(&[3; 100]).expect("the file may grow"), OLD as u64);
        bench.file.sync_data().expect("nothing is lost");
        let bytes = fs::read(&bench.path).expect("it is there");
        assert!(bytes == [vec![1; OLD], vec![3; 100]].concat(), "{} bytes", bytes.len());
    });
}

/// The loss belongs to the open file: a program that opens it again sees it as it is.
#[test]
fn a_file_that_is_opened_again_has_no_loss() {
    with_each_io("a_file_that_is_opened_again_has_no_loss", |io| {
        let Bench { _engine: engine, options, file, faults, path, _dir } = Bench::new(io);
        faults.inject_writes(30..31, ALWAYS, EIO);
        faults.inject_lengths(1..2, EIO);
        file.append(&vec![2; MORE]).expect_err("the device refuses page 30");
        file.append(&[3; 5000]).expect("the file may grow");
        faults.clear();
        is_lost(file.sync_data());
        drop(file);
        let file = engine.open_with(&path, &options).expect("it is there");
        file.sync_data().expect("nothing is lost since it was opened");
        assert_eq!(file.len() as usize, OLD + MORE + 5000);
    });
}
