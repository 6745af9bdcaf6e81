//! Arguments that verbs of both programs share: value parsers and help.

pub mod duration;
pub mod help;
pub mod max_window;
pub mod policy;
pub mod trace_output;
