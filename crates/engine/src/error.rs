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

pub use engine::EngineError;
pub(crate) use engine::{ForkedError, is_out_of_descriptors};
pub use open::{OpenError, OpenErrorKind};
pub use read::{ReadError, ReadErrorKind};
pub use setting::SettingError;
pub use write::{WriteError, WriteErrorKind};
