//! The verbs of the lab: one file each.

pub(crate) mod explain;
pub(crate) mod replay;
pub(crate) mod seeds;
pub(crate) mod sim;
pub(crate) mod trace;
