//! What can go wrong, by what its reader can do about it.
//!
//! In:    what the system said.
//! Out:   one line that says what was tried and what to do.
//! Never: a panic for something that came from outside.

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
