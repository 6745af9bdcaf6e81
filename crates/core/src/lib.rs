//! The core of foreread: all policies of a read path, and the state machine that joins them.
//!
//! In:    reads, markers met, completions, and the time, all as arguments.
//! Out:   device I/O to start ([`path`]), reads that are ready, and the trace of each decision.
//! Never: a clock, a file, a thread, a page's bytes, an error. Device errors are inputs, so no call
//!        fails because of one.
//!
//! Programs with their own page cache need only [`prefetch`]; programs with their own event loop
//! drive [`path::IoPath`] directly. The crate `foreread` does both over io_uring.

#![cfg_attr(not(any(test, loom)), no_std)]

extern crate alloc;

pub mod cache;
pub mod device_model;
pub mod geometry;
pub mod path;
pub mod prefetch;
pub mod ranges;
pub mod replay;
pub mod sched;
pub mod sizes;
pub mod stats;
pub mod store_requests;
pub mod table;
pub mod trace;
pub mod units;
pub mod windows;

mod call_log;
mod device_queue;
mod driver_io;
mod extent_map;
mod files;
mod ids;
mod lru;
mod page_in;
mod read_path;
mod shadow;
mod slab;
mod sync;
mod writeback;
