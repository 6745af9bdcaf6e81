//! Integration tests of the crate, one binary: a module for each subject.

#[path = "../../../core/tests/common/documented_table.rs"]
mod documented_table;
#[path = "../../../core/tests/common/mod.rs"]
mod plain_cache;

mod adaptive;
mod compare;
mod comparison;
mod devices;
mod disk_2002;
mod durability;
mod ext4;
mod external_eviction;
mod flood;
mod golden;
mod grid;
mod hostile;
mod invariants;
mod object_store;
mod optimum;
mod policy_model;
mod replay;
mod rival_policies;
mod scenario;
mod seeds;
mod servers;
mod store_requests;
mod store_streams;
mod time_series;
mod vocabulary;
