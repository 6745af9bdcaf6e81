//! Replay in virtual time, and eviction policies against models of them.

#[path = "replay/block_trace.rs"]
mod block_trace;
#[path = "replay/block_traces.rs"]
mod block_traces;
#[path = "replay/bounds.rs"]
mod bounds;
#[path = "replay/cache_policies.rs"]
mod cache_policies;
#[path = "replay/lib_cache_sim.rs"]
mod lib_cache_sim;
#[path = "replay/open_files.rs"]
mod open_files;
#[path = "replay/playing.rs"]
mod playing;
#[path = "replay/series.rs"]
mod series;
#[path = "replay/support.rs"]
mod support;
