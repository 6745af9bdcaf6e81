//! Replay in virtual time, and eviction policies against models of them.

mod block_trace;
mod block_traces;
mod bounds;
mod cache_policies;
mod lib_cache_sim;
mod open_files;
mod playing;
mod series;
mod support;
