//! One bound for all pages, cached and on their way, and for what is needed to find them.
//!
//! A process of its own, so that what is measured is the engine's.

use std::fs;

use foreread::Engine;
use tempfile::TempDir;

/// What the process may grow by beside the bound: the ring, stacks, the allocator's rounding, and
/// huge pages that are only partly in use.
const BESIDE: u64 = 8 << 20;

const BOUND: u64 = 64 << 20;

fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[test]
fn memory_is_taken_as_it_fills_and_never_beyond_the_bound() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("sparse");
    fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
    let mut buffer = vec![0; 1 << 20];
    buffer.fill(1);

    let before = resident_bytes();
    let engine = Engine::builder().memory(BOUND).build().unwrap();
    let file = engine.open(&path).unwrap();
    let empty = resident_bytes() - before;
    assert!(empty < BESIDE, "{empty} bytes before the first read");

    // The worst case for the page table: over a file of a terabyte, no two pages are neighbours.
    for i in 0..30_000_u64 {
        let offset = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24 & !4095;
        file.read_at(&mut buffer[..4096], offset).unwrap();
    }
    let scattered = resident_bytes() - before;
    assert!(scattered <= BOUND + BESIDE, "{scattered} bytes for a bound of {BOUND}");

    // And the best: as many pages as there are frames, one after the other.
    for offset in (0..4 * BOUND).step_by(buffer.len()) {
        file.read_at(&mut buffer, offset).unwrap();
    }
    let dense = resident_bytes() - before;
    assert!(dense <= BOUND + BESIDE, "{dense} bytes for a bound of {BOUND}");
    assert!(dense > BOUND / 2, "the memory that was given is used");
}
