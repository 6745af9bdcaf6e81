//! `foreread mount`: the real binary, next to the kernel's own mount of the same image.
//!
//! In:    images that mkfs.ext4 has made and the kernel, or mkfs, has filled; damaged ones.
//! Out:   trees that are the same; one line and an exit code for what cannot be.
//! Never: a mount that outlives its test.

mod covered;
mod fuzzed;
mod limits;
mod mapped;
pub(crate) mod mounted;
mod recorded;
mod same;
mod settings;
mod users;
mod wrong;
