//! `foreread serve`, `stats` and `set`, as their users and other people's clients use them.
//!
//! In:    the real binary; nbdinfo, nbdcopy, libnbd, qemu, where the machine has them.
//! Out:   what they see, and what is in the file afterwards.
//! Never: a claim about speed; a port that another process may have.

mod disk;
mod ends;
mod kills;
mod libnbd;
mod limits;
mod nbdkit_clients;
mod overlays;
mod partitions;
mod paths;
mod qemu;
mod recorded;
mod remember;
mod server;
mod stuck;
mod tunables;
mod wrong_use;
