//! Integration tests of the crate, one binary: a module for each subject.

#[path = "../../../engine/tests/common/mod.rs"]
mod common;
#[path = "../images/mod.rs"]
mod images;

mod directories;
mod hostile;
mod itable;
mod kernel;
mod others;
