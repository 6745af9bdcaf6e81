//! The verbs: one file each.

pub(crate) mod bench;
pub(crate) mod demo;
pub(crate) mod explain;
