//! Integration tests of the crate, one binary: a module for each subject.

#[path = "../common/mod.rs"]
mod common;
#[path = "../growing/mod.rs"]
mod growing;
#[path = "../hang/mod.rs"]
mod hang;
#[path = "../little_room/mod.rs"]
mod little_room;
#[path = "../mounted/mod.rs"]
mod mounted;
#[path = "../no_threads/mod.rs"]
mod no_threads;
#[path = "../../../core/tests/common/mod.rs"]
mod plain;
#[path = "../recorded/mod.rs"]
mod recorded;
#[path = "../support/mod.rs"]
mod support;
#[path = "../tasks/mod.rs"]
mod tasks;

mod async_cursor;
mod asynchronous;
mod btree_pages;
mod bytes;
mod changing;
mod completions;
mod decisions;
mod errors;
mod examples;
mod extents;
mod faults;
mod fetch;
mod file_cursor;
mod filesystems;
mod full;
mod grow;
mod grow_faults;
mod grow_full;
mod grow_oracle;
mod grow_pages;
mod grow_power;
mod guests;
mod hints;
mod http_source;
mod observer;
mod open_again;
mod pins;
mod read_ranges;
mod remember;
mod smol;
mod source_devices;
mod source_ranges;
mod source_read_ahead;
mod sources;
mod standstill;
mod threads;
mod timeouts;
mod tokio_service;
mod tracing;
mod write_async;
mod write_async_lengths;
mod write_bytes;
mod write_devices;
mod write_durability;
mod write_faults;
mod write_inline;
mod write_limits;
mod write_open;
mod write_owned;
mod write_power;
