//! The page at the end of a file that grows: it stays in the cache, and is right.
//!
//! In:    small files, and memory that has held other bytes before.
//! Out:   the bytes behind the old end; what was asked of the device.
//! Never: a second opinion on lengths: that is `grow.rs`.

#![allow(clippy::cast_possible_truncation, reason = "files of tests are small")]

use std::fs;

use crate::common;
use crate::recorded;
use crate::support;

use foreread::{Engine, OpenOptions};
use recorded::recorded;
use support::with_each_io;
use tempfile::TempDir;

/// A read fills only as much of its frame as the file has. What was there before was found when
/// the file had grown.
#[test]
fn behind_the_old_end_are_zeros_and_not_what_the_frame_held_before() {
    with_each_io("behind_the_old_end", |io| {
        let dir = TempDir::new_in(common::scratch()).expect("a directory");
        for buffered in [false, true] {
            let engine = recorded(Engine::builder().memory(1 << 20).io_backend(io));
            let (large, small) = (dir.path().join("large"), dir.path().join("small"));
            fs::write(&large, vec![0xff; 3 << 20]).expect("a file");
            fs::write(&small, vec![1; 5_000]).expect("a file");
            let options = OpenOptions::new().write(true).buffered(buffered);
            let mut all = vec![0; 3 << 20];
            let large = engine.open_with(&large, &options).expect("it is there");
            assert_eq!(large.read_at(&mut all, 0).expect("bytes"), 3 << 20);

            let file = engine.open_with(&small, &options).expect("it is there");
            let mut got = vec![0xee; 20_000];
            assert_eq!(file.read_at(&mut got, 0).expect("bytes"), 5_000);
            let reads = engine.counters().expect("no fork").path.device_reads;
            file.set_len(8_000).expect("room");
            assert_eq!(file.read_at(&mut got, 0).expect("bytes"), 8_000);
            assert!(got[..5_000].iter().all(|&byte| byte == 1));
            assert!(got[5_000..8_000].iter().all(|&byte| byte == 0), "buffered: {buffered}");
            let now = engine.counters().expect("no fork").path.device_reads;
            assert_eq!(now, reads, "all of it was in memory");
        }
    });
}

/// It was forgotten, and each group commit of a log cost a read.
#[test]
fn an_append_after_a_flush_reads_nothing() {
    with_each_io("an_append_after_a_flush", |io| {
        let dir = TempDir::new_in(common::scratch()).expect("a directory");
        let engine = recorded(Engine::builder().memory(1 << 20).io_backend(io));
        let options = OpenOptions::new().append(true).create(true);
        let path = dir.path().join("log");
        let log = engine.open_with(&path, &options).expect("it is made");
        let mut want = Vec::new();
        for number in 0..200_u32 {
            let record = vec![number as u8 | 1; 100 + number as usize];
            assert_eq!(log.append(&record).expect("room"), want.len() as u64);
            want.extend_from_slice(&record);
            log.sync_data().expect("room");
        }
        assert_eq!(engine.counters().expect("no fork").path.device_reads, 0);
        assert!(fs::read(&path).expect("it is there") == want);
    });
}
