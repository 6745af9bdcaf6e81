//! Integration tests of the crate, one binary: a module for each subject.

#[path = "../../../object/tests/bucket_server/mod.rs"]
mod bucket_server;
#[path = "../../../engine/tests/common/mod.rs"]
mod common;
#[path = "../../../object/tests/faulty_server/mod.rs"]
mod faulty_server;
#[path = "../../../trace/tests/support/generated.rs"]
mod generated;
#[path = "../../../ext4/tests/images/mod.rs"]
mod images;
#[path = "../loop_device/mod.rs"]
mod loop_device;
#[path = "../../../tune/tests/machine/mod.rs"]
mod machine;
#[path = "../../../engine/tests/mounted/mod.rs"]
mod mounted;
#[path = "../said/mod.rs"]
mod said;
#[path = "../said/schema.rs"]
mod schema;
#[path = "../../../serve/tests/scrape/mod.rs"]
mod scrape;
#[path = "../../../tune/tests/it/doctor/tree.rs"]
mod tree;

mod bench;
mod demo;
mod device_model;
mod doctor;
mod doctor_systems;
mod explain;
mod flood;
mod html;
mod image;
mod json;
mod lab;
mod man;
mod mount;
mod objects;
mod outputs;
mod record;
mod replay;
mod replay_real;
mod series;
mod serve;
mod sim;
mod sim_comparison;
mod sim_engine;
mod sim_grid;
mod sim_rivals;
mod trace;
mod tune;
mod width;
