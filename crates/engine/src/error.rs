//! Errors, one type per operation, with variants grouped by remedy.
//!
//! In:    errors of the system, the device and the core.
//! Out:   a one-line message: the operation that failed, and the remedy.
//! Never: a panic caused by outside input.

mod engine;
mod open;
mod read;
mod setting;
mod write;

pub(crate) use engine::is_out_of_descriptors;
pub use engine::{EngineError, ForkedError};
pub use open::{OpenError, OpenErrorKind};
pub use read::ReadError;
pub use setting::SettingError;
pub use write::WriteError;
