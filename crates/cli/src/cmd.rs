//! The verbs: one file each.

pub(crate) mod bench;
pub(crate) mod cat;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod mount;
pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod seeds;
pub(crate) mod serve;
pub(crate) mod set;
pub(crate) mod sim;
pub(crate) mod stat;
pub(crate) mod stats;
pub(crate) mod trace;
pub(crate) mod tune;
