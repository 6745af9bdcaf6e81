//! The core of foreread: every policy of a read path, and the state machine that joins them.
//!
//! In:    reads, markers met, completions, and the time, all as arguments.
//! Out:   device I/O to start ([`path`]), reads that are ready, and the trace of each decision.
//! Never: a clock, a file, a thread, a page's bytes, an error. It cannot fail: what a device says
//!        is an input like any other.
//!
//! Programs with a page cache of their own need only [`prefetch`]; programs with an event loop of
//! their own drive [`path::IoPath`] themselves. The crate `foreread` does both over io_uring.

#![cfg_attr(not(any(test, loom)), no_std)]

extern crate alloc;

pub mod cache;
pub mod device_model;
pub mod geometry;
pub mod itable;
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
