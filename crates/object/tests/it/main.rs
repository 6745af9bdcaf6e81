//! Integration tests of the crate, one binary: a module for each subject.

#[path = "../bucket_server/mod.rs"]
mod bucket_server;
#[path = "../faulty_server/mod.rs"]
mod faulty_server;

mod cached_store;
mod faults;
mod hostile;
mod other_clouds;
mod parquet;
mod refusals;
