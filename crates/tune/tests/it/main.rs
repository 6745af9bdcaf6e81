//! Integration tests of the crate, one binary: a module for each subject.

#[path = "../../../engine/tests/common/mod.rs"]
mod common;
#[path = "../machine/mod.rs"]
mod machine;
#[path = "../remember_common/mod.rs"]
mod remember_common;
#[path = "../store_model/mod.rs"]
mod store_model;
#[path = "../virtual_device/mod.rs"]
mod virtual_device;

mod curves;
mod device_fit;
mod doctor;
mod flood;
mod never_worse;
mod packaging;
mod remember;
mod remember_conflict;
mod remember_identity;
mod remember_real;
mod remember_udev;
mod store_sweep;
mod sweep;
mod sweep_hostile;
mod target;
