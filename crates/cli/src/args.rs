//! Arguments that several verbs have: value parsers and help. Each verb's own are in its file.

pub(crate) mod assignment;
pub(crate) mod device_model;
pub(crate) mod duration;
pub(crate) mod help;
pub(crate) mod itable_readahead;
pub(crate) mod max_window;
pub(crate) mod policy;
pub(crate) mod series;
pub(crate) mod trace_format;
pub(crate) mod trace_output;
