//! Device models against times computed by hand, and against their tables.

#[path = "devices/bench.rs"]
mod bench;
#[path = "devices/flash.rs"]
mod flash;
#[path = "devices/hdd.rs"]
mod hdd;
#[path = "devices/mapped.rs"]
mod mapped;
#[path = "devices/refused.rs"]
mod refused;
#[path = "devices/store.rs"]
mod store;
