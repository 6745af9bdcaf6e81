//! Integration tests of the crate, one binary: a module for each subject.

#[path = "../support/mutation.rs"]
mod mutation;
#[path = "../support/mod.rs"]
mod support;

mod formats;
mod mutated;
mod round_trip;
