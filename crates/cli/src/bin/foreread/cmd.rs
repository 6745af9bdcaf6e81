//! The verbs: one file each.

pub(crate) mod bench;
pub(crate) mod cat;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod lab;
pub(crate) mod ls;
pub(crate) mod mount;
pub(crate) mod record;
pub(crate) mod serve;
pub(crate) mod set;
pub(crate) mod stat;
pub(crate) mod stats;
pub(crate) mod tune;
