//! Integration tests of the crate, one binary: a module for each subject.

#[path = "../scrape/mod.rs"]
mod scrape;
#[path = "../support/mod.rs"]
mod support;

mod fuzz;
mod hostile;
mod metrics;
mod protocol;
mod range;
mod server;
mod writes;
