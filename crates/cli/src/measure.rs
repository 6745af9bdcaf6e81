//! Measurements shared by `demo` and `bench`.
//!
//! Every figure is measured in this process.

mod bare_memory;
pub mod bare_object;
pub mod figures;
pub mod flood;
pub mod memory_limit;
pub mod method;
pub mod nbd_load;
pub mod pattern;
mod random;
mod reader;
pub mod rounds;
pub mod run;
mod slow_device;
mod slow_mount;
pub mod slow_server;
pub mod target;
pub mod testbed;
