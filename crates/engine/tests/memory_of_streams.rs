//! A thousand streams in one engine have one bound together.
//!
//! A process of its own, so that what is measured is the engine's.

mod allocations;
mod common;
mod hang;
mod support;

use std::fs;

use allocations::{allocated_bytes, memory_of};
use foreread::{Engine, File};
use support::{PAGE, Random, wait_until_idle, with_each_io};
use tempfile::TempDir;

const BOUND: u64 = 64 << 20;

/// What the process may allocate beside the bound: 8 KiB for each stream, and what `memory.rs`
/// says.
const BESIDE: u64 = 9 << 20;

const TERABYTE: u64 = 1 << 40;

/// Each stream has a window of its own, and all of them together have no more than the bound: what
/// does not fit is read in smaller windows, or later.
#[test]
fn a_thousand_streams_in_turns_take_no_more_than_the_bound() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("sparse");
    fs::File::create(&path).unwrap().set_len(TERABYTE).unwrap();
    with_each_io("a_thousand_streams_in_turns", |io| {
        let before = allocated_bytes();
        let engine = Engine::builder().memory(BOUND).io_backend(io).build().unwrap();
        let file = engine.open(&path).unwrap();
        let streams: Vec<_> = (0..1000).map(|_| file.stream()).collect();
        let mut buffer = [1; 8192];
        for turn in 0..40 {
            for (number, stream) in (0..).zip(&streams) {
                let offset = number * (TERABYTE / 1000) / PAGE * PAGE + turn * 8192;
                assert_eq!(stream.read_at(&mut buffer, offset).unwrap(), buffer.len());
                assert!(buffer.iter().all(|byte| *byte == 0));
            }
        }
        read_all_over(&file);
        wait_until_idle(&engine);
        let grown = memory_of(&engine, before);
        assert!(grown <= BOUND + BESIDE, "{grown} bytes for a bound of {BOUND}");
        let stats = engine.counters().unwrap().path;
        assert!(stats.pages_ahead > 0, "{stats:?}");
    });
}

fn read_all_over(file: &File) {
    let (mut random, mut buffer) = (Random(1), [0; 20_000]);
    for _ in 0..10_000 {
        let offset = random.below(TERABYTE);
        let room = usize::try_from(random.below(20_000)).expect("it is small");
        file.read_at(&mut buffer[..room], offset).unwrap();
    }
}
