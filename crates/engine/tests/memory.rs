//! One bound for all pages, cached and on their way, and for what is needed to find them.
//!
//! A process of its own, so that what is measured is the engine's.

mod allocations;

use std::fs;

use allocations::{allocated_bytes, memory_of};
use foreread::Engine;
use tempfile::TempDir;

/// What the process may allocate beside the bound: threads, queues, the model of a device.
const BESIDE: u64 = 1 << 20;

const BOUND: u64 = 64 << 20;

#[test]
fn memory_never_goes_beyond_the_bound() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("sparse");
    fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
    let mut buffer = vec![0; 1 << 20];
    buffer.fill(1);

    let before = allocated_bytes();
    let engine = Engine::builder().memory(BOUND).build().unwrap();
    let file = engine.open(&path).unwrap();
    let empty = memory_of(&engine, before);
    assert!(empty <= BOUND + BESIDE, "{empty} bytes before the first read");

    // The worst case for the page table: over a file of a terabyte, no two pages are neighbours.
    for i in 0..30_000_u64 {
        let offset = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24 & !4095;
        file.read_at(&mut buffer[..4096], offset).unwrap();
    }
    let scattered = memory_of(&engine, before);
    assert!(scattered <= BOUND + BESIDE, "{scattered} bytes for a bound of {BOUND}");

    // And the best: as many pages as there are frames, one after the other.
    for offset in (0..4 * BOUND).step_by(buffer.len()) {
        file.read_at(&mut buffer, offset).unwrap();
    }
    let dense = memory_of(&engine, before);
    assert!(dense <= BOUND + BESIDE, "{dense} bytes for a bound of {BOUND}");
    assert!(dense > BOUND / 2, "the memory that was given is used");
}
