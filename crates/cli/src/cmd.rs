//! The verbs: one file each.

pub(crate) mod demo;
pub(crate) mod explain;
