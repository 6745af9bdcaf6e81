//! The memory of an engine, to the byte.
//!
//! In:    a process with one test, whose allocations are counted.
//! Out:   its frames, and the bytes allocated beside them.
//! Never: pages that are resident.

#![allow(unreachable_pub, reason = "a module shared by several test crates")]

mod counter;

pub use counter::allocated_bytes;
use foreread::Engine;

/// What an engine has: all its frames, and what was allocated since `before`.
#[allow(dead_code, reason = "each test file uses the part it needs")]
pub fn memory_of(engine: &Engine, before: u64) -> u64 {
    let (_, frames) = engine.frames().expect("the engine is of this process");
    frames * 4096 + allocated_bytes().saturating_sub(before)
}
