//! Measurements shared by `demo` and `bench`.
//!
//! Every figure is measured in this process.

mod bare_memory;
pub(crate) mod bare_object;
pub(crate) mod figures;
pub(crate) mod flood;
pub(crate) mod memory_limit;
pub(crate) mod method;
pub(crate) mod nbd_load;
pub(crate) mod pattern;
mod random;
mod reader;
pub(crate) mod rounds;
pub(crate) mod run;
mod slow_device;
mod slow_mount;
pub(crate) mod slow_server;
pub(crate) mod target;
pub(crate) mod testbed;
