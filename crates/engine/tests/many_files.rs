//! Ten thousand open files in one engine: each is read, each costs little, and closing gives it
//! back.
//!
//! A process of its own, so that the memory and the descriptors that are measured are the engine's.
//! Memory is what was allocated, to the byte: pages that are resident depend on the arenas and the
//! rounding of the allocator, and on how many threads were in it at once.

#![allow(clippy::cast_possible_truncation, reason = "offsets are drawn from words")]

mod allocations;
mod common;
mod hang;
mod support;

use std::fs;
use std::path::PathBuf;

use allocations::allocated_bytes;
use common::{output, scratch, skip};
use foreread::{Engine, File};
use support::{Random, fill, read_and_check, wait_until_idle, with_each_io};
use tempfile::TempDir;

use crate::common::Command;

const TEST: &str = "ten_thousand_files_are_open_and_read_and_closed";

const FILES: u64 = 10_000;

/// Those that stay open while the others are closed and opened again.
const SOME: usize = 9000;

/// For the test's own files, and the ring.
const DESCRIPTORS: u64 = FILES + 100;

const MEMORY: u64 = 4 << 20;

/// What an open file may cost beside its descriptor: 6.5 KB with the stream of one thread (the
/// handles, slots in the core, the first level of its page table, what its policy remembers, and,
/// where each file is a device of its own to the engine (tmpfs, overlay), that device's model and
/// the queue of its scheduler), and another stream for each other thread that reads it.
const PER_FILE: u64 = 8700;

/// What tables keep of room they once needed, for all files together.
const BESIDE: u64 = 1 << 20;

#[test]
#[ignore = "slow: closing ten thousand files takes half a minute without optimization"]
fn ten_thousand_files_are_open_and_read_and_closed() {
    if let Err(reason) = raise_limit() {
        skip(TEST, &reason);
        return;
    }
    let dir = TempDir::new_in(scratch()).unwrap();
    let paths: Vec<_> = (0..FILES).map(|file| small_file(&dir, file)).collect();
    with_each_io(TEST, |io| {
        let engine = Engine::builder().memory(MEMORY).io_backend(io).build().unwrap();
        let open = |files: std::ops::Range<usize>| -> Vec<File> {
            paths[files].iter().map(|path| engine.open(path).unwrap()).collect()
        };
        let mut files = open(0..1000);
        read_all(&files, 0);
        wait_until_idle(&engine);
        let (few, descriptors) = (allocated_bytes(), open_descriptors());

        files.extend(open(1000..paths.len()));
        read_all(&files, 0);
        read_at_random(&files);
        wait_until_idle(&engine);
        assert_eq!(open_descriptors(), descriptors + paths.len() - 1000);
        let a_file = allocated_bytes().saturating_sub(few) / (FILES - 1000);
        println!("{io:?}: {a_file} bytes a file");
        assert!(a_file <= PER_FILE, "{a_file} bytes a file, at most {PER_FILE}");

        // What a file cost is there for the next, and no descriptor stays open.
        let mut after_closing = Vec::new();
        for _ in 0..2 {
            drop(files.split_off(SOME));
            wait_until_idle(&engine);
            assert_eq!(open_descriptors(), descriptors + SOME - 1000);
            after_closing.push(allocated_bytes());
            files.extend(open(SOME..paths.len()));
            read_all(&files[SOME..], SOME as u64);
        }
        let again = after_closing[1].saturating_sub(after_closing[0]);
        assert!(again <= BESIDE, "{again} bytes more the second time");
        drop(files);
        wait_until_idle(&engine);
        assert_eq!(open_descriptors(), descriptors - 1000);
    });
}

/// All of them may be read at the same time, too, by threads that share nothing but the engine.
fn read_at_random(files: &[File]) {
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                let mut random = Random(thread << 32);
                for _ in 0..2000 {
                    let number = random.below(FILES);
                    let offset = random.below(len(number));
                    read_and_check(&files[number as usize], number, &mut [0; 1000], offset);
                }
            });
        }
    });
}

fn read_all(files: &[File], first: u64) {
    let mut buffer = [0; 8192];
    for (number, file) in (first..).zip(files) {
        let got = read_and_check(file, number, &mut buffer, 0);
        assert_eq!(got as u64, len(number).min(buffer.len() as u64));
    }
}

fn len(file: u64) -> u64 {
    1 + file % 9000
}

fn small_file(dir: &TempDir, file: u64) -> PathBuf {
    let path = dir.path().join(file.to_string());
    let mut content = vec![0; len(file) as usize];
    fill(file, 0, &mut content);
    fs::write(&path, content).unwrap();
    path
}

/// Allows this process as many descriptors as it may have.
fn raise_limit() -> Result<(), String> {
    let (soft, hard) = descriptor_limits();
    if hard < DESCRIPTORS {
        return Err(format!(
            "a process may have {hard} descriptors (ulimit -Hn), not {DESCRIPTORS}"
        ));
    }
    if soft < DESCRIPTORS {
        let (pid, limit) = (std::process::id().to_string(), format!("--nofile={hard}:{hard}"));
        output(Command::new("prlimit").args(["--pid", &pid, &limit]))?;
    }
    Ok(())
}

/// The soft and the hard limit; no limit is a large number.
fn descriptor_limits() -> (u64, u64) {
    let limits = fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let mut words = line.split_whitespace().map(|word| word.parse().unwrap_or(u64::MAX));
    (words.next().unwrap(), words.next().unwrap())
}

fn open_descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}
