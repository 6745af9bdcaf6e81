//! `foreread serve`, `stats` and `set`, as their users and other people's clients use them.
//!
//! In:    the real binary; nbdinfo, nbdcopy, libnbd, qemu, where the machine has them.
//! Out:   what they see, and what is in the file afterwards.
//! Never: a claim about speed; a port that another process may have.

#[path = "../../../object/tests/bucket_server/mod.rs"]
mod bucket_server;
#[path = "../../../engine/tests/common/mod.rs"]
mod common;
#[path = "../loop_device/mod.rs"]
mod loop_device;
#[path = "../../../engine/tests/mounted/mod.rs"]
mod mounted;
#[path = "../said/mod.rs"]
mod said;
#[path = "../../../serve/tests/scrape/mod.rs"]
mod scrape;

mod disk;
mod ends;
mod kills;
mod libnbd;
mod limits;
mod nbdkit_clients;
mod overlays;
mod paths;
mod qemu;
mod recorded;
mod remember;
mod server;
mod stuck;
mod tunables;
mod wrong_use;
