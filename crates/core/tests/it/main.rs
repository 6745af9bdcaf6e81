//! Integration tests of the crate, one binary: a module for each subject.

#![cfg(not(loom))]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/documented_table.rs"]
mod documented_table;
#[path = "../common/random.rs"]
mod random;
#[path = "../write_world/mod.rs"]
mod write_world;

mod adaptive;
mod adaptive_path;
mod adaptive_ways;
mod cache_ahead;
mod cache_mix;
mod cache_model;
mod demand_first;
mod device_model;
mod layout_model;
mod limit;
mod open_files;
mod path_asks;
mod path_files;
mod path_model;
mod path_settings;
mod path_timeout;
mod power_cut;
mod ranges;
mod remembered_device;
mod sched;
mod sched_model;
mod turns;
mod write_model;
mod write_refused;
mod write_steps;
