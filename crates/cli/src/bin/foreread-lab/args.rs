//! Arguments that several verbs of the lab share: value parsers and help.

pub(crate) mod device_model;
pub(crate) mod image_range;
pub(crate) mod policy;
pub(crate) mod seeds;
pub(crate) mod series;
pub(crate) mod trace_format;
