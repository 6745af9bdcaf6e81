//! Device models against times computed by hand, and against their tables.

mod bench;
mod flash;
mod hdd;
mod mapped;
mod refused;
mod store;
