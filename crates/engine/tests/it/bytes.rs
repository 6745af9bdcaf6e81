//! The bytes read are the file's bytes: in every order, by every policy, with little memory and
//! with much, from one thread and from many.

#![allow(clippy::cast_possible_truncation, reason = "offsets are drawn from words")]

use crate::recorded;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use foreread::{Engine, File, OpenOptions, Policy};
use recorded::{Recorded, recorded};
use tempfile::TempDir;

/// Ends in the middle of a page, and is larger than the smallest cache.
const LEN: usize = (5 << 20) + 1234;

/// Bytes that no two pages share.
fn content(len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (mix(at / 8) >> (at % 8 * 8)) as u8).collect()
}

/// A number that looks random, from one that does not.
fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn engine(memory: u64, policy: Policy) -> Recorded {
    recorded(Engine::builder().memory(memory).policy(policy))
}

/// Reads `count` pieces at offsets and of lengths that the seed gives, and compares each.
fn read_at_random(file: &File, want: &[u8], seed: u64, count: u64) {
    let mut buffer = vec![0; 300_000];
    for i in 0..count {
        let offset = (mix(seed + 2 * i) % (want.len() as u64 + 1)) as usize;
        // Mostly small, sometimes larger than any window.
        let most = if i % 16 == 0 { buffer.len() } else { 9000 };
        let len = (mix(seed + 2 * i + 1) as usize) % most;
        let got = file.read_at(&mut buffer[..len], offset as u64).unwrap();
        let end = want.len().min(offset + len);
        assert!(buffer[..got] == want[offset..end], "{len} bytes at {offset}, seed {seed}");
    }
}

fn read_in_order(file: &File, want: &[u8], piece: usize) {
    let stream = file.stream();
    let mut buffer = vec![0; piece];
    let mut offset = 0;
    while offset < want.len() {
        let got = stream.read_at(&mut buffer, offset as u64).unwrap();
        let end = want.len().min(offset + piece);
        assert!(buffer[..got] == want[offset..end], "{piece} bytes at {offset}");
        offset += got;
    }
    assert_eq!(stream.read_at(&mut buffer, offset as u64).unwrap(), 0, "the end is the end");
}

fn check_everything(path: &Path, want: &[u8], options: &OpenOptions) {
    for memory in [1 << 20, 64 << 20] {
        for policy in Policy::ALL {
            let engine = engine(memory, policy);
            let file = engine.open_with(path, options).unwrap();
            assert_eq!(file.len(), want.len() as u64);
            for piece in [777, 4096, 65536, 3_000_000] {
                read_in_order(&file, want, piece);
            }
            read_at_random(&file, want, 1, 500);
        }
    }
}

fn written(dir: &Path, want: &[u8]) -> PathBuf {
    let path = dir.join("file");
    let mut file = fs::File::create(&path).unwrap();
    file.write_all(want).unwrap();
    file.sync_all().unwrap();
    path
}

#[test]
fn on_the_file_system_of_the_temporary_directory() {
    let (dir, want) = (TempDir::new().unwrap(), content(LEN));
    let path = written(dir.path(), &want);
    check_everything(&path, &want, &OpenOptions::default());
}

#[test]
fn through_the_page_cache() {
    let (dir, want) = (TempDir::new().unwrap(), content(LEN));
    let path = written(dir.path(), &want);
    let options = OpenOptions::new().buffered(true);
    let file = engine(1 << 20, Policy::Linux6).open_with(&path, &options).unwrap();
    assert_eq!(file.direct_io_unavailable(), Some("as asked"));
    check_everything(&path, &want, &options);
}

#[test]
fn behind_a_delay() {
    let (dir, want) = (TempDir::new().unwrap(), content(600_000));
    let path = written(dir.path(), &want);
    let delay = Some("latency=200us,parallel=2,bandwidth=1G".parse().unwrap());
    let options = OpenOptions::new().delay(delay);
    let file = engine(1 << 20, Policy::Linux6).open_with(&path, &options).unwrap();
    read_in_order(&file, &want, 4096);
    read_at_random(&file, &want, 5, 200);
}

#[test]
fn sparse_files_and_files_of_every_small_size() {
    let dir = TempDir::new().unwrap();
    let engine = engine(1 << 20, Policy::Linux6);
    for len in [1, 511, 512, 513, 4095, 4096, 4097, 8191, 8192, 8193, 12288] {
        let want = content(len);
        let path = written(dir.path(), &want);
        let file = engine.open(&path).unwrap();
        read_in_order(&file, &want, 1000);
        read_at_random(&file, &want, len as u64, 50);
    }
    let path = dir.path().join("sparse");
    let file = fs::File::create(&path).unwrap();
    file.set_len(100 << 30).unwrap();
    let file = engine.open(&path).unwrap();
    let mut buffer = [1; 4096];
    for page in [0, 1, 26_214_399, 13_000_000] {
        assert_eq!(file.read_at(&mut buffer, page * 4096).unwrap(), 4096);
        assert_eq!(buffer, [0; 4096]);
        buffer.fill(1);
    }
}

#[test]
fn from_many_threads_with_less_memory_than_file() {
    let (dir, want) = (TempDir::new().unwrap(), content(LEN));
    let path = written(dir.path(), &want);
    for policy in [Policy::Linux6, Policy::Adaptive] {
        let engine = engine(2 << 20, policy);
        let file = engine.open(&path).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (file, want) = (file.clone(), &want);
                scope.spawn(move || {
                    if thread % 2 == 0 {
                        read_in_order(&file, want, 10_000 + thread);
                    } else {
                        read_at_random(&file, want, thread as u64 * 1000, 2000);
                    }
                });
            }
        });
    }
}
