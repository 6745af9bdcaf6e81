//! Full file systems: each write and each flush completes, every page that fits is written, and
//! data covered by a successful flush is on the device.
//!
//! In:    real file systems with little space, and devices that refuse on command.
//! Out:   errors that are ENOSPC; bytes.
//! Never: a claim about time, except by the watchdog.

#![allow(clippy::cast_possible_truncation, reason = "files of tests are small")]

use crate::common;
use crate::little_room;
use crate::recorded;
use crate::support;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::scratch;
use foreread::testing::{Faults, Mishap};
use foreread::{
    Engine, EngineBuilder, File, IoBackend, OpenOptions, WriteError, WriteErrorKind, WriteMode,
};
use little_room::with_little_room;
use recorded::recorded;
use support::with_each_io;
use tempfile::TempDir;

const MIB: u64 = 1 << 20;
const PIECE: usize = 64 << 10;
/// Of the sparse file: eight times what there is room for.
const LEN: u64 = 32 * MIB;
const ROOM: u64 = 4 * MIB;

fn builder(io: IoBackend) -> EngineBuilder {
    Engine::builder().memory(8 * MIB).dirty_age(Duration::from_millis(200)).io_backend(io)
}

fn errno_of(error: &WriteError) -> Option<i32> {
    let WriteErrorKind::Io { source, .. } = &error.kind else { return None };
    source.raw_os_error()
}

fn is_full(error: &WriteError) -> bool {
    errno_of(error) == Some(libc::ENOSPC)
}

fn piece(number: u64) -> Vec<u8> {
    vec![number as u8 | 1; PIECE]
}

fn pieces_of(path: &Path, numbers: std::ops::Range<u64>) {
    let bytes = fs::read(path).unwrap();
    for number in numbers {
        let at = number as usize * PIECE;
        assert!(bytes[at..at + PIECE] == piece(number), "piece {number}");
    }
}

/// Fills a sparse file until there is no room, and makes room again.
fn overflows(path: &Path, spare: &Path, io: IoBackend) {
    fs::File::create(path).unwrap().set_len(LEN).unwrap();
    let engine = recorded(builder(io));
    let options = OpenOptions::new().write(true);
    let file = engine.open_with(path, &options).unwrap();
    let write =
        |number: u64, mode| file.write_all_at_with(&piece(number), number * PIECE as u64, mode);

    let flushed = ROOM / 2 / PIECE as u64;
    (0..flushed).for_each(|number| write(number, WriteMode::WriteBack).expect("room"));
    file.sync_data().expect("room");
    pieces_of(path, 0..flushed);

    let mut written = flushed..flushed;
    while written.end < LEN / PIECE as u64 {
        match write(written.end, WriteMode::WriteBack) {
            Ok(()) => written.end += 1,
            Err(error) => {
                assert!(is_full(&error), "{error}");
                break;
            }
        }
    }
    for _ in 0..3 {
        let error = file.sync_data().expect_err("there is no room");
        assert!(is_full(&error), "{error}");
    }
    let last = LEN / PIECE as u64 - 1;
    let error = write(last, WriteMode::Fua).expect_err("there is no room");
    assert!(is_full(&error), "{error}");
    pieces_of(path, 0..flushed);

    // XFS frees the blocks of a removed file in the background, but those of a shortened one at
    // once.
    fs::File::options().write(true).open(spare).unwrap().set_len(0).unwrap();
    fs::remove_file(spare).unwrap();
    file.sync_data().expect("there is room again");
    pieces_of(path, 0..written.end);
    drop(file);
}

fn on_a_full_file_system(test: &str, make: &'static [&'static str], bytes: u64) {
    with_little_room(test, Some(make), (bytes, ROOM), overflows);
}

/// Extents of many small blocks: each refusal costs a commit of the journal.
#[test]
fn a_full_ext4_with_small_blocks() {
    let make = &["mkfs.ext4", "-q", "-m", "0", "-b", "1024"];
    on_a_full_file_system("a_full_ext4_with_small_blocks", make, 24 * MIB);
}

#[test]
fn a_full_ext4() {
    let make = &["mkfs.ext4", "-q", "-m", "0", "-b", "4096"];
    on_a_full_file_system("a_full_ext4", make, 32 * MIB);
}

#[test]
fn a_full_xfs() {
    on_a_full_file_system("a_full_xfs", &["mkfs.xfs", "-q"], 320 * MIB);
}

#[test]
fn a_full_tmpfs() {
    with_little_room("a_full_tmpfs", None, (16 * MIB, ROOM), overflows);
}

/// A file whose device refuses all writes from page 100 on.
fn refusing(errno: i32, io: IoBackend) -> (recorded::Recorded, File, Arc<Faults>, TempDir) {
    let dir = TempDir::new_in(scratch()).unwrap();
    let path = dir.path().join("file");
    fs::write(&path, vec![0; LEN as usize]).unwrap();
    // No page that failed is tried again because time has passed: requests are counted.
    let engine = recorded(builder(io).dirty_age(Duration::from_secs(1 << 30)));
    let faults = Arc::new(Faults::default());
    faults.inject_writes(100..LEN / 4096, 0..u32::MAX, Mishap::Errno(errno));
    let options = OpenOptions::new().write(true).faults(Arc::clone(&faults));
    let file = engine.open_with(&path, &options).unwrap();
    (engine, file, faults, dir)
}

/// A quota, a file system that was remounted, a device that is gone: no error goes away by being
/// tried again, and each flush costs the device a bounded number of requests.
#[test]
fn errors_that_stay_cost_each_flush_few_requests() {
    with_each_io("errors_that_stay_cost_each_flush_few_requests", |io| {
        for errno in [libc::EDQUOT, libc::EROFS, libc::ENODEV, libc::ENXIO, libc::EIO] {
            let (_engine, file, faults, _dir) = refusing(errno, io);
            file.write_all_at(&[1; 4096], 0).expect("memory");
            for page in (100..800).step_by(2) {
                let written = file.write_all_at(&[2; 4096], page * 4096);
                written.expect("memory");
            }
            // The first flush counts anew when page 0 is taken, which may be after 31 refusals.
            for before_page_0 in [31, 0, 0] {
                let before = faults.struck();
                let error = file.sync_data().expect_err("it refuses");
                assert_eq!(errno_of(&error), Some(errno), "{error}");
                let requests = faults.struck() - before;
                // 32 in a row, and those queued meanwhile.
                assert!(requests <= before_page_0 + 32 + 64, "{requests} requests");
            }
            faults.clear();
            file.sync_data().expect("all is well");
        }
    });
}
