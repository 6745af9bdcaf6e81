//! Closed files give back what they took.
//!
//! A process of its own, so that what is measured is the engine's.

mod allocations;

use std::fs;

use allocations::allocated_bytes;
use foreread::Engine;
use tempfile::TempDir;

/// Closed files leave nothing: neither names in the page table nor the streams of the threads that
/// read them, which once stayed behind, a hundred bytes a file.
#[test]
fn a_closed_file_makes_room_for_another() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, vec![7; 10_000]).unwrap();
    let engine = Engine::builder().memory(1 << 20).build().unwrap();
    let mut buffer = [0; 100];
    let mut open_and_close = |times: u32| {
        for _ in 0..times {
            let file = engine.open(&path).unwrap();
            assert_eq!(file.read_at(&mut buffer, 9_950).unwrap(), 50);
        }
        allocated_bytes()
    };
    let before = open_and_close(3000);
    let after = open_and_close(30_000);
    assert!(after <= before + 64 * 1024, "{} bytes more", after.saturating_sub(before));
}
