//! The only place where foreread creates, replaces or removes a path in the file system.
//!
//! In:    paths given by users, and the fixed paths below /run, /var/lib and /etc.
//! Out:   files that are complete or absent, sockets, pid files, scratch files.
//! Never: a file of another program, an input of the same command, or a device node replaced or
//!        removed; a symbolic link followed at the last component of a path.
//!
//! docs/guide/files.md lists every such path and the refused cases. The data path (reads and writes
//! of an open TARGET) is not here: it creates no names.
//!
//! All checks use descriptors relative to the open directory, so the checked file is the one that
//! is replaced or removed, even if another process renames files in between.

#![forbid(unsafe_code)]

pub mod attribute;
pub mod cgroup;
mod destination;
mod draft;
mod entry;
mod error;
pub mod file_lock;
pub mod journal;
pub mod kept_file;
mod output;
mod pid_file;
pub mod regular;
pub mod scratch;
mod socket;
pub mod system;
pub mod trusted_path;

pub use destination::{OutputDestination, is_stdout};
pub use entry::CommandInput;
pub use error::FileError;
pub use output::{KeptPart, ResultFile};
pub use pid_file::PidFile;
pub use scratch::PrivateDirectory;
pub use socket::{SOCKET_PATH_MAX, SocketFile, bind};
