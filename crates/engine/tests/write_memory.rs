//! What is written has the same bound as what is read.
//!
//! A process of its own, so that what is measured is the engine's.

mod allocations;

use std::fs;

use allocations::{allocated_bytes, memory_of};
use foreread::{Engine, OpenOptions};
use tempfile::TempDir;

mod common;

/// What the process may allocate beside the bound: threads, queues, the model of a device.
const BESIDE: u64 = 1 << 20;

const BOUND: u64 = 32 << 20;

#[test]
fn writes_never_exceed_the_memory_bound() {
    let dir = TempDir::new_in(common::scratch()).expect("a directory");
    let path = dir.path().join("sparse");
    fs::File::create(&path).expect("a file").set_len(1 << 30).expect("sparse");
    let piece = vec![1; 3 << 20];

    let before = allocated_bytes();
    let engine = Engine::builder().memory(BOUND).build().expect("an engine");
    let options = OpenOptions::new().write(true);
    let file = engine.open_with(&path, &options).expect("it is there");
    // One after the other, and scattered: the worst case for the page table.
    for round in 0..60 {
        file.write_all_at(&piece, round * piece.len() as u64).expect("room comes");
    }
    for page in 0..4000_u64 {
        let offset = page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 34 & !4095;
        file.write_all_at(&piece[..100], offset).expect("room comes");
    }
    file.sync_data().expect("the disk is fine");
    let after = memory_of(&engine, before);
    assert!(after <= BOUND + BESIDE, "{after} bytes for a bound of {BOUND}");
    assert!(after > BOUND / 4, "the memory that was given is used");
    assert_eq!(engine.counters().unwrap().dirty, 0);
}
