//! Arguments that several verbs of `foreread` share: value parsers and help.

pub(crate) mod assignment;
pub(crate) mod itable_readahead;
